"""Watching a prefix through any number of lost streams: no change is lost, none is told twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from random import uniform

from grpc.aio import AioRpcError, StreamStreamCall

from elaunch.errors import CompactedError, EtcdRefusedError
from elaunch.proto.etcd.v3 import rpc_pb2 as pb
from elaunch.rendezvous.channels import A, Metadata, Q
from elaunch.rendezvous.endpoints import Endpoint
from elaunch.rendezvous.methods import STATUS, WATCH
from elaunch.rendezvous.transport import Transport, TryAgainError
from elaunch.rendezvous.verdict import progress_is_ordered
from elaunch.rendezvous.waiting import within

Stream = StreamStreamCall[pb.WatchRequest, pb.WatchResponse]
IDLE = 30.0  # seconds without news after which etcd is asked for progress, and must answer
_BROADCAST = -1  # the watch id of an answer to a progress request


@dataclass
class Cursor:
    """What is next to be told. ``cluster`` tells a store that was made anew from one that lags behind."""

    prefix: str
    revision: int
    cluster: int = 0


class RefusedOnceError(Exception):
    """The watch was refused; with a fresh token it may not be."""


async def watch(transport: Transport, prefix: str, start_revision: int) -> AsyncGenerator[list[pb.Event], None]:
    """The events of whole revisions, from ``start_revision`` (0: from now) on, for ever.

    Raises CompactedError, and EtcdRefusedError where a fresh token does not help.
    """
    cursor = Cursor(prefix, start_revision)
    failures = refusals = 0
    while True:
        endpoint, turn = transport.endpoint, transport.turn
        metadata: Metadata = ()
        try:
            metadata = await transport.metadata(endpoint)
            async for events in _stream(transport, endpoint, turn, metadata, cursor):
                failures = refusals = 0
                if events:
                    yield events
        except AioRpcError as error:
            failure = transport.failure(endpoint, WATCH.path, error, metadata)
            if not isinstance(failure, TryAgainError):
                raise failure from error
        except RefusedOnceError as error:
            refusals += 1
            if refusals > 1 or not transport.credentials.user:
                raise EtcdRefusedError(f"etcd at {endpoint.text} refused to watch {prefix}: {error}") from None
            transport.forget_token(metadata)
        except TryAgainError as error:
            transport.rotate(endpoint, str(error) or "watch ended")
        failures += 1
        await asyncio.sleep(uniform(0, min(1.0, 0.05 * 2 ** min(failures, 6))))


async def _stream(
    transport: Transport, endpoint: Endpoint, turn: int, metadata: Metadata, cursor: Cursor
) -> AsyncGenerator[list[pb.Event], None]:
    """One stream on one endpoint until it is lost; an empty list is a sign of life."""
    ordered: bool | None = None  # asked of the server when it first matters: most streams never are silent
    # Without hasleader a member that is cut off from the others would keep the stream open and silent.
    stream: Stream = transport.stream(endpoint, WATCH, (*metadata, ("hasleader", "true")))
    try:
        await write(stream, _create(cursor), transport.call_timeout)
        gathered: list[pb.Event] = []
        created = await _read(stream, transport.call_timeout)
        _check(created, cursor)
        yield []
        while True:
            answer = await _read_or_probe(stream, transport, turn)
            if answer.watch_id == _BROADCAST:
                turn = transport.turn  # asked, it has answered: what else comes may have been on its way for long
            _check(answer, cursor)
            gathered.extend(answer.events)
            if answer.fragment:
                continue
            if gathered:
                # Not the header's revision: while a watcher catches up that is ahead of what was sent.
                cursor.revision = max(cursor.revision, gathered[-1].kv.mod_revision + 1)
            else:
                if answer.watch_id == _BROADCAST and ordered is None:
                    status = await transport.attempt(endpoint, STATUS, pb.StatusRequest())
                    ordered = progress_is_ordered(status.version)
                if answer.watch_id != _BROADCAST or ordered:
                    cursor.revision = max(cursor.revision, answer.header.revision + 1)
            events, gathered = gathered, []
            yield events
    finally:
        stream.cancel()


def _create(cursor: Cursor) -> pb.WatchRequest:
    key, end = prefix_range(cursor.prefix)
    return pb.WatchRequest(
        create_request=pb.WatchCreateRequest(
            key=key, range_end=end, start_revision=cursor.revision, progress_notify=True, fragment=True
        )
    )


def _check(answer: pb.WatchResponse, cursor: Cursor) -> None:
    """Raises what ``answer`` means where it is no news."""
    if answer.compact_revision:
        raise CompactedError(
            f"etcd has no history of {cursor.prefix} from revision {cursor.revision} on: "
            f"compacted at {answer.compact_revision}"
        )
    if answer.canceled:
        if "permission denied" in answer.cancel_reason or "auth" in answer.cancel_reason:
            raise RefusedOnceError(answer.cancel_reason)
        raise TryAgainError(f"watch cancelled: {answer.cancel_reason}")
    if cursor.cluster and answer.header.cluster_id != cursor.cluster:
        raise CompactedError(f"another etcd answers for {cursor.prefix}: the history watched is gone")
    cursor.cluster = answer.header.cluster_id
    if answer.created and cursor.revision == 0:
        cursor.revision = answer.header.revision + 1


async def _read_or_probe(stream: Stream, transport: Transport, turn: int) -> pb.WatchResponse:
    """The next answer; a stream that is silent for long is asked for one.

    So it is where a call has given an endpoint up since ``turn``: a member that is frozen keeps a stream open.
    """
    reading = asyncio.ensure_future(_read(stream, None))
    turning = asyncio.ensure_future(transport.turned(turn))
    try:
        await asyncio.wait({reading, turning}, timeout=IDLE, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            request = pb.WatchRequest(progress_request=pb.WatchProgressRequest())
            await write(stream, request, transport.call_timeout)
            if not turning.done():
                await asyncio.wait({reading, turning}, timeout=IDLE, return_when=asyncio.FIRST_COMPLETED)
            if turning.done() and not reading.done():
                await asyncio.wait({reading}, timeout=transport.call_timeout)
        if not reading.done():
            raise TryAgainError("watch is silent")
        return reading.result()
    finally:
        reading.cancel()
        turning.cancel()


async def write(stream: StreamStreamCall[Q, A], request: Q, timeout: float) -> None:
    """Send ``request``. A stream that has ended takes it in silence: the next read tells why it ended."""
    try:
        await within(timeout, stream.write(request))
    except asyncio.InvalidStateError:
        return
    except asyncio.TimeoutError:
        raise TryAgainError("stream takes no request") from None


async def _read(stream: Stream, timeout: float | None) -> pb.WatchResponse:
    try:
        answer = await within(timeout, stream.read())
    except asyncio.TimeoutError:
        raise TryAgainError("watch does not answer") from None
    if not isinstance(answer, pb.WatchResponse):
        raise TryAgainError("watch ended")
    return answer


def prefix_range(prefix: str) -> tuple[bytes, bytes]:
    """``prefix`` as etcd's half-open range of keys."""
    key = prefix.encode()
    head = key.rstrip(b"\xff")
    return (key, head[:-1] + bytes([head[-1] + 1])) if head else (key or b"\0", b"\0")
