"""The dedicated controllers of a cluster, as they are registered in etcd: agents leave the lead to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from elaunch.errors import CompactedError, EtcdRefusedError
from elaunch.rendezvous.records import Controller, decode
from elaunch.rendezvous.store import Change, KeyValue, Store
from elaunch.rendezvous.waiting import cancelled

PREFIX = "/elaunch-controllers/"
PATIENCE = 2  # leases of a controller: for so long agents wait for it to lead, and it must last to be handed the lead

Present = Mapping[str, Controller]


def key(controller_id: str) -> str:
    """Where a controller is registered, on its lease."""
    return PREFIX + controller_id


async def observe(store: Store) -> AsyncGenerator[Present, None]:
    """The controllers that are registered now, by id, and again after every change."""
    while True:
        snapshot = await store.list(PREFIX)
        present = {c.controller_id: c for kv in snapshot.items if (c := _controller(kv)) is not None}
        yield dict(present)
        try:
            async with aclosing(store.watch(PREFIX, start_revision=snapshot.revision + 1)) as batches:
                async for _, changes in batches:
                    for change in changes:
                        _apply(present, change)
                    yield dict(present)
        except CompactedError:
            continue


async def absent(store: Store) -> bool:
    """Return once no controller is registered (True), and after two of their leases at the latest (False).

    True at once where etcd does not let this user see them: then it does not know of any.
    """
    try:
        async with aclosing(observe(store)) as views:
            patience = PATIENCE * _longest(await anext(views))
            if not patience:
                return True
            leaving = asyncio.create_task(_until_none(views))
            try:
                await asyncio.wait({leaving}, timeout=patience)
                return leaving.done() and leaving.result()
            finally:
                await cancelled(leaving)
    except EtcdRefusedError:
        return True


async def lasting(store: Store) -> None:
    """Return once one and the same controller has been registered for two of its leases."""
    loop = asyncio.get_running_loop()
    since: dict[str, float] = {}
    async with aclosing(observe(store)) as views:
        looking = asyncio.ensure_future(anext(views))
        present: Present = {}
        try:
            while True:
                due = min((since[name] + PATIENCE * c.lease_ttl for name, c in present.items()), default=None)
                timeout = None if due is None else max(0.0, due - loop.time())
                done, _ = await asyncio.wait({looking}, timeout=timeout)
                if not done:
                    return
                present, looking = looking.result(), asyncio.ensure_future(anext(views))
                since = {name: since.get(name, loop.time()) for name in present}
        finally:
            await cancelled(looking)


async def _until_none(views: AsyncGenerator[Present, None]) -> bool:
    async for present in views:
        if not present:
            return True
    return False


def _longest(present: Present) -> float:
    return max((controller.lease_ttl for controller in present.values()), default=0)


def _apply(present: dict[str, Controller], change: Change) -> None:
    if change.deleted:
        present.pop(change.kv.key.removeprefix(PREFIX), None)
    elif (controller := _controller(change.kv)) is not None:
        present[controller.controller_id] = controller


def _controller(kv: KeyValue) -> Controller | None:
    """None for what no release of ours has written."""
    try:
        found = decode(Controller, kv.value)
    except ValueError:
        return None
    return found if found.controller_id == kv.key.removeprefix(PREFIX) else None
