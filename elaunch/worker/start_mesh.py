"""The ranks compare each mesh before the groups of its dimensions are made: another one elsewhere would be a hang.

Only meshes for which groups are made are compared, since all ranks must be there for that. One that uses the default
group as it is, or a part of another mesh, is a rank's own affair.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from elaunch.start_record import CHECKED
from elaunch.start_rules import ranks
from elaunch.worker.start import PATIENCE, SHARE, Start
from elaunch.worker.start_exchange import Answer, agree

PART_PATIENCE = 5.0  # seconds to wait where the mesh leaves ranks out: those need not come, as torch has it
_SHOWN = 16  # ranks of a mesh that a sentence shows


def check_mesh(start: Start, mesh: Any, made: int) -> None:
    """Raises StartCheckError where other ranks make another mesh than ``mesh``, torch's DeviceMesh.

    ``made`` is how many groups torch has numbered: ranks in which it differs have made other groups before, and what
    they make now is nothing to compare with.
    """
    if not start.whole or start.record.phase != CHECKED:
        return
    shape = list(mesh.mesh.shape)
    world_size = start.record.world_size
    if len(shape) == 1 and shape[0] == world_size:
        return
    names = list(mesh.mesh_dim_names or ())
    members = mesh.mesh.flatten().tolist()
    members = members if members != list(range(world_size)) else []
    value = json.dumps([str(mesh.device_type), shape, names, members])
    patience = PATIENCE if math.prod(shape) == world_size else PART_PATIENCE
    answer = agree_on_mesh(start, start.mesh_topic(made), value, min(patience, SHARE * start.record.timeout))
    if answer is not None and answer.fault:
        raise start.refuse(answer.fault)


def agree_on_mesh(start: Start, topic: str, value: str, seconds: float) -> Answer | None:
    """All ranks wait in here for one another; meeting.py looks for this name."""
    record = start.record
    return agree(start.store, topic, record.rank, record.world_size, value, _judged, seconds)


def _judged(values: Sequence[str]) -> Answer:
    return Answer(differing_meshes(values))


def differing_meshes(values: Sequence[str]) -> str:
    """What ranks describe differently, "" for nothing; ``values`` are by rank."""
    held: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        held.setdefault(value, []).append(rank)
    if len(held) < 2 or all(_alone(value) for value in held):
        return ""
    groups = sorted(held.items(), key=lambda item: (len(item[1]), item[1]))
    shown = (*groups[:3], groups[-1]) if len(groups) > 4 else groups
    parts = [f"{ranks(who)} {'makes' if len(who) == 1 else 'make'} {_described(value)}" for value, who in shown]
    return f"the ranks make different meshes under one call: {', '.join(parts)}"


def _alone(value: str) -> bool:
    """A mesh of one rank makes a group in which nobody is waited for: each rank may have one of its own."""
    return int(math.prod(json.loads(value)[1])) == 1


def _described(value: str) -> str:
    """``a cpu mesh of (2, 2) ('dp', 'tp')``, with its ranks where they are not all in order."""
    device_type, shape, names, members = json.loads(value)
    named = f" named {tuple(names)}" if names else ""
    more = ", ..." if len(members) > _SHOWN else ""
    of = f" of ranks {', '.join(map(str, members[:_SHOWN]))}{more}" if members else ""
    return f"a {device_type} mesh of {tuple(shape)}{named}{of}"
