"""Which rank writes what: DCP's plan, made once and kept for as long as the state keeps its shape."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultSavePlanner, Metadata
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.tensor import DTensor

from elaunch.checkpoint.collective import plans
from elaunch.checkpoint.collective.agreeing import agree
from elaunch.checkpoint.collective.ranks import Ranks
from elaunch.checkpoint.records.manifest import Entry
from elaunch.errors import StateError


@dataclass(frozen=True, slots=True)
class Described:
    """The state of this rank, by flattened key, and where each key stood in the nested one.

    ``signature`` is all of it that a plan depends on. It is compared at every save, so it is cheap to make. The keys
    ``lowest`` may differ between ranks: that of the lowest rank is stored.
    """

    flat: dict[str, Any]
    paths: dict[str, Any]
    signature: list[tuple[Any, ...]]
    lowest: frozenset[str] = frozenset()

    def planner(self) -> DefaultSavePlanner:
        """DCP's planner, which finds the values of this state."""
        planner = DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        planner.set_up_planner(self.flat)
        return planner

    def plan(self) -> SavePlan:
        """What this rank alone would write."""
        return replace(self.planner().create_local_plan(), planner_data=self.paths)


@dataclass(slots=True)
class Planned:
    """The plan that is carried out: this rank's share of it, and on rank 0 the metadata of the whole.

    ``signature`` is that of this rank's state: one of the same signature needs no new plan.
    """

    signature: list[tuple[Any, ...]]
    share: SavePlan
    metadata: Metadata | None
    entries: dict[str, Entry] = field(default_factory=dict)
    meshes: tuple[dict[str, Any], ...] = ()


def describe(state: dict[str, Any], lowest: frozenset[str] = frozenset()) -> Described:
    """What this rank has."""
    flat, paths = flatten_state_dict(state)
    return Described(flat, paths, [_signature(key, value) for key, value in flat.items()], lowest)


def share_out(mine: Described, ranks: Ranks) -> Planned:
    """Share the work between all ranks. Collective. Raises StateError on all of them where their states do not fit."""
    plan = agree(ranks, mine.plan, "its state cannot be planned")
    told = ranks.gather(plans.encode(plan, mine.lowest))
    answers, planned = agree(ranks, lambda: _answers(mine, told), "the states of the ranks do not fit together")
    return replace(planned, share=plans.decode_share(plan, ranks.deal(answers)))


def _answers(mine: Described, said: list[bytes]) -> tuple[list[bytes], Planned]:
    """On rank 0: what each rank is answered, and what rank 0 keeps of the plan; nothing on the others."""
    if not said:
        return [], Planned(mine.signature, SavePlan([]), None)
    told = [plans.decode(one) for one in said]
    everyone = [one for one, _ in told]
    if unfit := _unfit(everyone):
        raise StateError(unfit)
    try:
        given = plans.of_lowest(told)  # copies: torch 2.6 takes items out of the plans that it is given
        shares, metadata = DefaultSavePlanner().create_global_plan(given)
    except (ValueError, AssertionError) as error:
        raise StateError(f"the states of the ranks do not fit together: {error}") from error
    answers = [plans.encode_share(one, share) for one, share in zip(everyone, shares, strict=True)]
    entries = {key: _entry(value, mine.flat.get(key)) for key, value in metadata.state_dict_metadata.items()}
    return answers, Planned(mine.signature, SavePlan([]), metadata, entries, _meshes(mine.flat))


def _unfit(everyone: list[SavePlan]) -> str:
    """A tensor that two ranks hold in different shapes, if there is one: of the two DCP would keep one, in silence."""
    seen: dict[str, tuple[int, tuple[int, ...]]] = {}
    for rank, plan in enumerate(everyone):
        for item in plan.items:
            if item.tensor_data is None:
                continue
            name, shape = item.index.fqn, tuple(item.tensor_data.size)
            first, other = seen.setdefault(name, (rank, shape))
            if other != shape:
                return (
                    f"{name!r} has shape {other} on rank {first} and {shape} on rank {rank}, and only one would be "
                    "kept; build the same objects on all ranks, or declare what differs PerRank"
                )
    return ""


def _signature(key: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, torch.Tensor):
        return (key,)
    common = key, value.dtype, value.shape, value.requires_grad
    return (*common, value.placements, value.device_mesh) if isinstance(value, DTensor) else common


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
