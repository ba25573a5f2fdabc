"""What a dedicated controller sees of the jobs in its etcd."""

from __future__ import annotations

import asyncio

from elaunch.controller.dedicated import place
from elaunch.controller.overview import Overview, Signs
from elaunch.rendezvous.keys import JobKeys
from tests.etcd.memory_store import MemoryStore

A, B = JobKeys("a"), JobKeys("b/ü")


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Seen(dict[str, Signs]):
    """The last signs of each job."""

    def note(self, signs: Signs) -> None:
        self[signs.job] = signs


def test_jobs_their_nodes_and_their_leaders_are_seen_before_and_after_a_gap() -> None:
    async def test() -> None:
        store, seen = MemoryStore(), Seen()
        await store.put(A.node("n0"), b"")
        epoch = await store.put(A.leader, b"")
        overview = Overview(store, seen.note)
        following = asyncio.create_task(overview.follow())
        await settle()
        assert (seen["a"].nodes, seen["a"].leader) == ({"nodes/n0"}, epoch)
        assert not seen["a"].deposed(epoch)
        await store.put(B.node("n1"), b"")
        await store.delete(A.leader)
        await settle()
        assert seen["b/ü"].nodes == {"nodes/n1"}
        assert seen["a"].leader == 0
        assert seen["a"].deposed(epoch)
        await store.delete(B.node("n1"))
        again = await store.put(A.leader, b"")
        store.compact()
        await settle()
        assert not seen["b/ü"].nodes
        assert seen["a"].leader == again
        assert not seen["a"].deposed(again)
        following.cancel()
        await asyncio.wait({following})

    asyncio.run(asyncio.wait_for(test(), 10))


def test_a_leader_that_was_just_elected_is_not_taken_for_deposed() -> None:
    """The answer to its claim may come before the watch tells of the key."""
    signs = Signs("a", {"nodes/n0"}, leader=0, vacated=7)
    assert not signs.deposed(8)
    assert signs.deposed(6)


def test_controllers_agree_on_the_line_and_share_the_jobs() -> None:
    names = ["x", "y", "z"]
    firsts = []
    for job in map(str, range(60)):
        places = {name: place(name, names, job) for name in names}
        assert sorted(places.values()) == [0, 1, 2]
        firsts.append(min(places, key=places.__getitem__))
        left = [name for name in names if name != firsts[-1]]
        assert [place(name, left, job) for name in sorted(left, key=places.__getitem__)] == [0, 1]
    assert all(8 < firsts.count(name) < 32 for name in names)
