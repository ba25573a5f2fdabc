"""What agents read of real torch ranks, started both ways, and the evidence that they take of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elaunch.agent.evidence import Evidence, collect
from elaunch.agent.witness import STACKS_SIGNAL
from elaunch.progress import GroupProgress, RankProgress
from tests.e2e.spawning import Bench
from tests.e2e.watching import Watched, installed

pytestmark = [pytest.mark.torch, pytest.mark.slow]

Ranks = tuple[RankProgress, ...]


@pytest.fixture(scope="module", params=["warm", "exec"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(request.param, env=installed(tmp_path_factory.mktemp("installed")))
    yield made
    made.close()


@pytest.fixture
def watched(bench: Bench, tmp_path: Path) -> Iterator[Watched]:
    made = Watched(bench, "watched.py", tmp_path / "ranks")
    yield made
    assert not bench.notes, "a rank was started in another way than was asked for"
    bench.stop(grace=0)
    made.close()


def group(rank: RankProgress, number: int) -> GroupProgress:
    return next(g for g in rank.groups if g.name.startswith(f"{number}/"))


def numbers(rank: RankProgress, number: int) -> tuple[int, int]:
    return group(rank, number).started, group(rank, number).finished


def evidence(watched: Watched, within: float = 8.0) -> Evidence:
    stderr = {n: watched.folder / f"{n}.err" for n in watched.pids}
    witnesses = watched.pages.witnesses(time.monotonic(), stderr)
    return asyncio.run(collect([lambda: watched.folder / "evidence"], witnesses, within))


def test_the_life_of_two_ranks(watched: Watched) -> None:
    """One after the other, in the same processes: what the program does is what its page tells."""
    _spared(watched)
    _unwritable(watched)
    _late(watched)
    _straggler(watched)
    _stopped(watched)
    _section(watched)
    _children(watched)
    _notice(watched)
    _held(watched)


def _late(watched: Watched) -> None:
    """Rank 0 waits for rank 1, which sleeps before the collective. It is the group's first, and so is each one's."""
    ranks = watched.until("rank 0 in the collective", lambda r: _described(r[0]) and all(map(_idle, r)))
    assert [numbers(rank, 0) for rank in ranks] == [(1, 0), (0, 0)]
    assert [numbers(rank, 1) for rank in ranks] == [(3, 3), (3, 3)]
    assert group(ranks[0], 0).collective == "all_reduce float32[8]"
    assert group(ranks[0], 1).name == "1/half/gloo"
    assert ranks[0].where == f"{watched.line('REDUCE')} in late"
    assert "in until" in ranks[1].where
    assert [rank.step for rank in ranks] == [2, 2]
    watched.go("late")


def _idle(rank: RankProgress) -> bool:
    """It beats, and does nothing else."""
    return min(rank.where_age, rank.progress_age) > 0.3 > rank.beat_age and len(rank.groups) == 2


def _described(rank: RankProgress) -> bool:
    return any(g.waiting and g.collective for g in rank.groups)


def _straggler(watched: Watched) -> None:
    """Rank 1 takes five times as long for its part of each step: rank 0 spends most of its time with waiting."""
    before = watched.until("the first steps", lambda r: r[0].groups and numbers(r[0], 0)[1] > 1)
    after = watched.until("all steps", lambda r: numbers(r[0], 0)[0] == 22 and numbers(r[1], 0)[1] == 21)
    own = [b.own_seconds - a.own_seconds for a, b in zip(before, after, strict=True)]
    waited = [b.waited_seconds - a.waited_seconds for a, b in zip(before, after, strict=True)]
    assert own[1] > 1.3 * own[0]
    assert waited[0] > 3 * waited[1]


def _stopped(watched: Watched) -> None:
    os.kill(watched.pids[1], signal.SIGSTOP)
    watched.until("a stopped rank", lambda r: r[1].state == "T" and r[1].beat_age > 0.3 and _idle(r[0]))
    begun = time.monotonic()
    found = evidence(watched)
    assert time.monotonic() - begun < 10.0
    assert "rank 1 is stopped at watched.py" in found.text
    assert (
        f"rank 0 waits in all_reduce float32[8], number 22 of group 0/default_pg/gloo at {watched.line('REDUCE')}"
        in (found.text)
    )
    assert [rank.how for rank in found.ranks] == ["thread", ""]
    os.kill(watched.pids[1], signal.SIGCONT)
    watched.go("straggled")


def _section(watched: Watched) -> None:
    """The outer section's deadline passes, though the inner one has all the time."""
    ranks = watched.until(
        "a section over its deadline", lambda r: all(x.section_left and x.section_left < -0.1 for x in r)
    )
    assert {rank.section for rank in ranks} == {"inner"}
    watched.go("overrun")
    watched.until("no section", lambda r: all(x.section == "" and x.section_left is None for x in r))


def _children(watched: Watched) -> None:
    """Data loaders' children, forked and spawned, import torch or have it: the page stays the rank's."""
    watched.until("children", lambda r: (watched.folder / "children").exists() and r[1].beat_age < 0.3)
    assert json.loads((watched.folder / "children").read_text()) == {"fork": [True, True], "spawn": [True, True]}
    ranks = watched.pages.read(time.monotonic())
    assert [rank.pid for rank in ranks] == list(watched.pids.values())
    assert ranks[1].step == 2
    watched.go("loaded")


def _notice(watched: Watched) -> None:
    ranks = watched.until("the loop", lambda r: all("in main" in x.where for x in r))
    assert not any(rank.stopping for rank in ranks)
    watched.pages.notify(60.0, "the node is drained")
    watched.until("that both have heard", lambda r: all(x.stopping for x in r))
    watched.until("their answers", lambda r: all((watched.folder / f"left{n}").exists() for n in (0, 1)))
    assert 40.0 < float((watched.folder / "left1").read_text()) <= 60.0


def _held(watched: Watched) -> None:
    """Rank 1 computes in C with the interpreter lock held: no beat, but a stack."""
    watched.go("noticed")
    ranks = watched.until("no beat", lambda r: r[1].beat_age > 0.5 and _described(r[0]))
    assert ranks[1].state == "R"
    found = evidence(watched)
    assert [rank.how for rank in found.ranks] == ["thread", "signal"]
    assert found.ranks[1].where == f"{watched.line('HELD')} in main"
    assert "rank 1 has not let go of the interpreter lock" in found.text
    folder = Path(found.folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["text"] == found.text
    assert [rank["pid"] for rank in summary["ranks"]] == list(watched.pids.values())
    flight = json.loads((folder / "rank0.flight.json").read_text().splitlines()[0])
    assert flight["entries"][-1]["profiling_name"] == "gloo:all_reduce"
    assert "futex" in (folder / "rank0.kernel.txt").read_text()
    assert (folder / "rank1.stacks.txt").read_text().count("thread 0x") > 1
    assert watched.until("still there", lambda r: r[1].state == "R")


def _spared(watched: Watched) -> None:
    """A rank without a handler would die of the signal: neither the page's word nor the kernel's alone will do."""
    watched.until("two ranks", lambda r: all(x.attached for x in r))
    witness, other = watched.pages.witnesses(time.monotonic(), {})
    watched.until("its handler", lambda _: witness.sight.page.signal == STACKS_SIGNAL)
    witness.sight.page.signal = 0
    assert not witness.interrupt()
    witness.sight.page.signal = STACKS_SIGNAL
    sleeper = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    try:
        other.rank = RankProgress(0, 0, sleeper, attached=True)
        assert not other.interrupt()
        time.sleep(0.1)
        assert os.waitpid(sleeper, os.WNOHANG) == (0, 0)
    finally:
        os.kill(sleeper, signal.SIGKILL)
        os.waitpid(sleeper, 0)


def _unwritable(watched: Watched) -> None:
    """A folder that cannot be written costs the files, and nothing else."""
    (watched.folder / "file").write_text("in the way")
    found = asyncio.run(collect([lambda: watched.folder / "file"], watched.pages.witnesses(time.monotonic(), {}), 1.0))
    assert found.folder == ""
    assert "not saved" in found.text
    assert len(found.ranks) == 2
