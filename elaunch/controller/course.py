"""The course of a job under one leader: each event changes its state, what follows is written and then told.

All writes carry the leader's guard, so that a deposed leader cannot write; a plan is committed before anyone hears of
it, a final state before anyone is told to end.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import structlog

from elaunch.clock import Clock
from elaunch.controller.answering import disown
from elaunch.controller.audience import Audience
from elaunch.controller.findings import Finding, lines
from elaunch.controller.history import HOST_FAILED, Entry, saved, told
from elaunch.controller.intake import Found
from elaunch.controller.job import Job
from elaunch.controller.job_events import (
    Diagnosed,
    Event,
    LinkFailed,
    NodeJoined,
    NodeLost,
    OperationsWritten,
    OperatorCommand,
    PlanCommitted,
    StartRefused,
    StatusReceived,
    Tick,
)
from elaunch.controller.ledger import Ledger
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.policy import Policy
from elaunch.controller.registrar import Registrar
from elaunch.controller.rerouting import LINK_FAULT, RESTART, may_restart, refusal
from elaunch.controller.resuming import resume
from elaunch.controller.state import next_deadline, step
from elaunch.controller.streams import Outbox
from elaunch.controller.timebook import Timebook
from elaunch.controller.vigil import Vigil
from elaunch.errors import BadRecordError
from elaunch.metrics.tally import Figures
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.memory import Accounts
from elaunch.rendezvous.records import Phase, Reason

_QUIET = (Phase.WAITING, Phase.RUNNING)


class Course:
    """``job`` is where it is now; its heartbeats go to ``vigil``, its streams to ``audience``."""

    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        ledger: Ledger,
        log: structlog.typing.FilteringBoundLogger,
        refuse: Callable[..., None],
        host_failed: Callable[[str, str], None],
        name: str = "",
    ) -> None:
        """``refuse`` counts what a rank asks for and must not have.

        ``host_failed`` hears of each host that failed, and how, as one sentence. ``name`` is the job's.
        """
        self._host_failed = host_failed
        self._policy = policy
        self._clock = clock
        self._ledger = ledger
        self._log = log
        self.job = Job(policy)
        self.vigil = Vigil(policy, self._now)
        self.audience = Audience(self._now, ledger.stands)
        self._registrar = Registrar(refuse)
        self.figures = Figures()
        self.timebook = Timebook(name, clock, self.vigil, self.audience, self.figures)
        ledger.watched = self.figures.writes.observe

    @property
    def _now(self) -> float:
        return self._clock.monotonic()

    def begin(
        self, found: Found, accepted: tuple[Operation, ...], leader: str, unsealed: tuple[Operation, ...] = ()
    ) -> None:
        """Go on from where etcd has it; ``accepted`` are the commands that the leader before was at.

        ``unsealed`` are said to be such, and were written by no operator: they are refused, so as not to stay open.
        """
        offset = self._clock.wall() - self._now
        job = resume(self._policy, found.state, found.plan, found.nodes, self._now, accepted, offset)
        incarnation = (
            (found.state.incarnation if found.state else "") or self._policy.incarnation or secrets.token_hex(8)
        )
        accounts = found.state.accounts if found.state else Accounts()
        job = replace(job, checkpoint=found.checkpoint, incarnation=incarnation, accounts=accounts)
        self.job = disown(job, unsealed)
        self.vigil.recall(self.job.learnt)
        self.vigil.links.recall(self.job.links)
        self.take(Tick())
        host = next((node.host for node in found.nodes if node.node_id == leader), "")
        who = f"{host} ({leader})" if host else f"controller {leader}"
        if found.defect:
            self._log.error(BadRecordError.code, text=found.defect)
            self._ledger.note([Entry(BadRecordError.code, found.defect, self.job.generation)])
        self._ledger.note([Entry("leading", f"{who} leads", self.job.generation)])

    def take(self, event: Event) -> None:
        """The job after ``event``."""
        if isinstance(event, OperatorCommand) and self._ledger.stands(event.operation.id):
            return  # seen twice: it has had its effect
        if self.vigil.step > self.job.step:
            self.job = replace(self.job, step=self.vigil.step)
        before, unseen = self.job, self.timebook.unseen(event)
        if isinstance(event, StatusReceived):
            self._hear(event.status)
        self.job = step(self.job, event, self._now)
        if isinstance(event, NodeJoined) and (status := self.audience.joined(event.node.node_id)):
            self._hear(status)
            self.job = step(self.job, StatusReceived(status), self._now)
        if isinstance(event, NodeLost):
            self.audience.lost(event.node_id)
            self._registrar.forget(event.node_id)
        self.vigil.follow(self.job, self._now)
        self.job, working = self.timebook.book(before, self.job, unseen)
        self._note(told(before, self.job))
        self._note(working)

    async def follow_up(self) -> None:
        """What follows from where the job is now: write, then tell."""
        if self.job.uncommitted and (plan := self.job.plan) is not None:
            written = await self._ledger.commit_plan(plan, self.job)
            self.take(PlanCommitted(plan.generation))
            self.take(OperationsWritten(written))
        while self._ledger.owes(self.job):
            self.take(OperationsWritten(await self._ledger.write(self.job)))
        self.audience.tell(self.job, self._now)
        recorded, noted = self._ledger.has_recorded(self.job), self._ledger.has_noted()
        self._registrar.tell(self.audience, recorded=recorded, noted=noted)
        if not self.job.phase.final:
            self._ledger.write_behind(self.job)

    def judge(self) -> list[Event]:
        """What the ranks' progress tells, if it is time to look at it."""
        judgement = self.vigil.judge(self._now, self._clock.wall())
        if judgement is None:
            return []
        self.job = replace(self.job, learnt=self.vigil.handed_on(self.job.learnt))
        self.job, working = self.timebook.book(self.job, self.job)
        self._note(working)
        for silent in judgement.silent:
            self._log.warning("node_silent", node=silent.node_id, host=silent.host, reason=silent.text)
            self._ledger.note([Entry("node_silent", silent.text, self.vigil.generation)])
        for straggler in judgement.stragglers:
            code = "straggler_recovered" if straggler.recovered else "straggler"
            self._log.warning(code, rank=straggler.rank, host=straggler.host, reason=straggler.text)
            self._ledger.note([Entry(code, straggler.text, self.vigil.generation)])
        broken = self._judge_links(judgement.links)
        if judgement.refusal:
            return [StartRefused(self.vigil.generation, judgement.refusal)]
        hang = judgement.hang
        if hang is None or broken:
            return broken
        host = hang.culprits[0].host if hang.culprits else ""
        self.timebook.hung = hang.seconds
        return [Diagnosed(self.vigil.generation, Reason(hang.code, hang.text), host)]

    def _judge_links(self, findings: Sequence[Finding]) -> list[Event]:
        """Tell of ports; what is to be done about those that are broken."""
        generation = self.vigil.generation
        broken = [f for f in findings if f.broken and f.ranks and not f.over]
        for event, text in lines(findings):
            self._log.warning(event, reason=text)
            self._ledger.note([Entry(event, text, generation)])
        if (faults := self.vigil.links.faults) != self.job.links:
            self.job = replace(self.job, links=faults)
        if not broken or self._policy.on_link_fault != RESTART:
            return []
        if not may_restart(self.job, self._now):
            self._log.warning(LINK_FAULT, reason=refusal())
            self._ledger.note([Entry(LINK_FAULT, refusal(), generation)])
            return []
        return [LinkFailed(generation, broken[0].text)]

    def welcome(self, outbox: Outbox) -> None:
        """Tell a stream that has come what its node is to do; that the job is over only once etcd says so."""
        view = self.job.nodes.get(outbox.node_id)
        if view and not outbox.closed and (self._ledger.ends(self.job) or not self.job.phase.final):
            self.audience.welcome(outbox, self.job, view)

    def patience(self) -> float | None:
        """Seconds until time alone may change something; None where it cannot."""
        now = self._now
        times: Iterable[float | None] = (
            next_deadline(self.job, now),
            self.vigil.due,
            self.audience.retell if self.job.phase is Phase.WAITING else None,
        )
        deadline = min((time for time in times if time is not None), default=None)
        return None if deadline is None else max(0.0, deadline - now)

    @property
    def quiet(self) -> bool:
        """Nothing is under way that the next leader would have to find out."""
        return self.job.phase in _QUIET and not self.job.uncommitted and self._ledger.has_all(self.job)

    def over(self, leader: str) -> bool:
        """The job has ended, and no other node than the leader is left to hear of it."""
        return self.job.phase.final and not (self.job.nodes.keys() - {leader})

    def _hear(self, status: NodeStatus) -> None:
        """What a status says beside what its node runs."""
        self._note(saved(self.job, status))
        view = self.job.nodes.get(status.node_id)
        self.vigil.hear_starts(status, self._now, view.node.host if view else status.node_id)
        self.timebook.hear(status, self.job.generation)
        self.job, entries = self._registrar.hear(self.job, status, self._now)
        self._note(entries)

    def _note(self, entries: Sequence[Entry]) -> None:
        """Log what has happened, and put it into the job's history."""
        entries = [self.timebook.told(entry) for entry in entries]
        for entry in entries:
            # Each node tells its own part of the job's course; what operators ask for only the leader knows.
            tell = self._log.info if entry.code.startswith("command_") else self._log.debug
            tell = self._log.warning if entry.loud else tell
            tell(entry.code, generation=entry.generation, text=entry.text)
            if entry.code == HOST_FAILED:
                self._host_failed(entry.subject, entry.text)
        self._ledger.note(entries)
