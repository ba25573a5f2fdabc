"""What a leader hears from etcd: nodes that come and go, commands that operators write. No change is missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from elaunch.controller.state import NodeJoined, NodeLost
from elaunch.errors import CompactedError
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Node, decode
from elaunch.rendezvous.store import Change, KeyValue, Store


async def watch_nodes(
    store: Store, keys: JobKeys, revision: int, told: set[str], tell: Callable[[NodeJoined | NodeLost], None]
) -> None:
    """Tell every change of a node's key since ``revision``; a gap in the history is closed by listing again.

    ``told`` are the nodes that joined by what was told so far. It never returns.
    """

    def pass_on(event: NodeJoined | NodeLost) -> None:
        if isinstance(event, NodeJoined):
            told.add(event.node.node_id)
        else:
            told.discard(event.node_id)
        tell(event)

    while True:
        try:
            async for _, changes in store.watch(keys.nodes, start_revision=revision + 1):
                for change in changes:
                    pass_on(_event(keys, change))
        except CompactedError:
            snapshot = await store.list(keys.nodes)
            revision = snapshot.revision
            present = [node_in(kv) for kv in snapshot.items]
            for gone in told - {node.node_id for node in present}:
                pass_on(NodeLost(gone))
            for node in present:
                pass_on(NodeJoined(node))


async def watch_commands(store: Store, keys: JobKeys, revision: int, read: Callable[[KeyValue], None]) -> None:
    """Have every command's key read that was written since ``revision``, in the order of the store.

    One may be read twice, and those that a leader has written itself are read as well. It never returns.
    """
    while True:
        try:
            async for _, changes in store.watch(keys.commands, start_revision=revision + 1):
                for change in changes:
                    if not change.deleted:
                        read(change.kv)
        except CompactedError:
            snapshot = await store.list(keys.commands)
            revision = snapshot.revision
            for kv in sorted(snapshot.items, key=lambda kv: kv.create_revision):
                read(kv)


def node_in(kv: KeyValue) -> Node:
    """The node in a key, with the revision at which it joined."""
    return replace(decode(Node, kv.value), joined=kv.create_revision)


def _event(keys: JobKeys, change: Change) -> NodeJoined | NodeLost:
    if change.deleted:
        return NodeLost(change.kv.key.removeprefix(keys.nodes))
    return NodeJoined(node_in(change.kv))
