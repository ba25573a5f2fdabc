"""The control server of a process that may lead: it serves the streams of the jobs that it leads, no others."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from elaunch.controller.access import OPEN, Access, Role, Security
from elaunch.controller.admission import admit
from elaunch.controller.command_messages import serialized
from elaunch.controller.counters import Counters
from elaunch.controller.credentials import server_credentials
from elaunch.controller.leader import NOT_LEADING, Term
from elaunch.controller.messages import MAX_MESSAGE, METHOD, job_mark, unpack_agent
from elaunch.controller.operator_server import operator_handler
from elaunch.controller.streams import Outbox
from elaunch.errors import StartError
from elaunch.metrics.recovery import Recovery
from elaunch.progress import Heartbeat
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.waiting import within

FIRST_MESSAGE_WITHIN = 10.0
ELSEWHERE = "no leader of this job is here"
_MOST_CONNECTIONS = 100_000
_OWN_FILES = 512  # that an agent may need besides its connections
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 2_000),
    # What anybody may hold without a token: connections that say nothing, or ask for nothing, are let go of.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 60_000),
    ("grpc.http2.bdp_probe", 0),  # as at the other end
    ("grpc.max_concurrent_streams", 16),  # of one connection; an agent has one, an operator a few
]

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # the stubs do not know it
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """A term of this process, and whom it lets in."""

    term: Term
    access: Access


class ControlServer:
    """Listens from the process's start on, so that its address is known before it can be elected."""

    def __init__(self, security: Security = OPEN, nodes: int = 1) -> None:
        """``nodes`` is how many streams there may be; this process may open as many files from now on, if it can."""
        self.counters = Counters()
        self.security = security
        self.recovered: Callable[[Recovery], None] | None = None
        """Hears of the recoveries of all jobs that are led here."""
        self._served: dict[str, Served] = {}
        self._room = _room(nodes)
        # Made when it is started: gRPC has no word for the end of one that never was, and complains of it as the
        # interpreter goes down.
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int = 0) -> int:
        """Listen on ``host``, an address, and ``port``, 0 for a free one; the port. Raises StartError, UsageError."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        tls, server = self.security.tls, self._made()
        try:
            if tls is None:
                bound = server.add_insecure_port(address)
            else:
                bound = server.add_secure_port(address, server_credentials(tls))
        except RuntimeError:
            raise StartError(f"cannot listen on {address} for the other nodes") from None
        await server.start()
        self._server = server
        return bound

    def serve(self, job: str, term: Term, token: str) -> None:
        """Answer the streams of ``job`` on behalf of ``term``, whose record in etcd publishes ``token``."""
        self._served[job_mark(job)] = Served(term, self.security.access.in_term(token))
        term.counters, term.access = self.counters, self.security.access
        if self.recovered is not None:
            term.hear_recoveries(self.recovered)

    def leads(self) -> list[tuple[str, Term]]:
        """The jobs that this process leads, by name, with their terms."""
        return sorted(((served.term.name, served.term) for served in self._served.values()), key=lambda pair: pair[0])

    def led(self, job: str) -> Term | None:
        """The term of ``job`` that this process serves, if it leads the job."""
        served = self._served.get(job_mark(job))
        return served.term if served is not None else None

    def pause(self, job: str) -> None:
        """Refuse the streams of ``job``: this process does not lead it."""
        self._served.pop(job_mark(job), None)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=0.5)

    def _made(self) -> grpc.aio.Server:
        service, method = METHOD.removeprefix("/").split("/")
        handler = grpc.stream_stream_rpc_method_handler(self._attach)
        streams = grpc.method_handlers_generic_handler(service, {method: handler})
        server = grpc.aio.server(options=[*OPTIONS, ("grpc.max_allowed_incoming_connections", self._room)])
        server.add_generic_rpc_handlers((streams, operator_handler(self._admit)))
        return server

    async def _attach(self, _: Any, context: Context) -> None:
        term = await self._admit(context)
        try:
            first = _said(await within(FIRST_MESSAGE_WITHIN, context.read()))
        except asyncio.TimeoutError:
            self.counters.refuse("silent", peer=context.peer())
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no status came")
        except ValueError as error:
            self.counters.refuse("malformed", peer=context.peer(), text=str(error))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"malformed status: {error}")
        if first is None:
            return
        outbox = term.attach(first.node_id)  # before the status: from now on an older stream is not heard
        try:
            self._take(first, outbox.node_id, term)
        except ValueError as error:
            self._malformed(outbox, error)
        reader = asyncio.create_task(self._read(context, term, outbox))
        try:
            while (command := await outbox.next()) is not None:
                if not term.holds:
                    self.counters.refuse("command of a leader whose lease may be over", node=outbox.node_id)
                    outbox.close(NOT_LEADING)
                    break
                await context.write(serialized(command, term.epoch))
            if outbox.closed:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, outbox.closed)
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            term.detach(outbox)

    async def _admit(self, context: Context, needs: Role = Role.AGENT) -> Term:
        """The term that this call belongs to; one that belongs to none is refused."""
        mark = _job_asked_for(context)
        served = self._served.get(mark)
        if served is None and self._served:
            self.counters.refuse("another job", peer=context.peer())
            await context.abort(grpc.StatusCode.NOT_FOUND, ELSEWHERE)
        if served is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, NOT_LEADING)
        served.term.approached()
        await admit(context, served.access, needs, self.counters)
        if self._served.get(mark) is not served:  # it went while the token was looked at
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, ELSEWHERE)
        return served.term

    async def _read(self, context: Context, term: Term, outbox: Outbox) -> None:
        """Statuses until the stream ends; then the writer is told to end too."""
        try:
            while (message := _said(await context.read())) is not None and not outbox.closed:
                self._take(message, outbox.node_id, term)
        except ValueError as error:
            self._malformed(outbox, error)
        finally:
            outbox.close("the node ended its stream")

    def _malformed(self, outbox: Outbox, error: ValueError) -> None:
        self.counters.refuse("malformed", node=outbox.node_id, text=str(error))
        outbox.close(f"malformed status: {error}")

    def _take(self, message: pb.AgentMessage, node_id: str, term: Term) -> None:
        if message.node_id != node_id:
            raise ValueError("a stream speaks for one node")
        if message.leader_epoch == term.epoch:
            if message.HasField("heartbeat") and term.passes_over(node_id, message.heartbeat.generation):
                return
            content = unpack_agent(message)
            if isinstance(content, Heartbeat):
                term.hear(content)
            else:
                term.receive(content)
        else:
            self.counters.refuse("stale epoch", node=node_id, epoch=message.leader_epoch, leader_epoch=term.epoch)


def _job_asked_for(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "elaunch-job" and isinstance(value, str):
            return value
    return ""


def _said(raw: Any) -> pb.AgentMessage | None:
    """A message as it came, None for the end of the stream. Raises ValueError."""
    if raw is _EOF:
        return None
    try:
        return pb.AgentMessage.FromString(raw)
    except DecodeError:
        raise ValueError("it is no AgentMessage") from None


def _room(nodes: int) -> int:
    """How many connections may be open at once, so that those of strangers leave the agent files for its own work."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * nodes + _OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, soft * 3 // 4)
