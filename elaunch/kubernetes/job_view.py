"""What a job's leader says of it, read from etcd; and the one command that the operator gives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress

from elaunch.controller.operating import submit
from elaunch.controller.survey import Overview, overview
from elaunch.errors import (
    AccessRefusedError,
    CommandRefusedError,
    CompactedError,
    ElaunchError,
    EtcdLostError,
    NoSuchJobError,
)
from elaunch.kubernetes.names import MANAGER
from elaunch.kubernetes.observed import Aside, Seat, Truth
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.journal import Happening, Operation, Standing, decode_happening
from elaunch.rendezvous.keys import JobKeys

_PATIENCE = 1.5  # seconds for an etcd to say which it is
_TOGETHER = 0.2  # seconds: what changes together is looked at once
_AGAIN = 3.0  # seconds before the next try to follow a job
_PAUSE, _LONGEST = 15.0, 300.0  # seconds before a scale command that came to nothing is given again
_FOR_GOOD = (CommandRefusedError.exit_code, AccessRefusedError.exit_code)
_NEVER = (Standing.REFUSED, Standing.FAILED)


async def truth_of(store: EtcdStore, job: str, asked: int, line: int) -> Truth:
    """What etcd has of ``job``; of its history what comes after ``line``. Raises ElaunchError where it does not say."""
    cluster = await _cluster(store)
    try:
        seen = await overview(store, job)
    except NoSuchJobError:
        return Truth(cluster)
    lines = [told for told in await _lines(store, job) if told.seq > line]
    return truth(seen, cluster, asked, lines, time.time())


async def _cluster(store: EtcdStore) -> str:
    """Which etcd it is. Raises EtcdLostError where no member says so."""
    healths = await asyncio.gather(*(store.health(endpoint, timeout=_PATIENCE) for endpoint in store.endpoints))
    for health in healths:
        if health is not None:
            return f"{health.cluster:x}"
    raise EtcdLostError(f"etcd at {', '.join(store.endpoints)} does not answer")


async def _lines(store: EtcdStore, job: str) -> list[Happening]:
    found = []
    for kv in (await store.list(JobKeys(job).events)).items:
        with suppress(ValueError):  # no leader of ours wrote it
            found.append(decode_happening(kv.value))
    return found


def truth(seen: Overview, cluster: str, asked: int, lines: Sequence[Happening], now: float) -> Truth:
    """An overview as the operator's decisions take it; ``asked`` is the resource's generation."""
    state, spec = seen.state, seen.spec
    final = state.phase.value if state is not None and state.phase.final else ""
    low, high = (state.min_nodes, state.max_nodes) if state is not None and not final else (0, 0)
    if not high and spec is not None:
        low, high = spec.min_nodes, spec.max_nodes
    mine = [operation for operation in seen.operations if operation.kind == "scale"]
    denied, retry = _denied(mine, asked)
    return Truth(
        cluster=cluster,
        phase=seen.phase,
        generation=state.generation if state else 0,
        restarts=state.restart_count if state else 0,
        code=state.reason.code if state else "",
        text=state.reason.text if state else "",
        exit_code=state.exit_code if state else 0,
        final=final,
        horizon=state.horizon if state else 0,
        low=low,
        high=high,
        seats=tuple(Seat(node.node_id, node.address, node.place, node.host) for node in seen.nodes),
        members=tuple(member.node_id for member in seen.plan.members) if seen.plan else (),
        ranks=seen.plan.world_size if seen.plan else 0,
        step=seen.checkpoint.step if seen.checkpoint else -1,
        fault_host=state.root.host if state and state.root else "",
        quarantined=tuple(Aside(h.host, h.since, h.reason) for h in state.hosts if h.left(now) > 0) if state else (),
        asked=tuple(_size(operation) for operation in mine if operation.standing.open),
        denied=denied,
        retry=retry,
        lines=tuple(lines),
    )


def _size(operation: Operation) -> tuple[int, int]:
    return int(operation.arguments.get("min_nodes", 0)), int(operation.arguments.get("max_nodes", 0))


def _denied(scales: Sequence[Operation], asked: int) -> tuple[str, float]:
    """Why the last of our commands for this generation of the resource did not come about, and when to try again.

    One that the job refuses, or takes from nobody without a token, is not given again: 0.
    """
    ours = [operation for operation in scales if operation.reason == because(asked)]
    if not ours or ours[-1].standing not in _NEVER:
        return "", 0.0
    last = ours[-1]
    if last.exit_code in _FOR_GOOD:
        return last.answer, 0.0
    return last.answer, last.at + min(_PAUSE * 2.0 ** min(len(ours) - 1, 10), _LONGEST)


def because(asked: int) -> str:
    return f"generation {asked} of the ElasticJob"


async def scale(store: EtcdStore, job: str, low: int, high: int, asked: int) -> None:
    """Have the job go on with other numbers of nodes. Raises ElaunchError where the command was not written."""
    await submit(store, job, "scale", MANAGER, time.time(), because(asked), min_nodes=low, max_nodes=high)


async def follow(store: EtcdStore, job: str, wake: asyncio.Event) -> None:
    """Set ``wake`` at the start and after each change of ``job``, until cancelled."""
    keys = JobKeys(job)
    while True:
        try:
            snapshot = await store.list(keys.state)
            wake.set()  # for what came before, of which the watch does not tell
            async with aclosing(store.watch(keys.prefix, start_revision=snapshot.revision + 1)) as batches:
                async for _ in batches:
                    wake.set()
                    await asyncio.sleep(_TOGETHER)
        except CompactedError:
            continue
        except ElaunchError:
            await asyncio.sleep(_AGAIN)
