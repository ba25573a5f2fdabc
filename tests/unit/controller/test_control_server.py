"""A control server on loopback: messages of a time that is over, malformed ones, and strangers that take room."""

from __future__ import annotations

import asyncio
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from job_makers import make_node

from elaunch.clock import SystemClock
from elaunch.controller import server as server_module
from elaunch.controller.access import Security, operator_token
from elaunch.controller.client import converse, open_channel
from elaunch.controller.command_messages import pack_command
from elaunch.controller.commands import Wait
from elaunch.controller.counters import Counters
from elaunch.controller.heartbeat_messages import pack_heartbeat
from elaunch.controller.leader import Term
from elaunch.controller.messages import MAX_MESSAGE, METHOD, job_mark
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.controller.policy import Policy
from elaunch.controller.server import OPTIONS, ControlServer
from elaunch.controller.status_messages import pack_status
from elaunch.controller.streams import Outbox
from elaunch.progress import Heartbeat, RankProgress
from elaunch.rendezvous.election import Leadership
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader, Phase, encode
from elaunch.rendezvous.tls import NAME, Tls
from tests.etcd.memory_store import MemoryStore
from tests.etcd.servers import make_certificates

KEYS = JobKeys("job")
TOKEN = "t" * 32


class World:
    """A server that leads, its term on a store in memory, and node ``n1`` in the job."""

    def __init__(self, port: int, server: ControlServer, term: Term, store: MemoryStore, lease: list[float]) -> None:
        self.port, self.server, self.term, self.store = port, server, term, store
        self.lease = lease  # what is left of the leader's, in seconds

    @property
    def refused(self) -> dict[str, int]:
        return self.server.counters.snapshot()

    async def send(self, *messages: bytes, token: str = TOKEN, job: str = "job") -> grpc.StatusCode:
        """One stream that sends ``messages`` and ends, and how it ends; OK where it was heard to its end."""
        metadata = (("elaunch-job", job_mark(job)), ("elaunch-token", token))
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options=options) as channel:
            call: Any = channel.stream_stream(METHOD)(iter(messages), metadata=metadata, timeout=40)
            with suppress(grpc.aio.AioRpcError):
                async for _ in call:
                    pass
            heard = await call.details() == "the node ended its stream"
            return grpc.StatusCode.OK if heard else await call.code()


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop turn until ``condition`` holds."""
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("nothing came of it")


def in_world(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        store = MemoryStore()
        epoch = await store.put(KEYS.leader, b"n0")
        await store.put(KEYS.node("n1"), encode(make_node(1)))
        lease = [1.0]
        term = Term(
            store, KEYS, Leadership(KEYS.leader, epoch), Policy(2, 4, 0), SystemClock(), "n0", left=lambda: lease[0]
        )
        server = ControlServer()
        port = await server.start("127.0.0.1")
        server.serve("job", term, TOKEN)
        running = asyncio.create_task(term.run())
        try:
            await until(lambda: "n1" in term.job.nodes)
            await asyncio.wait_for(test(World(port, server, term, store, lease)), 60)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await server.stop()

    asyncio.run(run())


def status(node: str = "n1", epoch: int = 0, **more: Any) -> bytes:
    return pack_status(NodeStatus(node, **more), epoch).SerializeToString()


def test_a_status_for_an_older_leader_has_no_effect_and_is_counted() -> None:
    async def test(world: World) -> None:
        now = world.term.epoch
        old = status(epoch=now - 1, generation=7, leaving=True)
        assert await world.send(status(epoch=now), old, old) is grpc.StatusCode.OK
        assert world.refused == {"stale epoch": 2}
        view = world.term.job.nodes["n1"].status
        assert view is None or not view.leaving

    in_world(test)


def test_a_status_of_a_node_whose_lease_has_ended_is_refused_and_counted() -> None:
    async def test(world: World) -> None:
        await world.store.delete(KEYS.node("n1"))
        await until(lambda: "n1" not in world.term.job.nodes)
        assert await world.send(status(epoch=world.term.epoch)) is grpc.StatusCode.FAILED_PRECONDITION
        assert world.refused == {"stale node": 1}

    in_world(test)


def test_a_command_that_waits_is_not_sent_when_the_lease_is_over() -> None:
    async def test(world: World) -> None:
        attach = world.term.attach

        def slow(node_id: str) -> Outbox:
            """What is offered in time, and whose turn comes when the process wakes up again."""
            outbox = attach(node_id)
            outbox.offer(Wait("nothing yet"))
            world.lease[0] = -0.1
            return outbox

        world.term.attach = slow  # type: ignore[method-assign]
        assert await world.send(status(epoch=world.term.epoch)) is grpc.StatusCode.FAILED_PRECONDITION
        assert world.refused == {"command of a leader whose lease may be over": 1}

    in_world(test)


def test_each_job_of_a_server_has_its_own_term_and_token() -> None:
    async def test(world: World) -> None:
        other = JobKeys("other")
        term = Term(world.store, other, Leadership(other.leader, 99), Policy(1, 1, 0), SystemClock(), "n0")
        world.server.serve("other", term, "u" * 32)
        assert await world.send(status(epoch=99), token="u" * 32, job="other") is grpc.StatusCode.OK
        assert await world.send(status(epoch=99), token=TOKEN, job="other") is grpc.StatusCode.UNAUTHENTICATED
        world.server.pause("other")
        assert await world.send(status(epoch=99), token="u" * 32, job="other") is grpc.StatusCode.NOT_FOUND
        assert await world.send(status(epoch=world.term.epoch)) is grpc.StatusCode.OK

    in_world(test)


def test_a_heartbeat_of_an_older_generation_is_counted() -> None:
    async def test(world: World) -> None:
        now = world.term.epoch
        for number in (2, 3, 4):
            await world.store.put(KEYS.node(f"n{number}"), encode(make_node(number)))
        await asyncio.gather(*(world.send(status(f"n{n}", now, store_port=n)) for n in (1, 2, 3, 4)))
        await until(lambda: world.term.job.phase is Phase.STARTING)
        running = {"generation": 1, "phase": RunPhase.RUNNING}
        await asyncio.gather(*(world.send(status(f"n{n}", now, **running)) for n in (1, 2, 3, 4)))
        await until(lambda: world.term.job.phase is Phase.RUNNING)
        beats = [pack_heartbeat(Heartbeat("n1", generation, 1.0), now) for generation in (0, 1, 2)]
        await world.send(status(epoch=now, **running), *(beat.SerializeToString() for beat in beats))
        assert world.refused == {"stale heartbeat": 2}
        odd = RankProgress(0, 0, 5, attached=True, step=9, step_age=float("nan"))
        beat = pack_heartbeat(Heartbeat("n2", 1, 1.0, (odd,)), now)
        await world.send(status("n2", now, **running), beat.SerializeToString())
        assert world.refused == {"stale heartbeat": 2, "impossible figures": 1}
        assert [(view.node_id, view.progress.step) for view in world.term.ranks] == [("n2", -1)]

    in_world(test)


def test_a_command_of_an_older_leader_has_no_effect_and_is_counted() -> None:
    """Sent by a server that thinks it leads still."""
    heard: list[Any] = []
    counters = Counters()

    async def attach(_: Any, context: Any) -> None:
        for epoch in (4, 5, 6):
            await context.write(pack_command(Wait(f"of {epoch}"), epoch).SerializeToString())
        await context.write(b"\xff" * 9)

    async def run() -> None:
        server = grpc.aio.server()
        service, method = METHOD.removeprefix("/").split("/")
        handler = grpc.stream_stream_rpc_method_handler(attach)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        leader = Leader("n0", f"127.0.0.1:{port}", TOKEN)
        never: Any = asyncio.Event().wait
        ended = converse(leader, 5, "job", lambda _: never(), never, heard.append, counters=counters)
        assert "another language" in await asyncio.wait_for(ended, 20)
        await server.stop(0)

    asyncio.run(run())
    assert heard == [Wait("of 5")]
    assert counters.snapshot() == {"stale command": 2}


@pytest.mark.parametrize(
    ("token", "code", "reason"),
    [
        ("", grpc.StatusCode.UNAUTHENTICATED, "no token"),
        ("x" * 32, grpc.StatusCode.UNAUTHENTICATED, "wrong token"),
        (operator_token(TOKEN), grpc.StatusCode.PERMISSION_DENIED, "role"),
    ],
)
def test_a_stream_needs_the_agents_token(token: str, code: grpc.StatusCode, reason: str) -> None:
    async def test(world: World) -> None:
        assert await world.send(status(epoch=world.term.epoch), token=token) is code
        assert await world.send(token=TOKEN, job="another") is grpc.StatusCode.NOT_FOUND
        assert world.refused == {reason: 1, "another job": 1}

    in_world(test)


def test_malformed_messages_end_their_own_stream_and_nothing_else() -> None:
    """With the right token: what a buggy or another release's agent would send."""
    numbers = random.Random(7)

    async def test(world: World) -> None:
        good = status(epoch=world.term.epoch, generation=3, store_port=5)
        outcomes = []
        for n in range(200):
            cut = bytearray(good * numbers.randint(1, 3))
            for _ in range(numbers.randint(1, 6)):
                cut[numbers.randrange(len(cut))] = numbers.randrange(256)
            sent = numbers.randbytes(numbers.randint(0, 300)) if n % 2 else bytes(cut)
            outcomes.append(world.send(sent))
        codes = await asyncio.gather(*outcomes)
        expected = {
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.FAILED_PRECONDITION,
            grpc.StatusCode.OK,
        }
        assert set(codes) <= expected, set(codes)
        assert world.refused["malformed"] > 50
        assert world.refused.keys() <= {"malformed", "stale epoch"}
        assert await world.send(good) is grpc.StatusCode.OK, "a good stream is let in after all that"

    in_world(test)


def test_an_oversized_message_ends_its_own_stream() -> None:
    async def test(world: World) -> None:
        big = status(epoch=world.term.epoch, start_error="x" * (MAX_MESSAGE + 1))
        for sent in ((big,), (status(epoch=world.term.epoch), big)):
            assert await world.send(*sent) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await world.send(status(epoch=world.term.epoch)) is grpc.StatusCode.OK
        assert world.refused == {}, "gRPC refuses it before we could count it"

    in_world(test)


def test_strangers_find_no_room_and_take_none_from_who_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_room", lambda _: 8)

    async def stranger(port: int) -> tuple[bool, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(asyncio.TimeoutError, ConnectionError):
            return await asyncio.wait_for(reader.read(1), 30.0) == b"", writer
        return False, writer

    async def test(world: World) -> None:
        heard: list[Any] = []
        told = iter([(0, NodeStatus("n1"))])
        never: Any = asyncio.Event().wait

        async def next_status(_: int) -> Any:
            return next(told, None) or await never()

        leader = Leader("n0", f"127.0.0.1:{world.port}", TOKEN)
        inside = asyncio.create_task(converse(leader, world.term.epoch, "job", next_status, never, heard.append))
        await until(lambda: heard)
        found = await asyncio.gather(*(stranger(world.port) for _ in range(40)))
        assert sum(refused for refused, _ in found) >= 32
        assert not inside.done()
        await world.store.put(KEYS.node("n2"), encode(make_node(2)))
        count = len(heard)
        await until(lambda: len(heard) > count)  # two nodes are there: the wait for more is told
        for _, writer in found:
            writer.close()
        inside.cancel()
        await asyncio.gather(inside, return_exceptions=True)

    in_world(test)


def test_a_connection_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"grpc.server_handshake_timeout_ms": 200, "grpc.max_connection_idle_ms": 400}
    monkeypatch.setattr(server_module, "OPTIONS", [(name, short.get(name, value)) for name, value in OPTIONS])
    preface, settings = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\4\0\0\0\0\0"

    async def test(world: World) -> None:
        for said in (b"", preface[:7], preface, preface + settings):
            reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
            writer.write(said)
            with suppress(ConnectionError):
                while await asyncio.wait_for(reader.read(1000), 20):
                    pass
            writer.close()

    in_world(test)


def test_there_is_room_for_the_streams_of_a_large_job() -> None:
    text = """
import resource
from elaunch.controller.server import _room
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
soft = lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0]
print(_room(16), soft(), _room(4000), soft())
"""
    script = [sys.executable, "-c", text]
    told = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert told[:2] == ["768", "1024"], "a small job leaves the limit as it is"
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert most < 8512 or told[2:] == ["6384", "8512"]


def test_a_renewed_certificate_counts_from_the_next_connection_on(tmp_path: Path) -> None:
    old, new = make_certificates(tmp_path / "old", NAME), make_certificates(tmp_path / "new", NAME)
    files = {"cert.pem": new.cert, "key.pem": new.key, "ca.pem": new.ca}
    ours = Tls(old.cert, old.key, old.ca)

    async def reach(port: int, tls: Tls) -> grpc.StatusCode:
        async with open_channel(f"127.0.0.1:{port}", Security(tls)) as channel:
            call: Any = channel.stream_stream(METHOD)(timeout=10)
            with suppress(grpc.aio.AioRpcError):
                await call.read()
            return await call.code()

    async def run() -> None:
        server = ControlServer(Security(ours))
        port = await server.start("127.0.0.1")
        after = Tls(new.cert, new.key, new.ca)
        assert await reach(port, ours) is grpc.StatusCode.FAILED_PRECONDITION, "let in; it does not lead"
        assert await reach(port, after) is grpc.StatusCode.UNAVAILABLE
        for name, path in files.items():
            (tmp_path / "old" / name).write_bytes(path.read_bytes())
        assert await reach(port, after) is grpc.StatusCode.FAILED_PRECONDITION
        await server.stop()

    asyncio.run(run())


def test_a_server_that_was_never_started_leaves_without_a_word() -> None:
    """As that of a process that ends before it listens, where something keeps it until the interpreter goes down."""
    program = """
import asyncio
import logging
from elaunch.controller.server import ControlServer

async def main():
    server = ControlServer()
    server.itself = server
    await server.stop()
    return server

logging.kept = asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
