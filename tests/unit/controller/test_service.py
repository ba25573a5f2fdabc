"""What systemd is told, where its socket is full, broken or not there, and what it says is none of it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from elaunch.controller.service import SOCKET_VARIABLE, Service


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """An abstract socket that holds few messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(f"\0elaunch-test-{os.getpid()}")
        found.settimeout(30)
        yield found


def _service(of: socket.socket, **environ: str) -> Service:
    return Service({SOCKET_VARIABLE: "@" + of.getsockname()[1:].decode(), **environ})


def test_one_that_is_busy_still_hears_that_we_are_ready(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elaunch.controller.service._PATIENCE", 30.0)
    service = _service(listening)
    for _ in range(1000):
        service.say("WATCHDOG=1")  # more than it holds
    heard: list[bytes] = []

    def hear() -> None:
        while not heard or not heard[-1].startswith(b"READY"):
            heard.append(listening.recv(999))

    reader = threading.Timer(0.1, hear)
    reader.start()
    service.ready("works")
    reader.join()
    assert heard[-1] == b"READY=1\nSTATUS=works"


def test_a_status_is_one_line_whatever_stands_in_it(listening: socket.socket) -> None:
    _service(listening).ready("job a\nSTOPPING=1 \udcff")
    assert listening.recv(999) == b"READY=1\nSTATUS=job a STOPPING=1 ?"


@pytest.mark.parametrize("address", ["", "@", "@nobody", "/nonexistent", "/dev/null", "/" + "x" * 300, "vsock:2:1"])
def test_a_socket_that_is_none_costs_nothing(address: str) -> None:
    Service({SOCKET_VARIABLE: address}).ready("works")


@pytest.mark.parametrize("period", ["", "0", "-1", "x", "1e3", "9" * 400, "9" * 5000])
def test_a_period_that_is_none_asks_for_no_signs_of_life(period: str, listening: socket.socket) -> None:
    async def live() -> None:
        async with _service(listening, WATCHDOG_USEC=period).living():
            await asyncio.sleep(0)

    asyncio.run(live())
    assert listening.recv(999) == b"STOPPING=1"
