"""What a leader reads of its job in etcd: all of it when its term begins, then each change of nodes and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import structlog

from elaunch.controller.job import BEGINNING
from elaunch.controller.job_events import Event, NodeJoined, NodeLost, OperatorCommand
from elaunch.controller.ledger import operation_in
from elaunch.errors import BadRecordError, CompactedError
from elaunch.rendezvous.journal import Operation, Standing
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Checkpoint, Node, Phase, Reason, decode
from elaunch.rendezvous.state import State
from elaunch.rendezvous.store import Change, KeyValue, Store


@dataclass(frozen=True, slots=True)
class Found:
    """A job as it stands in etcd.

    ``journal`` are the keys of its history, without values, and its commands; ``nodes_at`` and ``commands_at`` the
    revisions as of which nodes and commands were read. Where its state or plan cannot be used, ``defect`` says so, and
    ``state`` is the job's end for that reason, which is not written yet.
    """

    state: State | None
    plan: Plan | None
    nodes: tuple[Node, ...]
    journal: tuple[KeyValue, ...]
    nodes_at: int
    commands_at: int
    checkpoint: Checkpoint | None = None
    defect: str = ""


class Intake:
    """Makes events of what others write."""

    def __init__(
        self,
        store: Store,
        keys: JobKeys,
        tell: Callable[[Event], None],
        sealed: Callable[[Operation], bool],
        stands: Callable[[str], bool],
    ) -> None:
        """``sealed``: an operator wrote the command. ``stands``: what became of it is written already."""
        self._store = store
        self._keys = keys
        self._tell = tell
        self._sealed = sealed
        self._stands = stands
        self._told: set[str] = set()  # nodes that joined by the events so far: the job may not have taken the last yet
        self._log = structlog.get_logger().bind(job=keys.job)

    async def load(self) -> Found:
        """The job as it stands. Of the plans, which are large, only the last is read.

        Nobody but the leader writes state, plans and events: nothing comes between these reads. A state or a plan that
        cannot be used ends the job: nobody knows what its nodes should run, and each next leader would know as little.
        """
        state, plan, defect = await self._course()
        history = await self._store.list(self._keys.events, keys_only=True)
        asked = await self._store.list(self._keys.commands)
        present = await self._store.list(self._keys.nodes)
        nodes = tuple(self._nodes(present.items))
        self._told = {node.node_id for node in nodes}
        if defect and state is not None:
            state = ended_by(defect, state, max((node.joined for node in nodes), default=0))
        journal = (*history.items, *asked.items)
        checkpoint = await self._checkpoint()
        return Found(state, plan, nodes, journal, present.revision, asked.revision, checkpoint, defect)

    async def _checkpoint(self) -> Checkpoint | None:
        """The last one that was recorded. It follows the data: one that cannot be used is none."""
        recorded = await self._store.get(self._keys.checkpoint)
        try:
            return decode(Checkpoint, recorded.value) if recorded else None
        except ValueError as error:
            self._log.warning("malformed_checkpoint_refused", key=self._keys.checkpoint, reason=str(error))
            return None

    async def _course(self) -> tuple[State | None, Plan | None, str]:
        """State and plan, and what is wrong with them; a state that cannot be used has one in its place."""
        key, plan = self._keys.state, None
        stated = await self._store.get(key)
        if stated is None:
            return None, None, ""
        try:
            state = decode(State, stated.value)
        except ValueError as error:
            plans = await self._store.list(self._keys.plans, keys_only=True)
            return State(Phase.FAILED, _last(self._keys, plans.items), 0, BEGINNING), None, unusable(key, error)
        key = self._keys.plan(state.generation)
        planned = await self._store.get(key)
        try:
            plan = decode(Plan, planned.value) if planned else None
            if plan is not None and plan.generation != state.generation:
                raise ValueError(f"it is the plan of generation {plan.generation}")
        except ValueError as error:
            return state, None, "" if state.phase.final else unusable(key, error)
        return state, plan, ""

    async def watch_nodes(self, revision: int) -> None:
        """Every change of a node's key becomes an event; a gap in the history is closed by listing again."""
        while True:
            try:
                async for _, changes in self._store.watch(self._keys.nodes, start_revision=revision + 1):
                    for change in changes:
                        self._changed(change)
            except CompactedError:
                snapshot = await self._store.list(self._keys.nodes)
                revision = snapshot.revision
                present = list(self._nodes(snapshot.items))
                for gone in self._told - {node.node_id for node in present}:
                    self._lost(gone)
                for node in present:
                    self._joined(node)

    async def watch_commands(self, revision: int) -> None:
        """Every command that an operator writes becomes an event, in the order in which the store took it."""
        while True:
            try:
                async for _, changes in self._store.watch(self._keys.commands, start_revision=revision + 1):
                    for change in changes:
                        if not change.deleted:
                            self._asked(change.kv)
            except CompactedError:
                snapshot = await self._store.list(self._keys.commands)
                revision = snapshot.revision
                for kv in sorted(snapshot.items, key=lambda kv: kv.create_revision):
                    self._asked(kv)

    def _changed(self, change: Change) -> None:
        if change.deleted:
            self._lost(change.kv.key.removeprefix(self._keys.nodes))
        else:
            for node in self._nodes([change.kv]):
                self._joined(node)

    def _joined(self, node: Node) -> None:
        self._told.add(node.node_id)
        self._tell(NodeJoined(node))

    def _lost(self, node_id: str) -> None:
        self._told.discard(node_id)
        self._tell(NodeLost(node_id))

    def _asked(self, kv: KeyValue) -> None:
        operation = operation_in(self._keys, kv)
        if operation is None:
            self._log.warning("malformed_command_refused", key=kv.key)
        elif operation.standing is Standing.PENDING and not self._stands(operation.id):
            self._tell(OperatorCommand(operation, self._sealed(operation)))

    def _nodes(self, items: Iterable[KeyValue]) -> Iterator[Node]:
        """Those that agents have written: another's key must not end every leader that looks at it."""
        for kv in items:
            try:
                node = node_in(kv)
            except ValueError as error:
                self._log.warning("malformed_node_refused", key=kv.key, reason=str(error))
                continue
            yield node


def unusable(key: str, error: ValueError) -> str:
    """That a record cannot be used, for a person."""
    return f"what etcd has in the key {key} cannot be used: {error}"


def ended_by(defect: str, state: State, horizon: int) -> State:
    """``state``, or what stands in its place, as the end of a job of which it is not known how it stands."""
    text = f"{defect}; so the job has ended, and may be started again: generations count on from {state.generation}"
    reason = Reason(BadRecordError.code, text)
    return replace(
        state, phase=Phase.FAILED, reason=reason, exit_code=BadRecordError.exit_code, verdict="", horizon=horizon
    )


def _last(keys: JobKeys, plans: Iterable[KeyValue]) -> int:
    """The highest generation of which there is a plan, whatever it says: its number is not to be used again."""
    numbers = (kv.key.removeprefix(keys.plans) for kv in plans)
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def node_in(kv: KeyValue) -> Node:
    """The node in a key, with the revision at which it joined. Raises ValueError if there is none."""
    return replace(decode(Node, kv.value), joined=kv.create_revision)
