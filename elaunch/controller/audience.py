"""Who hears a leader: the nodes' streams, what each is told, and what they said before their keys were seen."""

from __future__ import annotations

from collections.abc import Callable

from elaunch.controller.commands import Wait, command_for, request_for, requests_for
from elaunch.controller.forming import waiting_for
from elaunch.controller.job import Job, NodeView
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.policy import Policy
from elaunch.controller.probe_asking import Asking
from elaunch.controller.streams import Outbox
from elaunch.rendezvous.records import Phase
from elaunch.rendezvous.state import Drain
from elaunch.reports import Receipts

KEPT_LOST = 100_000  # nodes that are known to be lost: of one that was so long ago no stream can be left
RETELL = 1.0  # seconds between two tellings of what a job waits for, and at least
TOLD = 250  # nodes a second are told so, as it delays what they wait for
GONE = "the lease of this node has ended; it must join again"


class Audience:
    """The streams of one term. Times are seconds of the leader's monotonic clock."""

    def __init__(self, now: float, stands: Callable[[str], bool]) -> None:
        """``stands`` tells whether it is written that an operator wants something: before that no node is asked."""
        self.unheard_since: float | None = now
        self.retell = 0.0
        self._stands = stands
        self._streams: dict[str, Outbox] = {}
        self._asked: set[str] = set()  # the open requests that all who had a stream were told
        self._probes = Asking()
        self._early: dict[str, NodeStatus] = {}
        self._lost: dict[str, None] = {}
        self._heard: set[str] = set()  # since all were told last
        self._heard_at: dict[str, float] = {}
        self._put_off: set[str] = set()  # nodes that hear what is waited for when it is told anew
        self._waiting = ""
        self._said: tuple[Phase, int, bool, str, Policy, tuple[Drain, ...]] | None = None
        self._over = ""

    def hears(self, node_id: str) -> bool:
        """Whether this node has a stream."""
        return node_id in self._streams

    def silence(self, node_id: str, now: float) -> float:
        """Seconds since the node's last message; -1 if there was none."""
        return now - self._heard_at[node_id] if node_id in self._heard_at else -1.0

    # --- streams that come and go -------------------------------------------------------------------------------

    def attach(self, node_id: str) -> Outbox:
        """A node's stream has come; its former one, if any, ends."""
        if old := self._streams.get(node_id):
            old.close("replaced by a newer stream of the same node")
        outbox = self._streams[node_id] = Outbox(node_id)
        self.unheard_since = None
        if self._over:  # admitted before the end: no other term would ever reach this stream
            outbox.close(self._over)
        elif node_id in self._lost:
            outbox.close(f"unknown node: {GONE}")
        return outbox

    def welcome(self, outbox: Outbox, job: Job, view: NodeView) -> None:
        """Tell a stream that has come what its node is to do."""
        command = command_for(job, view, self._waiting)
        if not isinstance(command, Wait):  # its status comes next, and may be all that is waited for
            outbox.offer(command)
        for request in requests_for(job, outbox.node_id):
            if self._stands(request.id):
                outbox.ask(request)
        for probe in self._probes.of(outbox.node_id):
            outbox.ask(probe)

    def detach(self, outbox: Outbox, now: float) -> None:
        """A stream has ended. Whether the node is dead its lease will tell."""
        if self._streams.get(outbox.node_id) is outbox:
            del self._streams[outbox.node_id]
            self._early.pop(outbox.node_id, None)  # its next stream tells it again
        if not self._streams and self.unheard_since is None:
            self.unheard_since = now

    def approached(self, now: float) -> None:
        """Somebody came who is not let in."""
        if self.unheard_since is not None:
            self.unheard_since = now

    def close(self, why: str) -> None:
        """End all streams, and those that are still to come."""
        self._over = why
        for outbox in self._streams.values():
            outbox.close(why)

    # --- what is heard of the nodes -----------------------------------------------------------------------------

    def is_stale(self, node_id: str) -> bool:
        """The node's lease has ended: nothing that it says counts any more."""
        return node_id in self._lost

    def keep(self, status: NodeStatus) -> None:
        """A status of a node whose key is not seen yet: for when it is."""
        self._early[status.node_id] = status

    def heard(self, node_id: str, now: float) -> None:
        """A status of a node of the job has come."""
        self._heard.add(node_id)
        self._heard_at[node_id] = now

    def beats(self, node_id: str, now: float) -> None:
        """A heartbeat has come: nothing follows from it for what the node is told."""
        self._heard_at[node_id] = now

    def joined(self, node_id: str) -> NodeStatus | None:
        """The node's key is there; what the node has said before, if anything."""
        self._heard.add(node_id)
        return self._early.pop(node_id, None)

    def lost(self, node_id: str) -> None:
        """The node's lease has ended, so its stream does."""
        self._lost[node_id] = None
        if len(self._lost) > KEPT_LOST:
            del self._lost[next(iter(self._lost))]
        self._heard_at.pop(node_id, None)
        if outbox := self._streams.pop(node_id, None):
            outbox.close(GONE)

    # --- what the nodes are told --------------------------------------------------------------------------------

    def tell(self, job: Job, now: float) -> None:
        """Tell each node what it should do now.

        Only where the job itself has moved is every node looked at, else those that something was heard of; what a
        job waits for is told anew once a second at most. A thousand joins would be a million looks otherwise, and two
        thousand messages before the one that they have joined for.
        """
        retelling = now >= self.retell
        if retelling:
            self._waiting, self.retell = waiting_for(job), now + max(RETELL, len(self._streams) / TOLD)
        said = (job.phase, job.generation, job.uncommitted, self._waiting, job.policy, job.drained)
        if retelling:
            self._heard |= self._put_off
            self._put_off.clear()
        crowded = not retelling and job.phase is Phase.WAITING and len(self._streams) > RETELL * TOLD
        concerned = self._heard & self._streams.keys() if said == self._said else self._streams.keys()
        for node_id in concerned:
            if view := job.nodes.get(node_id):
                command = command_for(job, view, self._waiting)
                if crowded and isinstance(command, Wait):
                    self._put_off.add(node_id)
                else:
                    self._streams[node_id].offer(command)
        if job.answer_by:
            self._ask(job)
        for node_id, probe in self._probes.new(job, now):
            if outbox := self._streams.get(node_id):
                outbox.ask(probe)
        self._said = said
        self._heard.clear()

    def answer(self, node_id: str, receipts: Receipts) -> None:
        """Answer what a node's status asked. Without a stream it asks again on the next."""
        if outbox := self._streams.get(node_id):
            outbox.answer(receipts)

    def _ask(self, job: Job) -> None:
        """Pass on what operators want of nodes, once it is written that they do; whoever comes later is told then."""
        for operation in job.operations:
            if operation.id not in job.answer_by or operation.id in self._asked or not self._stands(operation.id):
                continue
            self._asked.add(operation.id)
            for node_id in operation.nodes:
                if (outbox := self._streams.get(node_id)) and (request := request_for(job, operation, node_id)):
                    outbox.ask(request)
        self._asked &= job.answer_by.keys()
