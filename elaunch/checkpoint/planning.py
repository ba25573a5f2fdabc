"""Which rank writes what: DCP's plan, made once and kept for as long as the state keeps its shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultSavePlanner, Metadata
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.tensor import DTensor

from elaunch.checkpoint import plans
from elaunch.checkpoint.manifest import Entry
from elaunch.checkpoint.ranks import Ranks


@dataclass(slots=True)
class Planned:
    """The plan that is carried out: this rank's share of it, and on rank 0 the metadata of the whole.

    ``described`` is this rank's part before any was given to another: a state of the same description needs no new
    plan.
    """

    described: bytes
    share: SavePlan
    metadata: Metadata | None
    entries: dict[str, Entry] = field(default_factory=dict)
    meshes: tuple[dict[str, Any], ...] = ()


def describe(state: dict[str, Any], rank: int) -> tuple[DefaultSavePlanner, SavePlan, bytes]:
    """What this rank has: the planner that finds it, DCP's local plan, and that plan in bytes."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(state, is_coordinator=rank == 0)
    plan = planner.create_local_plan()
    return planner, plan, plans.encode(plan)


def agree(planner: DefaultSavePlanner, plan: SavePlan, described: bytes, ranks: Ranks) -> Planned:
    """Share the work between all ranks. Collective. Raises ValueError on rank 0 for plans that do not fit together."""
    everyone = [plans.decode(one) for one in ranks.gather(described)]
    metadata, answers = None, []
    if everyone:
        shares, metadata = DefaultSavePlanner().create_global_plan(everyone)
        answers = [plans.encode_share(one, share) for one, share in zip(everyone, shares, strict=True)]
    share = plans.decode_share(plan, ranks.deal(answers))
    if metadata is None:
        return Planned(described, share, None)
    entries = {key: _entry(value, planner.state_dict.get(key)) for key, value in metadata.state_dict_metadata.items()}
    return Planned(described, share, metadata, entries, _meshes(planner.state_dict))


def _entry(value: Any, here: Any) -> Entry:
    if not hasattr(value, "properties"):
        return Entry()
    placements = ", ".join(map(str, here.placements)) if isinstance(here, DTensor) else ""
    return Entry(str(value.properties.dtype).removeprefix("torch."), tuple(value.size), placements)


def _meshes(state: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The device meshes in use, each once."""
    found = {
        (tuple(value.device_mesh.shape), tuple(value.device_mesh.mesh_dim_names or ()))
        for value in state.values()
        if isinstance(value, DTensor)
    }
    return tuple({"shape": list(shape), "names": list(names)} for shape, names in sorted(found))


def torch_version() -> str:
    """As the manifest says it."""
    return str(torch.__version__)
