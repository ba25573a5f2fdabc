"""Process groups as a rank sees them, with torch's recorders played: what they say, and when they must not be asked."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from elaunch.progress import GroupProgress
from elaunch.worker import background
from elaunch.worker.groups import Groups
from elaunch.worker.place import Place
from elaunch.worker.recorder import described


class Group:
    """A process group; its own number moves before its recorder hears of the collective."""

    def __init__(self, desc: str = "undefined") -> None:
        self.group_desc = desc
        self.sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self.sequence


@dataclass
class Torch:
    """The parts of torch that are looked at."""

    backend: str = "gloo"
    statuses: dict[int, list[int]] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0
    dumped: int = 0
    world: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            pg_names={}, pg_group_ranks={}, pg_backend_config={}, group_count=0, default_pg=None
        )
    )

    def group(self, name: str, ranks: list[int], desc: str = "undefined") -> Group:
        made = Group(desc)
        self.world.pg_names[made] = name
        self.world.pg_group_ranks[made] = {rank: n for n, rank in enumerate(ranks)}
        self.world.pg_backend_config[made] = f"cpu:{self.backend},cuda:{self.backend}"
        self.world.group_count += 1
        self.world.default_pg = self.world.default_pg or made
        return made

    def begin(self, number: int, name: str, group: Group, operation: str = "all_reduce", begun: int = -1) -> None:
        """A collective that is recorded: ``number`` is the recorder's for the group."""
        group.sequence += 1
        status = self.statuses.setdefault(number, [0, -1, -1])
        status[0] = group.sequence
        status[1] = group.sequence if begun < 0 else begun
        self.entries.append(
            {
                "pg_id": number,
                "process_group": [name, group.group_desc],
                "collective_seq_id": group.sequence,
                "op_id": group.sequence,
                "profiling_name": f"{self.backend}:{operation}",
                "input_dtypes": ["Float"],
                "input_sizes": [[4, 2]],
                "is_p2p": False,
                "retired": False,
            }
        )

    def end(self, number: int, told: int | None = None) -> None:
        """All that has begun is over; the status says that ``told`` was the last."""
        self.statuses[number][2] = self.statuses[number][0] if told is None else told
        for entry in self.entries:
            entry["retired"] |= entry["pg_id"] == number

    def dump(self, entries: bool, only_active: bool) -> bytes:
        self.asked += 1
        self.dumped += entries
        names = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
        status = {str(n): dict(zip(names, map(str, s), strict=True)) for n, s in self.statuses.items()}
        return json.dumps({"pg_status": status, **({"entries": self.entries} if entries else {})}).encode()


def pretend(monkeypatch: pytest.MonkeyPatch, torch: Torch) -> Torch:
    module: Any = ModuleType("torch.distributed.distributed_c10d")
    module._world = torch.world
    c10d: Any = ModuleType("torch._C._distributed_c10d")
    name = {"gloo": "_dump_fr_trace_json", "nccl": "_dump_nccl_trace_json"}[torch.backend]
    setattr(c10d, name, torch.dump)
    c10d.ProcessGroup = Group
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, c10d.__name__, c10d)
    return torch


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    return pretend(monkeypatch, Torch())


def seen(groups: Groups, *, inside: bool = False, still: bool = False) -> list[tuple[int, int]]:
    groups.look(inside=inside, still=still)
    return [(g.started, g.finished) for g in groups.progress]


def test_without_torch_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed.distributed_c10d", raising=False)
    assert seen(Groups()) == []


def test_groups_are_named_with_their_ranks(torch: Torch) -> None:
    torch.group("0", list(range(8)), "default_pg")
    torch.group("5", [6, 2], "mesh_tp")
    groups = Groups()
    assert seen(groups) == [(0, 0), (0, 0)]
    assert groups.progress == (
        GroupProgress("0/default_pg/gloo", 8, 0, 0),
        GroupProgress("5/mesh_tp/gloo", 2, 0, 0, "", (6, 2)),
    )


def test_collectives_are_followed(torch: Torch) -> None:
    group = torch.group("0", [0, 1])
    groups = Groups()
    torch.begin(3, "0", group)
    torch.end(3)
    assert seen(groups) == [(1, 1)]
    torch.begin(3, "0", group)
    assert seen(groups, inside=True) == [(2, 1)]
    assert groups.waiting
    torch.end(3)
    assert seen(groups, inside=True) == [(2, 2)]
    assert not groups.waiting
    assert torch.dumped == 1  # the entries were needed once, for the name


def test_a_recorder_is_not_asked_while_a_first_collective_is_recorded(torch: Torch) -> None:
    """It would read what is just written. The number alone tells that the rank is in it."""
    group, other = torch.group("0", [0, 1]), torch.group("1", [0, 1])
    groups = Groups()
    torch.begin(0, "0", group)
    torch.end(0)
    assert seen(groups) == [(1, 1), (0, 0)]
    asked = torch.asked
    other.sequence = 1  # not recorded yet
    assert seen(groups, inside=True) == [(1, 1), (1, 0)]
    assert torch.asked == asked
    other.sequence = 0
    torch.begin(1, "1", other)
    assert seen(groups, inside=True, still=True) == [(1, 1), (1, 0)]
    assert torch.asked > asked
    torch.end(1)
    assert seen(groups, inside=True) == [(1, 1), (1, 1)]


def test_a_group_of_background_threads_is_not_told_of(torch: Torch) -> None:
    group, saver = torch.group("0", [0, 1]), torch.group("1", [0, 1])
    groups = Groups()
    for number, one in enumerate((group, saver)):
        torch.begin(number, str(number), one)
        torch.end(number)
    assert seen(groups) == [(1, 1), (1, 1)]
    background.declare(saver)
    torch.begin(1, "1", saver)
    assert seen(groups) == [(1, 1)]
    assert not groups.waiting
    torch.begin(0, "0", group)
    assert seen(groups, inside=True) == [(2, 1)]


def test_what_a_background_thread_is_at_is_not_what_the_program_is_at() -> None:
    entered, leave = threading.Event(), threading.Lock()
    begins = compile("entered.set(); leave.acquire()", "/torch/distributed/c10d.py", "exec")

    def save(declared: bool) -> None:
        with background.thread() if declared else contextlib.nullcontext():
            exec(begins, {"entered": entered, "leave": leave})

    for declared in (True, False):
        leave.acquire()
        thread = threading.Thread(target=save, args=[declared])
        thread.start()
        try:
            assert entered.wait(20)
            place = Place()
            looks = []
            # The thread is seen before it has come back from telling that it is there.
            for _ in range(10 if declared else 2000):
                place.look()
                looks.append(place.distributed)
                if place.distributed:
                    break
                time.sleep(0.01)
            assert any(looks) is not declared
        finally:
            leave.release()
            thread.join()
            leave.release()
            entered.clear()


def test_an_unused_group_does_not_hide_that_another_is_waited_for(torch: Torch) -> None:
    group = torch.group("0", [0, 1])
    torch.group("1", [0, 1])
    groups = Groups()
    torch.begin(0, "0", group)
    torch.end(0)
    assert seen(groups)[0] == (1, 1)
    torch.begin(0, "0", group)
    seen(groups, inside=True)  # it may be about to use the other
    assert seen(groups, inside=True, still=True)[0] == (2, 1)


def test_what_is_waited_for_is_described_after_a_while(torch: Torch) -> None:
    group = torch.group("0", [0, 1])
    groups = Groups()
    torch.begin(0, "0", group)
    torch.end(0)
    seen(groups)
    torch.begin(0, "0", group, "broadcast")
    for _ in range(15):
        seen(groups, inside=True, still=True)
    assert groups.progress[0].collective == "broadcast float32[4,2]"
    assert torch.dumped == 2
    torch.end(0)
    torch.begin(0, "0", group)
    seen(groups, inside=True)
    assert groups.progress[0].collective == ""
    groups.look(inside=True, still=True, describe=True)
    assert groups.progress[0].collective == "all_reduce float32[4,2]"


def test_what_is_over_is_not_waited_for_though_the_status_names_an_older_one(torch: Torch) -> None:
    """Gloo's threads write it down in the order in which they come to it, the older one last."""
    group, other = torch.group("0", [0, 1]), torch.group("1", [0, 1])
    groups = Groups()
    torch.begin(0, "0", group)
    torch.begin(1, "1", other)
    torch.begin(0, "0", group)
    seen(groups)
    torch.end(0, told=1)
    for _ in range(15):
        seen(groups)
    assert seen(groups) == [(2, 2), (1, 0)]
    torch.end(1)
    assert seen(groups) == [(2, 2), (1, 1)]
    assert not groups.waiting
    torch.begin(0, "0", group)
    torch.begin(0, "0", group)
    assert seen(groups)[0] == (4, 2)
    torch.entries[-1]["retired"] = True
    for _ in range(15):
        seen(groups)
    assert seen(groups)[0] == (4, 2), "the one before is under way"
    assert groups.waiting


def test_a_name_that_comes_back_is_another_group(torch: Torch) -> None:
    """After destroy_process_group names begin anew, the recorder's numbers go on."""
    group = torch.group("0", [0, 1])
    groups = Groups()
    for _ in range(3):
        torch.begin(0, "0", group)
        torch.end(0)
    assert seen(groups) == [(3, 3)]
    torch.world.pg_names.clear()
    torch.world.default_pg, torch.world.group_count = None, 0
    assert seen(groups) == []
    again, other = torch.group("0", [0, 1]), torch.group("1", [0, 1])
    assert seen(groups) == [(0, 0), (0, 0)]
    torch.begin(1, "1", other)
    torch.end(1)
    assert seen(groups) == [(0, 0), (1, 1)]
    torch.begin(2, "0", again)
    torch.end(2)
    assert seen(groups) == [(1, 1), (1, 1)]


def test_without_a_recorder_the_number_and_the_place_tell(torch: Torch) -> None:
    """TORCH_FR_BUFFER_SIZE=0, or a backend that keeps no record."""
    group = torch.group("0", [0, 1])
    groups = Groups()
    group.sequence = 7
    assert seen(groups) == [(7, 7)]
    assert seen(groups, inside=True) == [(7, 6)]


def test_nccl_waits_when_its_device_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host runs ahead: what it has enqueued says who is missing, what the device has begun says who waits."""
    torch = pretend(monkeypatch, Torch("nccl"))
    group = torch.group("0", [0, 1])
    groups = Groups()
    torch.begin(0, "0", group)
    torch.end(0)
    seen(groups)
    torch.begin(0, "0", group, begun=1)
    torch.begin(0, "0", group, begun=1)
    assert seen(groups) == [(3, 1)]
    assert not groups.on_device
    torch.statuses[0][1] = 2
    seen(groups)
    assert groups.on_device
    assert not groups.waiting


@pytest.mark.parametrize(
    ("operation", "dtypes", "sizes", "text"),
    [
        ("gloo:barrier", [], [], "barrier"),
        ("nccl:all_reduce", ["BFloat16"], [[]], "all_reduce bfloat16[]"),
        ("gloo:all_gather", ["Long", "Bool"], [[1], [2, 3]], "all_gather int64[1] bool[2,3]"),
        ("gloo:all_reduce", ["Float"] * 4, [[1]] * 4, "all_reduce float32[1] float32[1] and 2 more"),
    ],
)
def test_descriptions(operation: str, dtypes: list[str], sizes: list[list[int]], text: str) -> None:
    assert described(operation, dtypes, sizes) == text
