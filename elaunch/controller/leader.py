"""One term of leadership: what the nodes and etcd tell of a job takes its course, for as long as the lead is ours."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from elaunch.clock import Clock
from elaunch.controller.access import Access
from elaunch.controller.counters import Counters
from elaunch.controller.course import Course
from elaunch.controller.hang_report import HangReport
from elaunch.controller.inbox import Inbox
from elaunch.controller.intake import Found, Intake
from elaunch.controller.job import Job
from elaunch.controller.job_events import Event, OperationsWritten, OperatorCommand, StatusReceived, Tick
from elaunch.controller.ledger import COMMANDS_AT_ONCE, Ledger
from elaunch.controller.links import Links
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.policy import Policy
from elaunch.controller.seals import is_sealed
from elaunch.controller.sightings import RankView
from elaunch.controller.streams import Outbox
from elaunch.errors import LeaseLostError
from elaunch.metrics.recovery import Recovery
from elaunch.metrics.tally import Figures
from elaunch.progress import Heartbeat
from elaunch.rendezvous.election import Leadership
from elaunch.rendezvous.journal import Operation, Standing
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Phase
from elaunch.rendezvous.store import Store
from elaunch.rendezvous.waiting import cancelled

NOT_LEADING = "this agent does not lead any more"


def _for_ever() -> float:
    return math.inf


def _unheard(host: str, text: str) -> None:
    return


class Term:
    """Leads one job from election to deposition or the end of the job.

    ``run`` returns when the job has ended and every other node has left, or at the quiet moment that ``retire`` asks
    for. It raises DeposedError when somebody else leads, LeaseLostError where that may be so, or EtcdLostError.

    ``left`` tells the seconds for which the leader's lease can still be relied on: a leader that was frozen wakes up
    with none, and then neither writes nor commands anything. ``node_id`` is that of the leader itself, where it is a
    node of the job. ``host_failed`` hears of each host that failed, and how.
    """

    def __init__(
        self,
        store: Store,
        keys: JobKeys,
        leadership: Leadership,
        policy: Policy,
        clock: Clock,
        node_id: str,
        *,
        left: Callable[[], float] = _for_ever,
        host_failed: Callable[[str, str], None] = _unheard,
    ) -> None:
        self.epoch = leadership.epoch
        self.counters = Counters()  # the server that serves this term puts its own here, and its access
        self.access = Access()
        self._keys = keys
        self._clock = clock
        self._node_id = node_id
        self._left = left
        self._retiring = False
        self._log = structlog.get_logger().bind(job=keys.job)
        self._ledger = Ledger(store, keys, leadership.guard, clock, self._assert_holds)
        self._inbox = Inbox()
        self._intake = Intake(store, keys, self._inbox.put, self._is_sealed, self._ledger.stands)
        self._course = Course(policy, clock, self._ledger, self._log, self._refuse, host_failed, keys.job)
        self._audience = self._course.audience

    @property
    def name(self) -> str:
        """The job's name."""
        return self._keys.job

    @property
    def figures(self) -> Figures:
        """What is counted in this term."""
        return self._course.figures

    def hear_recoveries(self, hear: Callable[[Recovery], None]) -> None:
        """``hear`` is told of each recovery that is over."""
        self._course.timebook.recovered = hear

    @property
    def job(self) -> Job:
        """The state of the job as this leader knows it."""
        return self._course.job

    @property
    def now(self) -> float:
        """The leader's monotonic clock, in seconds."""
        return self._clock.monotonic()

    def hears(self, node_id: str) -> bool:
        """Whether this node has a stream."""
        return self._audience.hears(node_id)

    def silence(self, node_id: str) -> float:
        """Seconds since the node's last message; -1 if there was none."""
        return self._audience.silence(node_id, self.now)

    @property
    def ranks(self) -> tuple[RankView, ...]:
        """What is known of the ranks' progress, by rank."""
        return self._course.vigil.views

    @property
    def hang(self) -> HangReport | None:
        """The last hang that was found in this term."""
        return self._course.vigil.report

    @property
    def stragglers(self) -> Mapping[int, float]:
        """The ranks that are slower than their peers, each with the factor at which it was told."""
        return self._course.vigil.stragglers

    @property
    def links(self) -> Links:
        """What is known of ports."""
        return self._course.vigil.links

    @property
    def holds(self) -> bool:
        """Whether this leader can be sure that no other one leads."""
        return self._left() > 0

    @property
    def unheard_since(self) -> float | None:
        """Since when (monotonic seconds) nobody has come near this leader; None while a node has a stream."""
        return self._audience.unheard_since

    def approached(self) -> None:
        """Somebody came, and be it with an older leader's token: this leader can be reached."""
        self._audience.approached(self.now)

    def retire(self) -> None:
        """End the term where nothing is under way, for another to lead."""
        self._retiring = True
        self._inbox.put(Tick())

    async def run(self) -> None:
        course, watches = self._course, set[asyncio.Task[None]]()
        try:
            found = await self._load()
            watches.add(asyncio.create_task(self._intake.watch_nodes(found.nodes_at)))
            watches.add(asyncio.create_task(self._intake.watch_commands(found.commands_at)))
            await course.follow_up()
            while not course.over(self._node_id) and not (self._retiring and course.quiet):
                events = await self._next_events(watches)
                self._assert_holds()
                for event in events:
                    course.take(event)
                await course.follow_up()
        finally:
            self._audience.close(NOT_LEADING)
            await cancelled(*watches, self._ledger.writing)

    # --- the streams --------------------------------------------------------------------------------------------

    def attach(self, node_id: str) -> Outbox:
        """A node's stream has come; its former one, if any, ends."""
        outbox = self._audience.attach(node_id)
        self._course.welcome(outbox)
        return outbox

    def detach(self, outbox: Outbox) -> None:
        """A stream has ended. Whether the node is dead its lease will tell."""
        self._audience.detach(outbox, self.now)

    def receive(self, status: NodeStatus) -> None:
        """A node's status. One whose key is not seen yet is kept until it is; one whose lease ended is refused."""
        if self._audience.is_stale(status.node_id):
            self.counters.refuse("stale node", node=status.node_id, generation=status.generation)
        elif status.node_id in self.job.nodes:
            self._audience.heard(status.node_id, self.now)
            self._inbox.put(StatusReceived(status))
        else:
            self._audience.keep(status)

    def passes_over(self, node_id: str, generation: int) -> bool:
        """Whether a heartbeat of this node and generation is stale: then it is counted, and not read any further."""
        if self._course.vigil.expects(node_id, generation):
            return False
        if self.job.phase is Phase.RUNNING:
            self.counters.count("stale heartbeat")
            self._log.debug("stale_heartbeat_refused", node=node_id, generation=generation)
        return True

    def hear(self, beat: Heartbeat) -> None:
        """A node's heartbeat. A stale one is refused and counted, as are numbers that cannot be."""
        if beat.impossible:
            self.counters.refuse("impossible figures", node=beat.node_id, text=beat.impossible)
        if not self.passes_over(beat.node_id, beat.generation):
            self._course.vigil.hear(beat, self.now)
            self._audience.beats(beat.node_id, self.now)

    # --- the loop -----------------------------------------------------------------------------------------------

    async def _load(self) -> Found:
        """Begin with the job as it stands in etcd.

        The commit before shuts out what an earlier term of this same leader may still have under way.
        """
        await self._ledger.fence()
        found = await self._intake.load()
        commands = self._ledger.load(None if found.defect else found.state, found.journal, found.checkpoint)
        taken = [o for o in commands if o.standing is Standing.ACCEPTED]
        accepted = tuple(o for o in taken if self._is_sealed(o))
        self._course.begin(found, accepted, self._node_id, tuple(o for o in taken if o not in accepted))
        self._log.info("leading", epoch=self.epoch, phase=self.job.phase.value, generation=self.job.generation)
        for command in commands:
            if command.standing is Standing.PENDING:
                self._inbox.put(OperatorCommand(command, self._is_sealed(command)))
        for node_id in self.job.nodes:
            if status := self._audience.joined(node_id):
                self._inbox.put(StatusReceived(status))
        return found

    async def _next_events(self, watches: set[asyncio.Task[None]]) -> list[Event]:
        writing = self._ledger.writing
        news = asyncio.create_task(self._inbox.news())
        waits = {news, *watches} | ({writing} if writing else set())
        try:
            done, _ = await asyncio.wait(waits, timeout=self._course.patience(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
        for watch in watches & done:
            watch.result()
        written = [OperationsWritten(await self._ledger.settle())] if writing in done else []
        return [*written, *self._inbox.take(COMMANDS_AT_ONCE), *self._course.judge()] or [Tick()]

    def _assert_holds(self) -> None:
        """A leader whose lease may be over is not to act, though it has not heard of another one yet."""
        if not self.holds:
            raise LeaseLostError("the leader's lease was not renewed in time: another may lead")

    def _refuse(self, reason: str, **context: Any) -> None:
        self.counters.refuse(reason, **context)

    def _is_sealed(self, operation: Operation) -> bool:
        sealed = is_sealed(self.access, self._keys.job, operation.words, operation.seal)
        if not sealed:
            self.counters.refuse("command without seal", command=operation.kind, who=operation.who)
        return sealed
