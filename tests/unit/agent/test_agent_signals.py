"""What signals to the agent do, before it has joined, while it is a member, and once it is none any more."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time

import pytest

from elaunch.agent import signals
from elaunch.agent.options import Scheduled
from elaunch.agent.preempting import RESERVE, catches, time_left
from elaunch.agent.signals import SignalWatch
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import End
from elaunch.controller.preemption import EXIT_WORK_REMAINS, TERMINATED, WARNED

HANDLED = (signal.SIGTERM, signal.SIGINT)


class Member:
    """A membership and its ranks."""

    def __init__(self, *, attached: bool) -> None:
        self.attached = attached
        self.resigned: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self.stop_signal = signal.SIGTERM
        self.hurry = asyncio.Event()
        self.pids: dict[int, int] = {}
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


def under_slurm(seconds: float | None = None, warning: signal.Signals | None = signal.SIGUSR1) -> Scheduled:
    return Scheduled("Slurm", notice_signal=warning, ends_at=None if seconds is None else time.time() + seconds)


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGTERM, TERMINATED), (signal.SIGUSR1, WARNED)], ids=["SIGTERM", "SIGUSR1"]
)
def test_a_schedulers_signal_ends_the_whole_job_with_work_remaining(signum: signal.Signals, code: str) -> None:
    async def run() -> None:
        with SignalWatch(HANDLED, under_slurm()) as watch:
            member, board = Member(attached=True), StatusBoard()
            watch.attach(member, board, member, 30.0)
            version, _ = await board.newer_than(-1)
            os.kill(os.getpid(), signum)
            _, status = await asyncio.wait_for(board.newer_than(version), 5)
            assert (status.leaving, status.stop_job, status.leaving_code) == (True, True, code)
            assert status.leaving_exit_code == EXIT_WORK_REMAINS
            assert "Slurm" in status.leaving_reason
            assert member.stop_signal is signal.SIGTERM
            assert not member.passed.done()
            assert not member.hurry.is_set()

    asyncio.run(run())


def test_sigterm_after_the_warning_cuts_the_time_short() -> None:
    async def run() -> None:
        with SignalWatch(HANDLED, under_slurm(300)) as watch:
            member, board = Member(attached=True), StatusBoard()
            watch.attach(member, board, member, 30.0)
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.wait_for(board.newer_than(0), 5)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(member.hurry.wait(), 5)
            assert board.now.leaving_code == WARNED

    asyncio.run(run())


def test_ranks_that_handle_the_warning_themselves_get_it_and_nothing_else_follows() -> None:
    async def run() -> None:
        with SignalWatch(HANDLED, under_slurm()) as watch:
            member, board = Member(attached=True), StatusBoard()
            member.pids = {0: os.getpid()}  # handles it: this very watch
            watch.attach(member, board, member, 30.0)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert await asyncio.wait_for(member.passed, 5) is signal.SIGUSR1
            assert not board.now.leaving

    asyncio.run(run())


def test_without_a_warning_signal_it_is_handed_on() -> None:
    async def run() -> None:
        with SignalWatch(HANDLED, under_slurm(warning=None)) as watch:
            member, board = Member(attached=True), StatusBoard()
            watch.attach(member, board, member, 30.0)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert await asyncio.wait_for(member.passed, 5) is signal.SIGUSR1
            assert not board.now.leaving

    asyncio.run(run())


def test_an_operators_drain_is_this_nodes_leave_under_a_scheduler_too() -> None:
    async def run() -> None:
        with SignalWatch(HANDLED, under_slurm()) as watch:
            member, board = Member(attached=True), StatusBoard()
            watch.attach(member, board, member, 30.0)
            watch.leave("drained by an operator")
            assert (board.now.stop_job, board.now.leaving_exit_code) == (False, 143)

    asyncio.run(run())


def test_a_job_that_slurm_stops_before_it_began_has_work_left() -> None:
    async def run() -> None:
        with SignalWatch(HANDLED, under_slurm()) as watch:
            assert await cancelled_by(signal.SIGTERM)
            assert watch.first is not None
            assert watch.end(watch.first).exit_code == EXIT_WORK_REMAINS
            assert watch.end(signal.SIGINT).exit_code == 130

    asyncio.run(run())


def test_the_time_left_is_that_of_the_job_less_a_reserve() -> None:
    assert time_left(Scheduled("Slurm", ends_at=1120.0), 1000.0) == 120.0 - RESERVE
    assert time_left(Scheduled("Slurm", ends_at=900.0), 1000.0) == 0.0
    assert time_left(Scheduled("Slurm"), 1000.0) == 0.0


def test_who_handles_a_signal_is_what_the_kernel_says() -> None:
    sleeping = subprocess.Popen(["sleep", "60"])
    try:
        assert not catches(sleeping.pid, signal.SIGUSR1)
    finally:
        sleeping.kill()
        sleeping.wait()
    assert catches(os.getpid(), signal.SIGINT)
    assert not catches(sleeping.pid, signal.SIGINT)
