"""The way to a job's etcd, when what its secret says becomes another."""

from __future__ import annotations

import asyncio

import pytest

from elaunch.kubernetes import way as module
from elaunch.kubernetes.way import Way

ADDRESSES = ("127.0.0.1:1",)


class Store:
    """An etcd's store that knows whether it was closed."""

    made: list[Store]

    def __init__(self, endpoints: tuple[str, ...], **_: object) -> None:
        self.endpoints, self.closed = endpoints, 0
        Store.made.append(self)

    async def close(self) -> None:
        self.closed += 1


def test_at_each_rotation_of_the_secret_the_store_before_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def follow(*_: object) -> None:
        await asyncio.Event().wait()

    Store.made = []
    monkeypatch.setattr(module, "EtcdStore", Store)
    monkeypatch.setattr(module, "follow", follow)

    async def rotate() -> None:
        way = Way("job", asyncio.Event())
        for password in (b"one", b"two", b"two", b"three"):
            way.show({"password": password})
            await way.to(ADDRESSES)
            for _ in range(5):
                await asyncio.sleep(0)
        assert [store.closed for store in Store.made] == [1, 1, 0]
        way.show({})
        await way.close()
        assert [store.closed for store in Store.made] == [1, 1, 1]
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(rotate())
