"""What signals to the agent do, before it has joined, while it is a member, and once it is none any more."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from elaunch.agent import signals
from elaunch.agent.signals import SignalWatch
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import End

HANDLED = (signal.SIGTERM, signal.SIGINT)


class Member:
    """A membership and its ranks."""

    def __init__(self, *, attached: bool) -> None:
        self.attached = attached
        self.resigned: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self.stop_signal = signal.SIGTERM
        self.passed: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()

    def resign(self, end: End) -> None:
        self.resigned.set_result(end)

    async def signal(self, signum: signal.Signals) -> None:
        self.passed.set_result(signum)


async def cancelled_by(signum: signal.Signals) -> bool:
    os.kill(os.getpid(), signum)
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 5)
    except asyncio.CancelledError:
        return True
    return False


def test_a_stop_signal_before_joining_cancels_the_agent() -> None:
    async def run() -> bool:
        with SignalWatch(HANDLED) as watch:
            stopped = await cancelled_by(signal.SIGTERM)
            assert watch.first is signal.SIGTERM
        return stopped

    assert asyncio.run(run())


def test_a_stop_signal_after_the_lease_was_lost_cancels_the_agent() -> None:
    async def run() -> bool:
        with SignalWatch(HANDLED) as watch:
            member = Member(attached=True)
            watch.attach(member, StatusBoard(), member, 30.0)
            watch.detach()
            return await cancelled_by(signal.SIGTERM)

    assert asyncio.run(run())


def test_a_member_asks_for_its_leave_and_goes_alone_where_no_leader_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "UNHEARD", 0.01)

    async def run() -> None:
        with SignalWatch(HANDLED) as watch:
            member, board = Member(attached=False), StatusBoard()
            watch.attach(member, board, member, 30.0)
            os.kill(os.getpid(), signal.SIGINT)
            end = await asyncio.wait_for(member.resigned, 5)
            assert (end.outcome, end.exit_code) == ("stopped", 130)
            assert (board.now.leaving, board.now.stop_job, board.now.leaving_exit_code) == (True, True, 130)
            assert member.stop_signal is signal.SIGINT

    asyncio.run(run())


def test_user_signals_go_to_the_ranks_and_nothing_else_follows() -> None:
    async def run() -> None:
        with SignalWatch(HANDLED) as watch:
            member, board = Member(attached=True), StatusBoard()
            watch.attach(member, board, member, 30.0)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert await asyncio.wait_for(member.passed, 5) is signal.SIGUSR1
            assert not board.now.leaving
            assert watch.first is None

    asyncio.run(run())
