"""When a rank counts as stuck in uninterruptible sleep, without one that is."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from elaunch.agent import trees
from elaunch.agent.stuck import TIMEOUT, Dwell, timeout_of, watch_stuck


@pytest.mark.parametrize(
    ("text", "seconds"), [("2.5", 2.5), ("0", 0.0), ("-1", 0.0), ("soon", 0.0), ("", 0.0), ("inf", 0.0), ("nan", 0.0)]
)
def test_the_timeout(text: str, seconds: float) -> None:
    assert timeout_of({TIMEOUT: text}) == seconds
    assert timeout_of({}) == 0.0


def test_only_an_unbroken_stay_counts() -> None:
    dwell = Dwell(10.0)
    assert dwell.look({1: "D", 2: "D", 3: "S"}, 100.0) == {}
    assert dwell.look({1: "D", 2: "R", 3: "D"}, 105.0) == {}
    assert dwell.look({1: "D", 2: "D", 3: "D"}, 110.0) == {1: 10.0}
    assert dwell.look({1: "D", 2: "D", 3: "D"}, 115.0) == {1: 15.0, 3: 10.0}
    assert dwell.look({2: "D"}, 119.9) == {}
    assert dwell.look({1: "D", 2: "D"}, 120.0) == {2: 10.0}


def test_each_stuck_rank_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With /proc as a kernel shows it whose disk hangs; a real one cannot be had in a test."""
    monkeypatch.setattr(trees, "process", lambda pid: trees.Process(pid, 1, "D" if pid == 70 else "S", 0))
    told: list[tuple[int, str]] = []

    async def main() -> None:
        watching = asyncio.create_task(watch_stuck(0.05, lambda: {0: os.getpid(), 3: 70}, lambda *t: told.append(t)))
        deadline = time.monotonic() + 60
        while not told:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(main())
    assert [local_rank for local_rank, _ in told] == [3]
    assert "uninterruptible sleep" in told[0][1]


def test_no_timeout_watches_nothing() -> None:
    asyncio.run(asyncio.wait_for(watch_stuck(0.0, dict, lambda *_: None), 5))
