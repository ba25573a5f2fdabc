"""Which process group a thread waits for to be made, read off frames that look like torch's."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from elaunch.progress import GroupProgress
from elaunch.worker.meeting import meeting

TORCH = """
def init_process_group(look, group_name="0", world_size=-1):
    return look()

def _new_group_with_tag(look, ranks=None, group_name="3"):
    return look()

def new_group(look, **more):
    return _new_group_with_tag(look, **more)

def all_reduce(look):
    return look()
"""


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("WORLD_SIZE", "4")
    names: dict[str, Any] = {}
    exec(compile(TORCH, "/site-packages/torch/distributed/distributed_c10d.py", "exec"), names)
    return names


def here() -> FrameType:
    return sys._getframe()


def seen() -> GroupProgress | None:
    return meeting(here())


def test_the_first_group_is_of_all_ranks(torch: dict[str, Any]) -> None:
    assert torch["init_process_group"](seen) == GroupProgress("0/init_process_group", 4, 1, 0, "init_process_group")
    assert torch["init_process_group"](seen, world_size=4) is not None
    assert torch["init_process_group"](seen, world_size=2) is None, "those numbers are not our ranks'"


def test_another_group_is_of_its_own_ranks(torch: dict[str, Any]) -> None:
    found = torch["new_group"](seen, ranks=[3, 1])
    assert found == GroupProgress("3/new_group", 2, 1, 0, "new_group", (3, 1))
    assert found.making
    assert found.waiting
    assert torch["new_group"](seen) == GroupProgress("3/new_group", 4, 1, 0, "new_group")
    assert torch["new_group"](seen, group_name=None) is None, "it is not as far yet"


def test_elsewhere_there_is_none(torch: dict[str, Any]) -> None:
    assert seen() is None
    assert torch["all_reduce"](seen) is None


def test_who_compares_a_mesh_waits_for_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    names: dict[str, Any] = {}
    exec(compile("def agree_on_mesh(look):\n    return look()\n", "/elaunch/worker/start_mesh.py", "exec"), names)
    found = names["agree_on_mesh"](seen)
    assert found == GroupProgress("mesh/init_device_mesh", 4, 1, 0, "init_device_mesh")
    assert found.making
    exec(compile("def agree_on_mesh(look):\n    return look()\n", "/theirs.py", "exec"), names)
    assert names["agree_on_mesh"](seen) is None
