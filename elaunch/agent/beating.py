"""The agent's beat for the probes of a kubelet: that its loop runs, and how far its node is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from elaunch.agent.options import Scheduled
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import SPARE, Command, Wait
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.rendezvous.waiting import cancelled, within
from elaunch.schedulers.probe_file import SECONDS, ProbeFile

_HERE = (RunPhase.RUNNING, RunPhase.SUCCEEDED)


def standing(status: NodeStatus, wanted: Command | None) -> tuple[str, str]:
    """How the node stands, in a word and in a sentence: member and spare are of use to the job."""
    if status.leaving:
        return "leaving", "the node leaves the job"
    if status.phase in _HERE:
        return "member", f"a member of generation {status.generation}"
    if isinstance(wanted, Wait):
        return ("spare" if wanted.reason == SPARE else "waiting"), wanted.reason
    return "waiting", f"{status.phase.value} in generation {status.generation}"


class Beat:
    """What is beaten; until ``attach`` the agent looks for its etcd."""

    def __init__(self, file: ProbeFile) -> None:
        self._file = file
        self._board: StatusBoard | None = None
        self._wanted: Callable[[], Command | None] = lambda: None
        self._told = False

    def attach(self, board: StatusBoard, wanted: Callable[[], Command | None]) -> None:
        """From now on beat what these say."""
        self._board, self._wanted = board, wanted

    async def run(self) -> None:
        """Beat until cancelled: every ``SECONDS``, and when the node's status changes."""
        version = -1
        while True:
            if self._board is None:
                self._beat("opening", "the agent looks for the job's etcd")
                await asyncio.sleep(SECONDS)
                continue
            self._beat(*standing(self._board.now, self._wanted()))
            with contextlib.suppress(asyncio.TimeoutError):
                version, _ = await within(SECONDS, self._board.newer_than(version))

    def _beat(self, state: str, text: str) -> None:
        """A disk that is full may have room again, before the kubelet ends a node that nothing else ails."""
        try:
            self._file.beat(state, text)
        except OSError as error:
            if not self._told:
                structlog.get_logger().warning("no_probe_file", reason=str(error))
            self._told = True


@asynccontextmanager
async def beating(scheduled: Scheduled | None) -> AsyncIterator[Beat | None]:
    """Beat while the context lasts, where a scheduler asks for it. Where it cannot be, that is a warning."""
    file = _file(scheduled.probe_file) if scheduled is not None and scheduled.probe_file else None
    if file is None:
        yield None
        return
    beat = Beat(file)
    task = asyncio.create_task(beat.run())
    try:
        yield beat
    finally:
        await cancelled(task)
        file.close()


def _file(path: str) -> ProbeFile | None:
    try:
        return ProbeFile(path)
    except OSError as error:
        structlog.get_logger().warning("no_probe_file", reason=str(error))
        return None
