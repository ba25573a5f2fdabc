"""Where ranks wait for each other though no collective is under way: while they make a process group.

Torch numbers nothing there, and a group that is not made yet is in no list. So it is read off the main thread's frames:
inside of which call it is, and for which group. Only who is inside tells of it; who has the group is through.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import FrameType
from typing import Any

from elaunch.progress import INIT, MESH, NEW, GroupProgress

_CALLS = {"init_process_group": INIT, "_new_group_with_tag": NEW}
_OURS = "agree_on_mesh"
CALLS = frozenset({*_CALLS, _OURS})
_FILE = "distributed_c10d.py"
_OUR_FILE = "start_mesh.py"
_MOST_RANKS = 1 << 16


def meeting(frame: FrameType) -> GroupProgress | None:
    """What the thread whose innermost frame this is waits in; None where it makes no group, or one of other numbers."""
    at: FrameType | None = frame
    while at is not None:
        if at.f_code.co_name in _CALLS and at.f_code.co_filename.endswith(_FILE):
            return _described(_CALLS[at.f_code.co_name], at.f_locals)
        if at.f_code.co_name == _OURS and at.f_code.co_filename.endswith(_OUR_FILE):
            return GroupProgress(f"mesh/{MESH}", _number(os.environ.get("WORLD_SIZE")), 1, 0, MESH)
        at = at.f_back
    return None


def _described(call: str, values: Mapping[str, Any]) -> GroupProgress | None:
    world = _number(os.environ.get("WORLD_SIZE"))
    name, asked, ranks = values.get("group_name"), _number(values.get("world_size", -1)), values.get("ranks")
    if call == INIT and asked > 0 and asked != world:
        return None  # a world of the program's own: its numbers are not those of our ranks
    if call == NEW and not isinstance(name, str):
        return None  # it is not in anything that waits yet
    members = tuple(ranks) if call == NEW and isinstance(ranks, (list, tuple, range)) else ()
    if len(members) > _MOST_RANKS or not all(type(rank) is int for rank in members):
        return None
    members = () if len(members) == world else members
    return GroupProgress(f"{name or 0}/{call}", len(members) or world, 1, 0, call, members)


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, str)) and str(value).lstrip("-").isdecimal() else -1
