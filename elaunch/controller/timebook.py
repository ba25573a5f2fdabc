"""A job's time as one leader books it: what it sees goes into the accounts, the figures and the lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from elaunch.clock import Clock
from elaunch.controller.audience import Audience
from elaunch.controller.history import Entry
from elaunch.controller.job import Job
from elaunch.controller.job_events import Diagnosed, Event, NodeLost, StatusReceived
from elaunch.controller.ledger import summed
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.timekeeping import SILENT, UNGROUPED, WORKING, Seen, timed, working
from elaunch.controller.vigil import Vigil
from elaunch.metrics.goodput import PHASES
from elaunch.metrics.recovery import Recovery
from elaunch.metrics.tally import Figures
from elaunch.rendezvous.records import Phase
from elaunch.reports import RESTORED, RESTORING

MOST_UNSEEN = 10.0  # seconds by which an exit may be late: beyond that the hosts' clocks differ
_COURSE = tuple(f"job_{phase.value}" for phase in Phase)


class Timebook:
    """``hung`` is for how many seconds the last hang that was found had lasted by then."""

    def __init__(self, name: str, clock: Clock, vigil: Vigil, audience: Audience, figures: Figures) -> None:
        """``name`` is the job's. What is seen of the ranks comes from ``vigil``, of their nodes from ``audience``."""
        self._name = name
        self._clock = clock
        self._vigil = vigil
        self._audience = audience
        self._figures = figures
        self.recovered: Callable[[Recovery], None] = lambda _: None
        """Hears of each recovery once it is over."""
        self.hung = 0.0
        self._restoring: tuple[int, set[int]] = (0, set())
        self._spans: list[tuple[str, float]] = []  # phases that are over, and no line has told of yet
        self._recovery: list[tuple[str, float]] = []  # all since the ranks were at work

    def hear(self, status: NodeStatus, generation: int) -> None:
        """Which ranks restore a checkpoint now."""
        for line in status.lines:
            if line.generation != generation or line.kind not in (RESTORING, RESTORED):
                continue
            if self._restoring[0] != line.generation:
                self._restoring = (line.generation, set())
            ranks = self._restoring[1]
            ranks.add(line.rank) if line.kind == RESTORING else ranks.discard(line.rank)

    def unseen(self, event: Event) -> float:
        """For how many seconds it was not known what ``event`` tells, if it ends the generation."""
        if isinstance(event, Diagnosed):
            return self.hung
        if isinstance(event, NodeLost):
            return max(0.0, self._audience.silence(event.node_id, self._clock.monotonic()))
        if isinstance(event, StatusReceived) and (ends := [e for e in event.status.exits if e.exit_code]):
            late = self._clock.wall() - min(end.time for end in ends)  # of two hosts' clocks
            return late if 0 < late < MOST_UNSEEN else 0.0
        return 0.0

    def book(self, before: Job, job: Job, unseen: float = 0.0) -> tuple[Job, list[Entry]]:
        """Book the time up to now, in which the job went from ``before`` to ``job``: the job with its accounts.

        With it the line that the ranks have come to work, where they have. ``unseen`` is what it is for this event.
        """
        found = timed(before, job, self._seen(job), self._clock.wall(), unseen)
        self._spans += found.spans
        self._recovery += found.spans
        for phase, seconds in found.spans:
            if phase in PHASES:
                self._figures.phase(phase, seconds)
        if found.accounts is not job.accounts:
            job = replace(job, accounts=found.accounts)
        if not found.working:
            return job, []
        recovery, self._recovery = tuple(p for p in self._recovery if p[0] in PHASES), []
        after, reason = job.accounts, job.plan.reason if job.plan else job.reason
        told = (after.working, recovery, after.first_step)
        self.recovered(Recovery(self._name, job.generation, job.restart_count, reason.code, reason.text, *told))
        return job, [working(job, summed(recovery))]

    def told(self, entry: Entry) -> Entry:
        """A line of the job's course, with the phases that are over since the last one."""
        if entry.code != WORKING and entry.code not in _COURSE:
            return entry
        spans, self._spans = tuple(self._spans), []
        return replace(entry, spans=spans)

    def _seen(self, job: Job) -> Seen:
        offset = self._clock.wall() - self._clock.monotonic()
        starts = self._vigil.starts
        first, up = self._vigil.first, starts.through
        watched = self._vigil.generation == job.generation
        return Seen(
            first[0] if first and watched else -1,
            first[1] + offset if first and watched else None,
            up + offset if up is not None and watched else None,
            bool(self._restoring[1]) and self._restoring[0] == job.generation,
            math.inf if starts.under_way else UNGROUPED if starts.known else SILENT,
        )
