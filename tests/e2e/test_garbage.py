"""A thousand messages of garbage to every port that a job's agents open: the job goes on, and nothing is left of it."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import grpc
import psutil
import pytest

from elaunch.controller.messages import MAX_MESSAGE, METHOD, job_mark
from elaunch.controller.operator_server import STATUS
from tests.e2e.conftest import MakeJob
from tests.e2e.harness import wait_until
from tests.e2e.test_security import leader_of
from tests.etcd.servers import free_port

pytestmark = [pytest.mark.slow, pytest.mark.torch]

MESSAGES = 1000
AT_ONCE = 50
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
FILES = 5  # open ones that a process may have more than before
MEMORY = 48 << 20  # bytes that it may have grown by: twice an oversized message in each of a few buffers


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2 (RFC 9113, section 4.1)."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def call(path: str, body: bytes, metadata: dict[str, str], length: int | None = None) -> bytes:
    """A gRPC call as it goes over the wire; ``length`` is what the message's prefix claims."""
    block = b"\x83\x86\x04" + _text(path) + b"\x01" + _text("localhost") + b"\x0f\x10" + _text("application/grpc")
    for name, value in {"te": "trailers", **metadata}.items():
        block += b"\x00" + _text(name) + _text(value)
    message = b"\0" + struct.pack(">I", len(body) if length is None else length) + body
    parts = [message[i : i + 16384] for i in range(0, len(message), 16384)]
    data = b"".join(frame(0, 0, 1, part) for part in parts)
    return PREFACE + SETTINGS + frame(1, 4, 1, block) + data


def _text(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


@dataclass(frozen=True)
class Garbage:
    """What is sent to one port, another each time; the same in each run of the test."""

    numbers: random.Random
    paths: tuple[str, ...]
    metadata: tuple[dict[str, str], ...]

    def next(self) -> bytes:
        kinds: list[Callable[[], bytes]] = [self.noise, self.http1, self.http2, self.call, self.call, self.lie]
        return self.numbers.choice(kinds)()

    def noise(self) -> bytes:
        return self.numbers.randbytes(self.numbers.choice((0, 1, 10, 1000, 70_000)))

    def http1(self) -> bytes:
        line = self.numbers.choice(
            (b"GET / HTTP/1.1\r\n", b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: 99999999\r\n")
        )
        return line + b"X: " + self.numbers.randbytes(100).hex().encode() * self.numbers.choice((1, 500))

    def http2(self) -> bytes:
        frames = [
            frame(
                self.numbers.randrange(12), self.numbers.randrange(256), self.numbers.randrange(4), self.noise()[:9000]
            )
            for _ in range(self.numbers.randrange(1, 6))
        ]
        return PREFACE + SETTINGS * self.numbers.randrange(2) + b"".join(frames)

    def call(self) -> bytes:
        body = self.numbers.randbytes(self.numbers.randrange(200))
        return call(self.numbers.choice(self.paths), body, self.numbers.choice(self.metadata))

    def lie(self) -> bytes:
        """A message that is too large, or says so."""
        path, metadata = self.numbers.choice(self.paths), self.numbers.choice(self.metadata)
        claimed = self.numbers.choice((MAX_MESSAGE + 1, 2**32 - 1, 3))
        return call(path, b"x" * self.numbers.choice((0, 60_000)), metadata, claimed)


async def throw(host: str, port: int, garbage: Garbage) -> None:
    """All of it, some at once; of twenty connections one is held and left to dribble until the others are done."""
    left = [garbage.next() for _ in range(MESSAGES)]
    held: list[asyncio.StreamWriter] = []

    async def thrower() -> None:
        while left:
            message = left.pop()
            with suppress(OSError, asyncio.TimeoutError):
                reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 5)
                writer.write(message)
                if len(left) % 20 == 0:
                    writer.write(message[:1] or b"x")
                    held.append(writer)
                    continue
                with suppress(OSError, asyncio.TimeoutError):
                    await asyncio.wait_for(reader.read(1000), 0.05)
                writer.close()

    await asyncio.gather(*(thrower() for _ in range(AT_ONCE)))
    for writer in held:
        writer.close()


def refused(address: str, metadata: dict[str, str]) -> None:
    """What is no message, from one who is let in: the answer shows that it was read to its end."""
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(METHOD)(iter([b"\xff" * 9]), metadata=tuple(metadata.items()), timeout=30)
        with pytest.raises(grpc.RpcError, match="malformed"):
            list(call)


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    files: int
    memory: int


def holds(process: psutil.Process) -> Held:
    return Held(process.num_fds(), process.memory_info().rss)


def test_garbage_on_every_port_of_a_running_job(job: MakeJob) -> None:
    etcd, health = free_port(), free_port()
    two = job(
        *("--nnodes=2:3", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{etcd}", "--rdzv-id=garbage"),
        *("--max-restarts=1", "--log-level=debug", "--rdzv-conf=last_call_timeout=1"),
    )
    agents = [two.agent(TORCHELASTIC_HEALTH_CHECK_PORT=str(health)), two.agent()]
    two.steps_in(1, 2)
    leader = leader_of("garbage", f"127.0.0.1:{etcd}")
    expected = {etcd, health, int(leader.address.rpartition(":")[2])}

    def open_ports() -> dict[psutil.Process, list[tuple[str, int]]]:
        """Once a control server and a next store of each are there, a store, and members."""
        ports = two.listening()
        known = {port for found in ports.values() for _, port in found}
        return ports if expected <= known and sum(map(len, ports.values())) >= 8 else {}

    ports = wait_until("all ports", open_ports)

    before = {process: holds(process) for process in ports}
    said = [len(a.output().splitlines()) for a in agents]
    ended = two.outputs().count("stream_ended")
    this = {"elaunch-job": job_mark("garbage")}
    shown = ({}, this, {**this, "elaunch-token": "x" * 32}, {**this, "elaunch-token": leader.token})
    mine, etcds = (
        (METHOD, METHOD, STATUS, "/elaunch.v1.Control/Nothing"),
        ("/etcdserverpb.KV/Range", "/etcdserverpb.Watch/Watch"),
    )
    numbers = random.Random(20_000)
    for host, port in sorted({where for found in ports.values() for where in found}):
        garbage = Garbage(numbers, etcds if port == etcd else mine, shown)
        target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        asyncio.run(throw(target, port, garbage))

    def settled() -> bool:
        now = {process: holds(process) for process in before}
        return all(
            now[process].files <= old.files + FILES and now[process].memory - old.memory < MEMORY
            for process, old in before.items()
        )

    # A store that does not serve yet accepts nobody; the kernel keeps its connections, which are no files of the agent.
    # etcd gives memory back to the system only a while after it has let go of it.
    wait_until(f"what was held let go: {before}, now { ({p: holds(p) for p in before}) }", settled, 90.0)
    assert two.outputs().count("stream_ended") == ended, "no stream of an agent broke"
    for agent, lines in zip(agents, said, strict=True):
        assert len(agent.output().splitlines()) < lines + 100, agent.output()[-5000:]
    assert "Traceback" not in two.outputs()
    refused(leader.address, {**this, "elaunch-token": leader.token})
    for reason in ("another job", "no token", "wrong token", "malformed"):
        assert f"reason={reason}" in two.outputs(), "what got so far was counted"

    steps = two.events("step")
    wait_until("another step", lambda: len(two.events("step")) > len(steps))
    assert {e["generation"] for e in two.events()} == {1}
    os.kill(two.events("start", rank=1)[-1]["pid"], signal.SIGKILL)
    two.steps_in(2, 2)  # its store listened all the time
    two.finish()
    assert [a.wait() for a in agents] == [0, 0], two.outputs()


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 6000, reason="takes 5,000 open files")
def test_strangers_who_fill_the_stores_backlog_do_not_keep_ranks_out(job: MakeJob) -> None:
    """It listens before anybody accepts: what has piled up by then is taken, and ranks without room come again."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (6000, limits[1]))
    held: list[socket.socket] = []
    etcd = free_port()
    two = job("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{etcd}", "--rdzv-id=backlog")
    try:
        first = two.agent()
        wait_until("it waits for the second", lambda: "1 of at least 2 nodes" in first.output())
        leader = leader_of("backlog", f"127.0.0.1:{etcd}")
        control = int(leader.address.rpartition(":")[2])
        [store] = [
            where
            for process, ports in two.listening().items()
            for where in ports
            if process.pid == first.pid and where[1] != control
        ]
        for _ in range(4300):
            held.append(socket.socket())
            held[-1].setblocking(False)
            with suppress(BlockingIOError):
                held[-1].connect(store)
        second = two.agent()
        two.steps_in(1, 2)
        two.finish()
        assert [first.wait(), second.wait()] == [0, 0], two.outputs()
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
