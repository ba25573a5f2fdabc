"""A node's end of the control stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from elaunch.controller.access import OPEN, TOKEN, Role, Security, token_for
from elaunch.controller.command_messages import unpack_command
from elaunch.controller.commands import Aside, Command
from elaunch.controller.counters import Counters
from elaunch.controller.credentials import CLIENT_OPTIONS, channel_credentials
from elaunch.controller.heartbeat_messages import pack_heartbeat
from elaunch.controller.messages import MAX_MESSAGE, METHOD, job_mark
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.status_messages import pack_status
from elaunch.errors import AccessRefusedError, UsageError
from elaunch.progress import Heartbeat
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.records import Leader
from elaunch.rendezvous.waiting import cancelled

OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.http2.bdp_probe", 0),  # a ping for nearly every message: ours are small, and never a bulk
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own: a server limits the streams of each
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]
_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
NextStatus = Callable[[int], Awaitable[tuple[int, NodeStatus]]]
NextHeartbeat = Callable[[], Awaitable[Heartbeat]]


def open_channel(address: str, security: Security) -> grpc.aio.Channel:
    """A channel to the control server at ``address``, with TLS where ``security`` has it. Raises UsageError."""
    if security.tls is None:
        return grpc.aio.insecure_channel(address, options=OPTIONS)
    return grpc.aio.secure_channel(address, channel_credentials(security.tls), options=[*OPTIONS, *CLIENT_OPTIONS])


async def converse(
    leader: Leader,
    epoch: int,
    job: str,
    next_status: NextStatus,
    next_heartbeat: NextHeartbeat,
    on_command: Callable[[Command | Aside], None],
    security: Security = OPEN,
    counters: Counters | None = None,
) -> str:
    """One stream to ``leader``: every newer status goes up, every command of this epoch comes to ``on_command``.

    ``next_heartbeat`` returns each heartbeat when it is due.

    Returns when the stream ends, with the reason. Raises AccessRefusedError where the token of this node's own file is
    not taken.
    """
    counters = counters or Counters()
    token = token_for(Role.AGENT, security.tokens, leader.token)
    try:
        opened = open_channel(leader.address, security)
    except UsageError as error:  # a certificate that is just being renewed: the next stream may find it
        return str(error)
    async with opened as channel:
        method: Any = channel.stream_stream(  # the stubs know the synchronous API only
            METHOD,
            request_serializer=pb.AgentMessage.SerializeToString,
            response_deserializer=None,
        )
        call = method(metadata=(("elaunch-job", job_mark(job)), (TOKEN, token)))
        sender = asyncio.create_task(_send(call, epoch, next_status, next_heartbeat))
        try:
            while (raw := await call.read()) is not _EOF:
                message = _parsed(raw)
                if message.leader_epoch == epoch:
                    on_command(unpack_command(message))
                else:
                    counters.refuse("stale command", epoch=message.leader_epoch, leader_epoch=epoch)
            return str(await call.details() or "the leader ended the stream")
        except grpc.aio.AioRpcError as error:
            if error.code() in _REFUSALS and token != leader.token:  # no later record of a leader changes that
                text = f"the leader at {leader.address} refused this node: {error.details()}"
                raise AccessRefusedError(text) from None
            return str(error.details())
        except ValueError as error:
            return f"the leader speaks another language: {error}"
        finally:
            sender.cancel()
            call.cancel()
            await asyncio.gather(sender, return_exceptions=True)


def _parsed(raw: bytes) -> pb.Command:
    """Raises ValueError. gRPC, left to do this itself, would log a traceback and hand on None."""
    try:
        return pb.Command.FromString(raw)
    except DecodeError:
        raise ValueError("it is no Command") from None


async def _send(call: Any, epoch: int, next_status: NextStatus, next_heartbeat: NextHeartbeat) -> None:
    """Send each status that is newer than the last sent, and heartbeats; a broken stream ends it, the reader tells why.

    One task writes, as a stream takes one message at a time.
    """
    try:
        version, told = await next_status(-1)
        await call.write(pack_status(told, epoch))
        status = asyncio.ensure_future(next_status(version))
        beat = asyncio.ensure_future(next_heartbeat())
        try:
            while True:
                await asyncio.wait({status, beat}, return_when=asyncio.FIRST_COMPLETED)
                if status.done():
                    version, told = status.result()
                    status = asyncio.ensure_future(next_status(version))
                    await call.write(pack_status(told, epoch))
                if beat.done():
                    pulse = beat.result()
                    beat = asyncio.ensure_future(next_heartbeat())
                    await call.write(pack_heartbeat(pulse, epoch))
        finally:
            await cancelled(status, beat)
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return
