"""The agent's health port, asked over real sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest
from structlog.testing import capture_logs

from elaunch.agent.health import PORT, health_port
from tests.etcd.servers import free_port


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


def test_any_request_is_answered_with_200() -> None:
    async def main() -> list[bytes]:
        port = free_port()
        async with health_port({PORT: str(port)}):
            answers = [await ask(port, b"GET /anything HTTP/1.1\r\nHost: x\r\n\r\n"), await ask(port, b"")]
            answers.append(await ask(port, b"HEAD / HTTP/1.0\r\n\r\n"))
        with pytest.raises(OSError, match=r"refused|failed"):
            await ask(port, b"")
        return answers

    first, probe, last = asyncio.run(main())
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b"\r\n\r\nalive\n")
    assert probe == b""
    assert last.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("value", ["", "eighty", "0", "65536", "-1"])
def test_a_bad_port_is_a_warning(value: str) -> None:
    assert "expected a port" in opened_with(value)


def test_a_taken_port_is_a_warning() -> None:
    with socket.create_server(("", 0)) as taken:
        assert "in use" in opened_with(str(taken.getsockname()[1]))


def opened_with(value: str) -> str:
    async def main() -> None:
        async with health_port({PORT: value}):
            pass

    with capture_logs() as logs:
        asyncio.run(main())
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("no_health_port", "warning")]
    return str(logs[0]["text"])


def test_no_port_is_asked_for() -> None:
    async def main() -> None:
        async with health_port({}):
            pass

    with capture_logs() as logs:
        asyncio.run(main())
    assert not logs
