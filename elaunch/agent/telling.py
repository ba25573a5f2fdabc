"""What a person is told of this node's ranks: each thing in one line, and once."""

from __future__ import annotations

import socket

import structlog

from elaunch.agent.failures import made_up, shell_code
from elaunch.agent.start import STORE
from elaunch.controller.commands import PLANNED, Abort, End, Start
from elaunch.controller.faults import describe_exit
from elaunch.controller.job import BEGINNING
from elaunch.controller.operations import ABORTED
from elaunch.rendezvous.state import Failure, RankExit
from elaunch.start_rules import ranks

_WANTED = PLANNED | {ABORTED, "not_a_member"}  # stops that somebody asked for, or that concern nobody else


class Telling:
    """``max_restarts`` is how many restarts the job may have.

    A reason that has been told, as the failure of a rank of this node say, is not told again as the reason for what
    follows from it.
    """

    def __init__(self, max_restarts: int) -> None:
        self._max_restarts = max_restarts
        self._host = socket.gethostname()
        self._told: set[str] = {BEGINNING.text}
        self._failed = 0  # the last generation of which a rank failed here
        self._others: list[int] = []  # ranks that failed in it after the first of this node
        self._restarts: int | None = None  # as of the last start here: not every start is a restart that is charged
        self._log = structlog.get_logger()

    def failed(self, generation: int, end: RankExit) -> None:
        """A rank of this node, or its host of the store, has failed.

        The first of a generation is told at once, with all that is known of it; those after it are counted, as they
        mostly follow from it and would bury it.
        """
        code = shell_code(end.exit_code)
        if end.local_rank == STORE:
            self._log.warning("store_failed", text=end.message, generation=generation, exit_code=code)
            return
        text = describe_exit(Failure(self._host, end))
        self._told.add(text)
        said = "" if end.message == made_up(end.exit_code, end.pid) else " ".join(end.message.split())
        more = {"message": said, "traceback": end.traceback}
        say = self._log.warning
        if self._failed == generation:
            self._others.append(end.rank)
            say = self._log.debug
        self._failed = generation
        told = {name: value for name, value in more.items() if value}
        say("rank_failed", text=text, generation=generation, rank=end.rank, exit_code=code, **told)

    def _tell_others(self) -> None:
        if self._others:
            number, self._others = len(self._others), sorted(self._others)
            text = f"{number} more of this node failed after the first: {ranks(self._others)}"
            self._log.warning("more_ranks_failed", text=text, generation=self._failed)
            self._others = []

    def aborting(self, abort: Abort, *, leaving: bool) -> None:
        """The ranks are to be stopped; where this node ``leaving`` is the reason, that is known."""
        self._tell_others()
        known = leaving or self._knows(abort.reason)
        say = self._log.debug if known else self._log.info if abort.code in _WANTED else self._log.warning
        say("aborting", code=abort.code, generation=abort.generation, reason=abort.reason)
        self._told.add(abort.reason)

    def starting(self, start: Start) -> None:
        """A generation starts."""
        self._tell_others()
        more = {} if self._knows(start.reason) else {"reason": start.reason}
        if self._restarts is not None and start.restart_count > self._restarts:
            more["text"] = f"restart {start.restart_count} of {self._max_restarts}"
        self._told, self._restarts = {start.reason}, start.restart_count
        self._log.info(
            "starting",
            generation=start.generation,
            restart_count=start.restart_count,
            ranks=start.world_size,
            nodes=start.group_world_size,
            **more,
        )

    def running(self, start: Start) -> None:
        """The ranks of this node run."""
        self._log.info("running", generation=start.generation)

    def _knows(self, reason: str) -> bool:
        return any(reason.startswith(told) for told in self._told)


def tell_end(end: End) -> None:
    """The last line of a job on each of its nodes."""
    if end.code == "signal":
        return  # no leader said how the job goes on, and the exit says the rest
    log = structlog.get_logger()
    if end.outcome == "left":
        log.info("node_left", reason=end.reason)
        return
    say = {"succeeded": log.info, "stopped": log.warning}.get(end.outcome, log.error)
    say(f"job_{end.outcome}", code=end.code, reason=end.reason, exit_code=end.exit_code)
