"""The control server of an agent: it serves the streams while the agent leads, and refuses them while it does not."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

import grpc
import grpc.aio
import structlog

from elaunch.controller.leader import Term
from elaunch.controller.messages import MAX_MESSAGE, METHOD, job_mark, pack_command, unpack_agent
from elaunch.controller.streams import Outbox
from elaunch.errors import StartError
from elaunch.progress import Heartbeat
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.waiting import within

FIRST_MESSAGE_WITHIN = 10.0
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 2_000),
]

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # the stubs do not know it
Context = grpc.aio.ServicerContext[Any, Any]


class ControlServer:
    """Listens from the agent's start on, so that its address is known before it can be elected."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._token = ""
        self._term: Term | None = None
        self._server = grpc.aio.server(options=OPTIONS)
        service, method = METHOD.removeprefix("/").split("/")
        handler = grpc.stream_stream_rpc_method_handler(
            self._attach,
            request_deserializer=pb.AgentMessage.FromString,
            response_serializer=pb.Command.SerializeToString,
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))

    async def start(self, host: str) -> int:
        """Listen on ``host``, an address, and a free port; the port. Raises StartError."""
        address = f"[{host}]:0" if ":" in host else f"{host}:0"
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError:
            raise StartError(f"cannot listen on {address} for the other nodes") from None
        await self._server.start()
        return port

    def serve(self, term: Term, token: str) -> None:
        """Answer the streams that show ``token`` on behalf of ``term``."""
        self._term, self._token = term, token

    def pause(self) -> None:
        """Refuse streams: this agent does not lead."""
        self._term, self._token = None, ""

    async def stop(self) -> None:
        await self._server.stop(grace=0.5)

    async def _attach(self, _: Any, context: Context) -> None:
        term = await self._admit(context)
        try:
            first = await within(FIRST_MESSAGE_WITHIN, context.read())
        except asyncio.TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no status came")
        if first is _EOF:
            return
        outbox = term.attach(first.node_id)  # before the status: from now on an older stream is not heard
        try:
            self._take(first, outbox.node_id, term)
        except ValueError as error:
            outbox.close(f"malformed status: {error}")
        reader = asyncio.create_task(self._read(context, term, outbox))
        try:
            while (command := await outbox.next()) is not None:
                await context.write(pack_command(command, term.epoch))
            if outbox.closed:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, outbox.closed)
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            term.detach(outbox)

    async def _admit(self, context: Context) -> Term:
        """The term that this stream belongs to; a stream that belongs to none is refused."""
        if self._term is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "this agent does not lead")
        metadata = {k: v for k, v in context.invocation_metadata() or () if isinstance(v, str)}
        token = metadata.get("elaunch-token", "")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            structlog.get_logger().warning("stream_refused", peer=context.peer(), reason="wrong or missing token")
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong or missing token")
        if metadata.get("elaunch-job") != job_mark(self._job):
            await context.abort(grpc.StatusCode.NOT_FOUND, "this agent leads another job")
        return self._term

    async def _read(self, context: Context, term: Term, outbox: Outbox) -> None:
        """Statuses until the stream ends; then the writer is told to end too."""
        try:
            while (message := await context.read()) is not _EOF and not outbox.closed:
                self._take(message, outbox.node_id, term)
        except ValueError as error:
            outbox.close(f"malformed status: {error}")
        finally:
            outbox.close("the node ended its stream")

    def _take(self, message: Any, node_id: str, term: Term) -> None:
        if message.node_id != node_id:
            raise ValueError("a stream speaks for one node")
        if message.leader_epoch == term.epoch:
            content = unpack_agent(message)
            if isinstance(content, Heartbeat):
                term.hear(content)
            else:
                term.receive(content)
        else:
            structlog.get_logger().warning(
                "stale_status_refused", node=node_id, epoch=message.leader_epoch, leader_epoch=term.epoch
            )
