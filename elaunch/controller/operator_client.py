"""Asking a leader for what it knows of its job."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio

from elaunch.controller.access import TOKEN, Role, Security, token_for
from elaunch.controller.client import open_channel
from elaunch.controller.messages import job_mark
from elaunch.controller.operator_server import STATUS
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.causes import plain
from elaunch.rendezvous.records import Leader


async def live_status(leader: Leader, job: str, security: Security, timeout: float) -> pb.StatusReply | str:
    """What the leader says within ``timeout`` seconds, or why it does not. Raises UsageError."""
    token = token_for(Role.VIEWER, security.tokens, leader.token)
    async with open_channel(leader.address, security) as channel:
        method: Any = channel.unary_unary(
            STATUS,
            request_serializer=pb.StatusRequest.SerializeToString,
            response_deserializer=pb.StatusReply.FromString,
        )
        metadata = (("elaunch-job", job_mark(job)), (TOKEN, token))
        try:
            reply: pb.StatusReply = await method(pb.StatusRequest(), timeout=timeout, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            return plain(f"{leader.address}: {error.details()}").removeprefix(f"{leader.address}: ")
        return reply
