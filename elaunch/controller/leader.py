"""One term of leadership: what happens in the world goes through the state machine, what follows goes out.

The thin shell around :mod:`elaunch.controller.state`. All writes carry the leader's guard, so that a deposed leader
cannot write; a plan is committed before anyone hears of it, a final state before anyone is told to end.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from elaunch.clock import Clock
from elaunch.controller.access import Access
from elaunch.controller.commands import Wait, command_for, requests_for
from elaunch.controller.counters import Counters
from elaunch.controller.forming import waiting_for
from elaunch.controller.history import Entry, told
from elaunch.controller.job import Job, NodeStatus, Policy
from elaunch.controller.ledger import Ledger, operation_in
from elaunch.controller.seals import is_sealed
from elaunch.controller.sightings import RankView
from elaunch.controller.state import (
    Diagnosed,
    Event,
    NodeJoined,
    NodeLost,
    OperationsWritten,
    OperatorCommand,
    PlanCommitted,
    StatusReceived,
    Tick,
    next_deadline,
    resume,
    step,
)
from elaunch.controller.streams import Outbox
from elaunch.controller.vigil import Vigil
from elaunch.controller.watches import node_in, watch_commands, watch_nodes
from elaunch.errors import LeaseLostError
from elaunch.progress import Heartbeat
from elaunch.rendezvous.election import Leadership
from elaunch.rendezvous.journal import Operation, Standing
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Drain, Phase, Plan, Reason, State, decode
from elaunch.rendezvous.store import KeyValue, Store

RETELL = 1.0  # seconds between two tellings of what a job waits for
NOT_LEADING = "this agent does not lead any more"
COMMANDS_AT_ONCE = 20  # operators' commands that one transaction answers
_QUIET = (Phase.WAITING, Phase.RUNNING)


def _for_ever() -> float:
    return math.inf


class Term:
    """Leads one job from election to deposition or the end of the job.

    ``run`` returns when the job has ended and every other node has left, or at the quiet moment that ``retire`` asks
    for. It raises DeposedError when somebody else leads, LeaseLostError where that may be so, or EtcdLostError.

    ``left`` tells the seconds for which the leader's lease can still be relied on: a leader that was frozen wakes up
    with none, and then neither writes nor commands anything. ``node_id`` is that of the leader itself, where it is a
    node of the job.
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
    ) -> None:
        self.epoch = leadership.epoch
        self.counters = Counters()  # the server that serves this term puts its own here, and its access
        self.access = Access()
        self._store = store
        self._keys = keys
        self._policy = policy
        self._clock = clock
        self._node_id = node_id
        self._job = Job(policy)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._outboxes: dict[str, Outbox] = {}
        self._early: dict[str, NodeStatus] = {}
        self._lost: set[str] = set()
        self._left = left
        self._ended = False
        self._retiring = False
        self._unheard_since: float | None = clock.monotonic()
        self._waiting = ""
        self._said: tuple[Phase, int, bool, str, Policy, tuple[Drain, ...]] | None = None
        self._heard: set[str] = set()
        self._heard_at: dict[str, float] = {}
        self._retell = 0.0
        self._vigil = Vigil(policy, clock.monotonic())
        self._ledger = Ledger(store, keys, leadership.guard, clock, self._assert_holds)
        self._log = structlog.get_logger().bind(job=keys.job)

    @property
    def job(self) -> Job:
        """The state of the job as this leader knows it."""
        return self._job

    @property
    def now(self) -> float:
        """The leader's monotonic clock, in seconds."""
        return self._clock.monotonic()

    def hears(self, node_id: str) -> bool:
        """Whether this node has a stream."""
        return node_id in self._outboxes

    def silence(self, node_id: str) -> float:
        """Seconds since the node's last message; -1 if there was none."""
        return self.now - self._heard_at[node_id] if node_id in self._heard_at else -1.0

    @property
    def ranks(self) -> tuple[RankView, ...]:
        """What is known of the ranks' progress, by rank."""
        return self._vigil.views

    @property
    def holds(self) -> bool:
        """Whether this leader can be sure that no other one leads."""
        return self._left() > 0

    @property
    def unheard_since(self) -> float | None:
        """Since when (monotonic seconds) nobody has come near this leader; None while a node has a stream."""
        return self._unheard_since

    def approached(self) -> None:
        """Somebody came, and be it with an older leader's token: this leader can be reached."""
        if self._unheard_since is not None:
            self._unheard_since = self.now

    def retire(self) -> None:
        """End the term where nothing is under way, for another to lead."""
        self._retiring = True
        self._events.put_nowait(Tick())

    async def run(self) -> None:
        running: list[asyncio.Task[None]] = []
        try:
            nodes, commands = await self._load()
            store, keys, tell = self._store, self._keys, self._events.put_nowait
            running.append(asyncio.create_task(watch_nodes(store, keys, nodes, set(self._job.nodes), tell)))
            running.append(asyncio.create_task(watch_commands(store, keys, commands, self._read_command)))
            watches = set(running)
            await self._follow_up()
            while not self._over() and not (self._retiring and self._quiet()):
                events = await self._next_events(watches)
                self._assert_holds()
                for event in events:
                    self._step(event)
                await self._follow_up()
        finally:
            self._ended = True
            for outbox in self._outboxes.values():
                outbox.close(NOT_LEADING)
            running += [self._ledger.writing] if self._ledger.writing else []
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    # --- the streams --------------------------------------------------------------------------------------------

    def attach(self, node_id: str) -> Outbox:
        """A node's stream has come; its former one, if any, ends."""
        if old := self._outboxes.get(node_id):
            old.close("replaced by a newer stream of the same node")
        outbox = self._outboxes[node_id] = Outbox(node_id)
        self._unheard_since = None
        if self._ended:  # admitted before the end: no other term would ever reach this stream
            outbox.close(NOT_LEADING)
        elif node_id in self._lost:
            outbox.close("unknown node: its lease has ended; it must join again")
        elif (view := self._job.nodes.get(node_id)) and not self._unwritten_end():
            command = command_for(self._job, view, self._waiting)
            if not isinstance(command, Wait):  # its status comes next, and may be all that is waited for
                outbox.offer(command)
            self._ask(outbox)
        return outbox

    def detach(self, outbox: Outbox) -> None:
        """A stream has ended. Whether the node is dead its lease will tell."""
        if self._outboxes.get(outbox.node_id) is outbox:
            del self._outboxes[outbox.node_id]
            self._early.pop(outbox.node_id, None)  # its next stream tells it again
        if not self._outboxes and self._unheard_since is None:
            self._unheard_since = self.now

    def receive(self, status: NodeStatus) -> None:
        """A node's status. One whose key is not seen yet is kept until it is; one whose lease ended is refused."""
        if status.node_id in self._lost:
            self.counters.refuse("stale node", node=status.node_id, generation=status.generation)
        elif status.node_id in self._job.nodes:
            self._events.put_nowait(StatusReceived(status))
            self._heard.add(status.node_id)
            self._heard_at[status.node_id] = self.now
        else:
            self._early[status.node_id] = status

    def hear(self, beat: Heartbeat) -> None:
        """A node's heartbeat. A stale one is refused and counted."""
        if self._vigil.hear(beat, self.now):
            self._heard_at[beat.node_id] = self.now
        elif self._job.phase is Phase.RUNNING:
            self.counters.count("stale heartbeat")
            self._log.debug("stale_heartbeat_refused", node=beat.node_id, generation=beat.generation)

    # --- the loop -----------------------------------------------------------------------------------------------

    async def _follow_up(self) -> None:
        """What follows from where the job is now: write, then tell."""
        if self._job.uncommitted and (plan := self._job.plan) is not None:
            written = await self._ledger.commit_plan(plan, self._job)
            self._step(PlanCommitted(plan.generation))
            self._step(OperationsWritten(written))
        while self._ledger.owes(self._job):
            self._step(OperationsWritten(await self._ledger.write(self._job)))
        self._dispatch()
        if not self._job.phase.final:
            self._ledger.write_behind(self._job)

    async def _next_events(self, watches: set[asyncio.Task[None]]) -> list[Event]:
        now = self._clock.monotonic()
        deadline = min((t for t in (next_deadline(self._job, now), self._vigil.due) if t is not None), default=None)
        if self._job.phase is Phase.WAITING:
            deadline = min(self._retell, deadline or self._retell)
        timeout = None if deadline is None else max(0.0, deadline - now)
        getter = asyncio.ensure_future(self._events.get())
        writing = self._ledger.writing
        waits = {getter, *watches} | ({writing} if writing else set())
        try:
            done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            getter.cancel()  # of no effect on one that has its event
        events: list[Event] = []
        if getter in done:
            events.append(getter.result())
        for watch in watches & done:
            watch.result()
        if writing in done:
            await self._ledger.settle()
        while not self._events.empty() and _commands(events) < COMMANDS_AT_ONCE:
            events.append(self._events.get_nowait())
        return [*events, *self._judged()] or [Tick()]

    def _judged(self) -> list[Event]:
        """What the ranks' progress tells, if it is time to look at it."""
        judgement = self._vigil.judge(self._clock.monotonic())
        if judgement is None:
            return []
        for silent in judgement.silent:
            self._log.warning("node_silent", node=silent.node_id, host=silent.host, reason=silent.text)
            self._ledger.note([Entry("node_silent", silent.text, self._vigil.generation)])
        for straggler in judgement.stragglers:
            code = "straggler_recovered" if straggler.recovered else "straggler"
            self._log.warning(code, rank=straggler.rank, host=straggler.host, reason=straggler.text)
            self._ledger.note([Entry(code, straggler.text, self._vigil.generation)])
        hang = judgement.hang
        if hang is None:
            return []
        host = hang.culprits[0].host if hang.culprits else ""
        return [Diagnosed(self._vigil.generation, Reason(hang.code, hang.text), host)]

    def _step(self, event: Event) -> None:
        if isinstance(event, OperatorCommand) and self._ledger.stands(event.operation.id):
            return  # seen twice: it has had its effect
        if self._vigil.step > self._job.step:
            self._job = replace(self._job, step=self._vigil.step)
        before = self._job
        self._job = step(before, event, self._clock.monotonic())
        if isinstance(event, NodeJoined):
            self._heard.add(event.node.node_id)
        if isinstance(event, NodeJoined) and (status := self._early.pop(event.node.node_id, None)):
            self._job = step(self._job, StatusReceived(status), self._clock.monotonic())
        if isinstance(event, NodeLost):
            self._lost.add(event.node_id)
            self._heard_at.pop(event.node_id, None)
            if outbox := self._outboxes.pop(event.node_id, None):
                outbox.close("the lease of this node has ended; it must join again")
        self._vigil.follow(self._job, self._clock.monotonic())
        self.note(told(before, self._job))

    def note(self, entries: Sequence[Entry]) -> None:
        """Log what has happened, and put it into the job's history."""
        for entry in entries:
            # Each node tells its own part of the job's course; what operators ask for only the leader knows.
            tell = self._log.info if entry.code.startswith("command_") else self._log.debug
            tell(entry.code, generation=entry.generation, text=entry.text)
        self._ledger.note(entries)

    def _dispatch(self) -> None:
        """Tell each node what it should do now.

        Only where the job itself has moved is every node looked at, else those that something was heard of; what a
        job waits for is told anew once a second at most. A thousand joins would be a million looks otherwise.
        """
        now = self._clock.monotonic()
        if now >= self._retell:
            self._waiting, self._retell = waiting_for(self._job), now + RETELL
        job = self._job
        said = (job.phase, job.generation, job.uncommitted, self._waiting, job.policy, job.drained)
        concerned = self._heard & self._outboxes.keys() if said == self._said else self._outboxes.keys()
        for node_id in concerned:
            if view := self._job.nodes.get(node_id):
                self._outboxes[node_id].offer(command_for(self._job, view, self._waiting))
        if job.answer_by:
            for outbox in self._outboxes.values():
                self._ask(outbox)
        self._said = said
        self._heard.clear()

    def _ask(self, outbox: Outbox) -> None:
        """Pass on what operators want of this node, once it is written that they do."""
        for request in requests_for(self._job, outbox.node_id):
            if self._ledger.stands(request.id):
                outbox.ask(request)

    def _unwritten_end(self) -> bool:
        """The job is over, and etcd does not say so yet: nobody is to hear of it."""
        return self._job.phase.final and not self._ledger.ends(self._job)

    def _quiet(self) -> bool:
        """Nothing is under way that the next leader would have to find out."""
        job = self._job
        return job.phase in _QUIET and not job.uncommitted and not self._ledger.owes(job) and self._ledger.ends(job)

    def _assert_holds(self) -> None:
        """A leader whose lease may be over is not to act, though it has not heard of another one yet."""
        if not self.holds:
            raise LeaseLostError("the leader's lease was not renewed in time: another may lead")

    def _over(self) -> bool:
        return self._job.phase.final and not (self._job.nodes.keys() - {self._node_id})

    # --- etcd ---------------------------------------------------------------------------------------------------

    async def _load(self) -> tuple[int, int]:
        """The job as it stands in etcd; the revisions as of which its nodes and its commands were read.

        The commit before it shuts out what an earlier term of this same leader may still have under way. Nobody else
        writes state, plans and events: nothing comes between these reads. Of the plans, which are large, only the last
        is read.
        """
        await self._ledger.fence()
        stated = await self._store.get(self._keys.state)
        state = decode(State, stated.value) if stated else None
        planned = await self._store.get(self._keys.plan(state.generation)) if state else None
        plan = decode(Plan, planned.value) if planned else None
        history = await self._store.list(self._keys.events, keys_only=True)
        asked = await self._store.list(self._keys.commands)
        present = await self._store.list(self._keys.nodes)
        nodes = [node_in(kv) for kv in present.items]
        commands = self._ledger.load(state, (*history.items, *asked.items))
        accepted = tuple(o for o in commands if o.standing is Standing.ACCEPTED and self._is_sealed(o))
        self._job = resume(self._policy, state, plan, nodes, self.now, accepted, self._clock.wall() - self.now)
        self._step(Tick())
        self._log.info("leading", epoch=self.epoch, phase=self._job.phase.value, generation=self._job.generation)
        host = next((node.host for node in nodes if node.node_id == self._node_id), self._node_id)
        self._ledger.note([Entry("leading", f"{host} ({self._node_id}) leads", self._job.generation)])
        for command in commands:
            if command.standing is Standing.PENDING:
                self._events.put_nowait(OperatorCommand(command, self._is_sealed(command)))
        for node_id in list(self._early):
            if node_id in self._job.nodes:
                self._events.put_nowait(StatusReceived(self._early.pop(node_id)))
        return present.revision, asked.revision

    def _read_command(self, kv: KeyValue) -> None:
        operation = operation_in(self._keys, kv)
        if operation is None:
            self._log.warning("malformed_command_refused", key=kv.key)
        elif operation.standing is Standing.PENDING and not self._ledger.stands(operation.id):
            self._events.put_nowait(OperatorCommand(operation, self._is_sealed(operation)))

    def _is_sealed(self, operation: Operation) -> bool:
        sealed = is_sealed(self.access, self._keys.job, operation.words, operation.seal)
        if not sealed:
            self.counters.refuse("command without seal", command=operation.kind, who=operation.who)
        return sealed


def _commands(events: Sequence[Event]) -> int:
    return sum(isinstance(event, OperatorCommand) for event in events)
