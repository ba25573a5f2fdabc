"""The operator's process around its loops: what a kubelet is told, and that nothing begins after the end."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from elaunch.errors import UsageError
from elaunch.kubernetes import running
from elaunch.kubernetes.liveness import answering
from tests.etcd.servers import free_port


def test_an_operator_that_waits_for_its_turn_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the kubelet would kill the second of two again and again."""
    url = f"http://127.0.0.1:{free_port()}/healthz"
    told: list[int] = []

    class Waiting:
        def __init__(self, *_: Any) -> None: ...

        async def win(self) -> None:
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                told.append(answer.status)
            signal_it.set()
            await asyncio.Event().wait()

    class Nobody:
        async def close(self) -> None: ...

    async def connect(_: Any) -> Nobody:
        return Nobody()

    async def first(_: asyncio.Event, other: Any) -> bool:
        task = asyncio.ensure_future(other)
        await signal_it.wait()
        task.cancel()
        return False

    signal_it = asyncio.Event()
    monkeypatch.setattr(running, "Candidate", Waiting)
    monkeypatch.setattr(running, "connect", connect)
    monkeypatch.setattr(running, "_first", first)
    assert running.main(("team",), identity="b", liveness=url) == 0
    assert told == [200]


@pytest.mark.parametrize("url", ["8081", "https://0.0.0.0:8081/", "http://0.0.0.0/", "http://0.0.0.0:x/"])
def test_where_nobody_can_listen_is_bad_input(url: str) -> None:
    async def run() -> None:
        async with answering(url):
            raise AssertionError("it listens")

    with pytest.raises(UsageError, match="--liveness="):
        asyncio.run(run())


def test_no_loop_begins_once_the_operator_has_stopped() -> None:
    """What kopf still delivers, or was put off, must not begin a loop beside the one of the next operator."""

    async def run() -> None:
        workshop = running.Workshop(None, None)  # type: ignore[arg-type]
        await workshop.close()
        before = asyncio.all_tasks()
        workshop._notice("team", "job", begin=True)
        assert asyncio.all_tasks() == before

    asyncio.run(run())
