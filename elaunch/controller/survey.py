"""What etcd says of a job, for whoever looks at it from outside."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import unquote

from elaunch.controller.intake import node_in
from elaunch.controller.operations import OVER
from elaunch.errors import BadRecordError, CommandRefusedError, JobFinishedError, NoSuchJobError
from elaunch.rendezvous.journal import Operation, Standing, decode_operation
from elaunch.rendezvous.keys import ROOT, JobKeys
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.records import Checkpoint, Leader, Node, Phase, Spec, read
from elaunch.rendezvous.state import State
from elaunch.rendezvous.store import KeyValue, Store

R = TypeVar("R")

GONE = "gone"


@dataclass(frozen=True, slots=True)
class Overview:
    """A job as etcd has it. ``nodes`` are those that live; ``epoch`` is the leader's."""

    job: str
    state: State | None
    spec: Spec | None
    plan: Plan | None
    leader: Leader | None
    epoch: int
    nodes: tuple[Node, ...]
    operations: tuple[Operation, ...]
    checkpoint: Checkpoint | None = None

    @property
    def phase(self) -> str:
        """The phase, or ``gone`` where no agent lives and the job had not ended."""
        state = self.state
        if state is not None and state.phase.final:
            anew = self.nodes and all(node.joined > state.horizon for node in self.nodes)
            return Phase.WAITING.value if anew else state.phase.value
        if not self.nodes:  # a dedicated controller may still wait for some
            return GONE if state is None or self.leader is None else state.phase.value
        members = {member.node_id for member in self.plan.members} if self.plan else set()
        if state is None or not any(node.node_id in members for node in self.nodes):
            return Phase.WAITING.value
        return state.phase.value

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """The numbers of nodes that the job may have: an operator's, else the spec's."""
        if self.state and self.state.max_nodes and not self.over:
            return self.state.min_nodes, self.state.max_nodes
        return (self.spec.min_nodes, self.spec.max_nodes) if self.spec else (None, None)

    @property
    def over(self) -> bool:
        return self.phase in (GONE, *(phase.value for phase in Phase if phase.final))


async def job_names(store: Store) -> list[str]:
    """The jobs of which anything is in etcd."""
    return [unquote(name) for name in await store.children(ROOT)]


async def overview(store: Store, job: str) -> Overview:
    """Raises NoSuchJobError, CommandRefusedError where its keys hold what no release of ours has written."""
    try:
        return await _overview(store, job)
    except ValueError as error:
        raise CommandRefusedError(f"the keys of job {job!r} in etcd cannot be read: {error}") from None
    except BadRecordError as error:
        raise CommandRefusedError(f"job {job!r}: {error}") from None


async def _overview(store: Store, job: str) -> Overview:
    keys = JobKeys(job)
    read = (keys.state, keys.spec, keys.leader, keys.checkpoint)
    state, spec, leader, checkpoint = await asyncio.gather(*map(store.get, read))
    nodes, commands = await asyncio.gather(store.list(keys.nodes), store.list(keys.commands))
    if not (state or spec or nodes.items):
        raise NoSuchJobError(f"no job {job!r} in this etcd; elaunch ps lists those that there are")
    known = _read(State, state)
    planned = await store.get(keys.plan(known.generation)) if known else None
    seen = Overview(
        job=job,
        state=known,
        spec=_read(Spec, spec),
        plan=_plan(known, planned),
        leader=_read(Leader, leader),
        epoch=leader.create_revision if leader else 0,
        nodes=tuple(sorted((node_in(kv) for kv in nodes.items), key=lambda node: node.joined)),
        operations=_operations(commands.items),
        checkpoint=_read(Checkpoint, checkpoint),
    )
    if not (seen.over and seen.leader is None and not seen.nodes):
        return seen
    # Nobody is left to carry a command out, or to say that it came too late.
    return replace(seen, operations=tuple(_expired(o) if o.standing.open else o for o in seen.operations))


def _expired(operation: Operation) -> Operation:
    return replace(operation, standing=Standing.FAILED, answer=OVER, exit_code=JobFinishedError.exit_code)


def _plan(state: State | None, found: KeyValue | None) -> Plan | None:
    """The newest plan; of a job that has ended nobody needs it."""
    try:
        return _read(Plan, found)
    except BadRecordError:
        if state is None or not state.phase.final:
            raise
        return None


def _read(kind: type[R], found: KeyValue | None) -> R | None:
    return read(kind, found.key, found.value) if found is not None else None


def _operations(items: tuple[KeyValue, ...]) -> tuple[Operation, ...]:
    found = []
    for kv in items:
        try:
            found.append(decode_operation(kv.value, kv.create_revision))
        except ValueError:
            continue  # nothing that a leader would carry out
    return tuple(sorted(found, key=lambda operation: operation.order))
