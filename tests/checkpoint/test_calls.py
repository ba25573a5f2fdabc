"""Calls that are not made as they should be: other steps on other ranks, two at once, from a child, after the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elaunch.checkpoint import Checkpointer, checkpointer
from elaunch.checkpoint.collective.committing import Outcome
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.storages.posix import Posix
from elaunch.errors import CheckpointError

_SECONDS = 30


class Room:
    """Where two ranks, threads of one process, meet."""

    def __init__(self) -> None:
        self.given: list[Any] = [None, None]
        self.barrier = threading.Barrier(2, timeout=_SECONDS)

    def swap(self, rank: int, mine: Any) -> list[Any]:
        self.given[rank] = mine
        self.barrier.wait()
        told = list(self.given)
        self.barrier.wait()
        return told


class Seat:
    """One rank's connection to the other."""

    size = 2

    def __init__(self, room: Room, rank: int) -> None:
        self.room = room
        self.rank = rank

    left = False

    def leave(self, why: str) -> None: ...

    def gather(self, mine: bytes) -> list[bytes]:
        told = self.room.swap(self.rank, mine)
        return told if self.rank == 0 else []

    def share(self, mine: bytes) -> list[bytes]:
        return self.room.swap(self.rank, mine)

    def tell(self, data: bytes) -> bytes:
        told: bytes = self.room.swap(self.rank, data)[0]
        return told

    def deal(self, shares: list[bytes]) -> bytes:
        told: bytes = self.room.swap(self.rank, shares)[0][self.rank]
        return told


Both = Callable[..., list[Any]]


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Both]:
    """Runs a function of (checkpointer, its tensor, rank) on both ranks; what each returned or raised."""
    rooms, here = [Room(), Room()], threading.local()
    monkeypatch.setattr(checkpointer, "connect", lambda *_: [Seat(room, here.rank) for room in rooms])
    tensors = [torch.zeros(3), torch.zeros(3)]

    def made(rank: int) -> Checkpointer:
        here.rank = rank
        return Checkpointer(tmp_path / "run", {f"of{one}": tensors[one] for one in (0, 1)}, rng=False)

    def call(rank: int, work: Callable[[Checkpointer, list[torch.Tensor], int], Any]) -> Any:
        try:
            return work(checkpointers[rank], tensors, rank)
        except CheckpointError as error:
            return error

    with ThreadPoolExecutor(2) as threads:
        checkpointers = list(threads.map(made, (0, 1)))
        yield lambda work: list(threads.map(call, (0, 1), (work, work)))
        list(threads.map(Checkpointer.close, checkpointers))


def names(path: Path) -> list[str]:
    return Catalog(Posix(path / "run")).names()


def test_ranks_at_different_steps_save_nothing_and_all_hear_of_it(both: Both, tmp_path: Path) -> None:
    told = both(lambda one, _, rank: (one.save(1 + rank), one.wait()))
    assert [str(one) for one in told] == [
        "rank 0 saves step 1 where rank 1 saves step 2; every rank makes the same saves, in the same order"
    ] * 2
    assert not names(tmp_path)
    assert [one.committed for _, one in both(lambda one, _, __: (one.save(3), one.wait()))] == [True, True]
    assert names(tmp_path) == ["step-00000003"]


def test_ranks_that_restore_different_steps_restore_none(both: Both) -> None:
    both(lambda one, _, __: (one.save(1), one.wait()))
    told = both(lambda one, _, rank: one.restore(step=1 if rank else None))
    assert ["rank 0 restores the newest where rank 1 restores step 1" in str(one) for one in told] == [True, True]
    assert both(lambda one, _, __: one.restore(step=1)) == [1, 1]


def test_one_rank_restores_while_the_other_saves(both: Both, tmp_path: Path) -> None:
    told = both(lambda one, _, rank: one.save(1) if rank else one.restore())
    assert str(told[0]).startswith("rank 0 restores the newest where rank 1 saves step 1; every rank makes")
    assert str(told[1]).startswith("rank 0 restores the newest where others save; every rank makes")
    assert not names(tmp_path)


def test_a_save_that_one_rank_alone_takes_for_done_is_made_on_both(both: Both, tmp_path: Path) -> None:
    def forgets(one: Checkpointer, _: object, rank: int) -> bool:
        one.save(1)
        one.wait()
        if rank:  # it did not hear in time what became of it
            one._last = Outcome(1, error="another rank did not answer")
        one.save(1)
        return one.wait().committed

    assert both(forgets) == [True, True]
    assert names(tmp_path) == ["step-00000001", "step-00000001.claim-1"]


@pytest.mark.parametrize("step", [np.int64(7), torch.tensor(7), True])
def test_a_step_of_another_type_is_taken_as_a_number(tmp_path: Path, step: Any) -> None:
    with Checkpointer(tmp_path / "run", {"w": torch.ones(1)}) as one:
        one.save(step)
        assert one.wait().name == f"step-{int(step):08d}"
        assert one.restore(step=step) == int(step)


@pytest.mark.parametrize(
    ("step", "raised"), [(7.0, TypeError), ("7", TypeError), (-1, ValueError), (1 << 62, ValueError)]
)
def test_what_is_no_step_is_refused_by_the_call(tmp_path: Path, step: Any, raised: type[Exception]) -> None:
    with Checkpointer(tmp_path / "run", {"w": torch.ones(1)}) as one:
        with pytest.raises(raised):
            one.save(step)
        with pytest.raises(raised):
            one.restore(step=step)


def test_a_second_save_is_refused_while_one_has_not_returned(tmp_path: Path) -> None:
    class Nested:
        def state_dict(self) -> dict[str, int]:
            with pytest.raises(CheckpointError, match=r"save\(2\): another call of this rank has not returned"):
                one.save(2)
            with pytest.raises(CheckpointError, match=r"close\(\): another call"):
                one.close()
            return {"a": 1}

        def load_state_dict(self, state: dict[str, int]) -> None: ...

    with Checkpointer(tmp_path / "run", {"nested": Nested()}) as one:
        one.save(1)
        assert one.wait().committed
    assert names(tmp_path) == ["step-00000001"]


def test_a_closed_one_saves_and_restores_no_more(tmp_path: Path) -> None:
    one = Checkpointer(tmp_path / "run", {"w": torch.ones(1)})
    one.save(1)
    one.close()
    one.close()
    assert one.wait().committed
    with pytest.raises(CheckpointError, match="this Checkpointer is closed"):
        one.save(2)
    with pytest.raises(CheckpointError, match="is closed"):
        one.restore()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_neither_saves_nor_closes(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "run", {"w": torch.ones(1)}) as one:
        one.save(1)
        one.wait()
        if not (pid := os.fork()):
            try:
                one.close()
                one.save(2)
            except CheckpointError as error:
                os._exit(3 if "forked child" in str(error) else 4)
            os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        one.save(3)
        assert one.wait().committed
    assert names(tmp_path) == ["step-00000001", "step-00000003"]


def test_where_no_thread_can_be_started_a_save_is_made_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Checkpointer(tmp_path / "run", {"w": torch.ones(1)}) as one:
        monkeypatch.setattr(threading.Thread, "start", start)
        one.save(1)
        assert names(tmp_path) == ["step-00000001"]
        assert one.wait().committed
