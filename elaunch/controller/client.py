"""A node's end of the control stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from elaunch.controller.access import OPEN, TOKEN, Role, Security, token_for
from elaunch.controller.commands import Command
from elaunch.controller.credentials import CLIENT_OPTIONS, channel_credentials
from elaunch.controller.job import NodeStatus
from elaunch.controller.messages import MAX_MESSAGE, METHOD, job_mark, pack_status, unpack_command
from elaunch.errors import UsageError
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.records import Leader

OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]
NextStatus = Callable[[int], Awaitable[tuple[int, NodeStatus]]]


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
    on_command: Callable[[Command], None],
    security: Security = OPEN,
) -> str:
    """One stream to ``leader``: every newer status goes up, every command of this epoch comes to ``on_command``.

    Returns when the stream ends, with the reason.
    """
    token = token_for(Role.AGENT, security.tokens, leader.token)
    try:
        opened = open_channel(leader.address, security)
    except UsageError as error:  # a certificate that is just being renewed: the next stream may find it
        return str(error)
    async with opened as channel:
        method: Any = channel.stream_stream(  # the stubs know the synchronous API only
            METHOD,
            request_serializer=pb.NodeStatus.SerializeToString,
            response_deserializer=pb.Command.FromString,
        )
        call = method(metadata=(("elaunch-job", job_mark(job)), (TOKEN, token)))
        sender = asyncio.create_task(_send(call, epoch, next_status))
        try:
            while (message := await call.read()) is not _EOF:
                if message.leader_epoch == epoch:
                    on_command(unpack_command(message))
            return str(await call.details() or "the leader ended the stream")
        except grpc.aio.AioRpcError as error:
            return str(error.details())
        except ValueError as error:
            return f"the leader speaks another language: {error}"
        finally:
            sender.cancel()
            call.cancel()
            await asyncio.gather(sender, return_exceptions=True)


async def _send(call: Any, epoch: int, next_status: NextStatus) -> None:
    """Send each status that is newer than the last sent; a broken stream ends it, the reader tells why."""
    version = -1
    try:
        while True:
            version, status = await next_status(version)
            await call.write(pack_status(status, epoch))
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return
