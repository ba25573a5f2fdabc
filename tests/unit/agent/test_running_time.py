"""The clock by which an agent tells how old things are: it stands still while the agent does."""

from __future__ import annotations

import asyncio

import pytest

from elaunch.agent.running_time import RunningTime


def test_a_gap_is_no_time() -> None:
    told = iter((0.0, 0.5, 1.0, 61.0, 61.5, 62.5))
    clock = RunningTime(lambda: next(told))
    assert [clock.now() for _ in range(5)] == [0.5, 1.0, 1.0, 1.5, 2.5]


def test_time_that_nobody_asks_for_passes_while_it_ticks() -> None:
    async def test() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        clock = RunningTime(loop.time)
        async with clock.ticking():
            began, before = loop.time(), clock.now()
            await asyncio.sleep(1.3)  # longer than a gap that counts
            return clock.now() - before, loop.time() - began

    seen, passed = asyncio.run(test())
    assert seen == pytest.approx(passed, abs=0.01)
