"""How long notice is, and what cuts it short."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from elaunch.agent import preempting
from elaunch.agent.notice import Notice
from elaunch.agent.options import Scheduled
from elaunch.agent.preempting import hold
from elaunch.agent.start import Exit
from elaunch.agent.status import StatusBoard
from elaunch.controller.preemption import TERMINATED, WARNED

SLURM = Scheduled("Slurm", notice_signal=signal.SIGUSR1)


class Programs:
    """Where programs would look, and what they saw."""

    listened_to = True

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.told: asyncio.Queue[float] = asyncio.Queue()

    def notify(self, deadline_seconds: float, reason: str) -> None:
        self.seconds.append(round(deadline_seconds, 0))
        self.told.put_nowait(deadline_seconds)


def given(code: str, scheduled: Scheduled | None, *, hurry: bool = False, grace: float = 20.0) -> list[float]:
    """What the programs were told, where they end once they were told so often."""
    programs = Programs()

    async def run() -> None:
        generation = SimpleNamespace(ranks={0}, ended=asyncio.Event(), noticed=False)
        ranks: Any = SimpleNamespace(generation=generation, hurry=asyncio.Event())
        giving = asyncio.create_task(Notice(programs, ranks, grace, None, scheduled).give("why", asyncio.Event(), code))
        await asyncio.wait_for(programs.told.get(), 30)
        if hurry:
            ranks.hurry.set()
            await asyncio.wait_for(programs.told.get(), 30)
        generation.ended.set()
        await asyncio.wait_for(giving, 30)

    asyncio.run(run())
    return programs.seconds


def test_a_warning_leaves_what_the_scheduler_leaves() -> None:
    assert 270 < given(WARNED, replace(SLURM, ends_at=time.time() + 310))[0] <= 300
    assert given(WARNED, replace(SLURM, ends_at=time.time() + 310), hurry=True)[1] == 18


def test_all_else_leaves_the_grace_less_what_sigterm_needs() -> None:
    assert given(TERMINATED, SLURM) == [18]
    assert given("node_left", SLURM) == [18]
    assert given(WARNED, Scheduled("Slurm")) == [18]
    assert given(WARNED, Scheduled("Slurm", ends_at=time.time() - 5)) == [18]


def held(end: int, scheduled: Scheduled | None, *, leaving_after: float | None = None) -> float:
    """Seconds for which the end of a rank is kept back."""

    async def run() -> float:
        board = StatusBoard()
        if leaving_after is not None:
            asyncio.get_running_loop().call_later(leaving_after, lambda: board.update(leaving=True))
        began = time.monotonic()
        await hold(Exit(0, 1, end, 0.0), scheduled, board)
        return time.monotonic() - began

    return asyncio.run(run())


def test_a_rank_that_dies_of_slurms_signal_is_no_news_before_the_agent_has_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preempting, "HOLD", 0.3)
    assert held(-signal.SIGTERM, SLURM) >= 0.3
    assert held(-signal.SIGUSR1, SLURM) >= 0.3
    monkeypatch.setattr(preempting, "HOLD", 60.0)
    assert held(-signal.SIGTERM, SLURM, leaving_after=0.05) < 30.0
    for end, scheduled in ((-signal.SIGKILL, SLURM), (1, SLURM), (-signal.SIGTERM, None)):
        assert held(end, scheduled) < 30.0
