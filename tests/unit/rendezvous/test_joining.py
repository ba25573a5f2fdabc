"""How nodes agree on a job's spec when they join."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from elaunch.errors import AmbiguousError, RankTakenError, RendezvousError, SpecMismatchError
from elaunch.rendezvous.joining import join
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Node, Spec, decode, encode
from elaunch.rendezvous.store import Compare, Op, Put, Txn, TxnResult
from tests.etcd.memory_store import MemoryStore

KEYS = JobKeys("job")
SPEC = Spec(1, 4, 3, {"default": {"nproc": 2, "program": "train.py"}})


class Lossy(MemoryStore):
    """Loses the answers to the first ``lost`` transactions, applied or not."""

    def __init__(self, lost: int, *, applied: bool) -> None:
        super().__init__()
        self.lost, self.applied = lost, applied

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        if self.lost:
            self.lost -= 1
            if self.applied:
                await super().txn(compares, ops, otherwise=otherwise)
            raise AmbiguousError("the answer was lost")
        return await super().txn(compares, ops, otherwise=otherwise)


def make_node(number: int, role: str = "default") -> Node:
    return Node(f"n{number}", f"h{number}", "10.0.0.1", 2, 1000, "10.0.0.1:1", role=role)


async def enter(store: MemoryStore, number: int, spec: Spec = SPEC, role: str = "default") -> int:
    lease = await store.grant(60)
    await join(store, KEYS, spec, make_node(number, role), lease)
    return lease


async def spec_of(store: MemoryStore) -> Spec:
    found = await store.get(KEYS.spec)
    assert found is not None
    return decode(Spec, found.value)


async def node_ids(store: MemoryStore) -> list[str]:
    return [kv.key.removeprefix(KEYS.nodes) for kv in (await store.list(KEYS.nodes)).items]


def test_the_first_node_writes_the_spec() -> None:
    async def run() -> None:
        store = MemoryStore()
        lease = await enter(store, 0)
        assert await spec_of(store) == SPEC
        found = await store.get(KEYS.node("n0"))
        assert found is not None
        assert (decode(Node, found.value), found.lease) == (make_node(0), lease)

    asyncio.run(run())


def test_others_join_where_they_agree() -> None:
    async def run() -> None:
        store = MemoryStore()
        await asyncio.gather(*(enter(store, number) for number in range(5)))
        assert await node_ids(store) == ["n0", "n1", "n2", "n3", "n4"]
        spec = await store.get(KEYS.spec)
        assert spec is not None
        assert spec.create_revision == spec.mod_revision

    asyncio.run(run())


def test_roles_are_added() -> None:
    reader = replace(SPEC, roles={"reader": {"nproc": 1, "program": "read.py"}})

    async def run() -> None:
        store = MemoryStore()
        await enter(store, 0)
        await enter(store, 1, reader, "reader")
        await enter(store, 2)
        assert (await spec_of(store)).roles == {**SPEC.roles, **reader.roles}
        assert len(await node_ids(store)) == 3

    asyncio.run(run())


@pytest.mark.parametrize(
    ("ours", "told"),
    [
        (replace(SPEC, max_nodes=5), "--nnodes is 5 here and 4 in the job"),
        (replace(SPEC, min_nodes=2), "--nnodes is 2 here and 1 in the job"),
        (replace(SPEC, max_restarts=0), "--max-restarts is 0 here and 3 in the job"),
        (
            replace(SPEC, roles={"default": {"nproc": 8, "program": "train.py"}}),
            "--nproc-per-node is 8 here and 2 in the job",
        ),
        (
            replace(SPEC, roles={"default": {"nproc": 2, "program": "test.py"}}),
            "the program is 'test.py' here and 'train.py' in the job",
        ),
    ],
)
def test_a_difference_is_refused_and_shown(ours: Spec, told: str) -> None:
    async def run() -> None:
        store = MemoryStore()
        await enter(store, 0)
        with pytest.raises(SpecMismatchError) as refused:
            await enter(store, 1, ours)
        assert told in str(refused.value)
        assert "h1 does not fit job 'job'" in str(refused.value)
        assert await node_ids(store) == ["n0"]
        assert await spec_of(store) == SPEC

    asyncio.run(run())


@pytest.mark.parametrize("first", ["elaunch", "torchrun"])
def test_torchrun_and_elaunch_cannot_share_a_job(first: str) -> None:
    specs = {"elaunch": SPEC, "torchrun": Spec(1, 4, -1, {"torchrun": {}})}
    (other,) = specs.keys() - {first}

    async def run() -> None:
        store = MemoryStore()
        lease = await enter(store, 0, specs[first], next(iter(specs[first].roles)))
        with pytest.raises(SpecMismatchError) as refused:
            await enter(store, 1, specs[other], next(iter(specs[other].roles)))
        assert str(refused.value) == (
            f"rendezvous: job 'job' is run by {first}, and node h1 by {other}: "
            "torchrun and elaunch agents cannot share a job; give one of them another --rdzv-id"
        )
        await store.revoke(lease)  # an id that nobody uses any more is free for either
        await enter(store, 1, specs[other], next(iter(specs[other].roles)))

    asyncio.run(run())


def test_a_spec_of_which_no_node_lives_is_replaced() -> None:
    ours = replace(SPEC, max_nodes=5)

    async def run() -> None:
        store = MemoryStore()
        await store.revoke(await enter(store, 0))
        await enter(store, 1, ours)
        assert await spec_of(store) == ours

    asyncio.run(run())


def owner(number: int, rank: int) -> Node:
    return replace(make_node(number), node_rank=rank, owns_rank=True)


async def enter_as(store: MemoryStore, node: Node) -> int:
    lease = await store.grant(60)
    await join(store, KEYS, SPEC, node, lease)
    return lease


@pytest.mark.parametrize("first", [True, False], ids=["into an empty job", "into a job"])
def test_of_two_that_come_at_once_with_one_rank_one_is_refused(first: bool) -> None:
    async def run() -> None:
        store = MemoryStore()
        if not first:
            await enter_as(store, owner(9, 0))
        results = await asyncio.gather(*(enter_as(store, owner(n, 1)) for n in range(4)), return_exceptions=True)
        refused = [error for error in results if isinstance(error, BaseException)]
        assert len(refused) == 3
        for error in refused:
            assert isinstance(error, RankTakenError)
            assert "--node-rank=1 is taken by node h0 (n0)" in str(error)
        assert await node_ids(store) == ["n0"] + ["n9"] * (not first)

    asyncio.run(run())


def test_a_rank_is_free_with_its_holders_lease() -> None:
    async def run() -> None:
        store = MemoryStore()
        await store.revoke(await enter_as(store, owner(0, 1)))
        await enter_as(store, owner(1, 1))
        assert await node_ids(store) == ["n1"]

    asyncio.run(run())


def test_a_rank_by_default_is_nobodys_own() -> None:
    async def run() -> None:
        store = MemoryStore()
        for number in range(2):
            await enter_as(store, replace(make_node(number), node_rank=0))
        await enter_as(store, owner(2, 0))
        assert await node_ids(store) == ["n0", "n1", "n2"]

    asyncio.run(run())


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_lost_answers_cost_nobody_his_rank(lost: int, applied: bool) -> None:
    async def run() -> None:
        store = Lossy(lost, applied=applied)
        await enter_as(store, owner(0, 3))
        store.lost = lost
        await enter_as(store, owner(1, 4))
        assert await node_ids(store) == ["n0", "n1"]
        with pytest.raises(RankTakenError):
            await enter_as(store, owner(2, 3))

    asyncio.run(run())


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("lost", [1, 2, 3, 5])
def test_lost_answers_do_no_harm(lost: int, applied: bool) -> None:
    async def run() -> None:
        store = Lossy(lost, applied=applied)
        await enter(store, 0)
        store.lost = lost
        await enter(store, 1)
        assert (await node_ids(store), await spec_of(store)) == (["n0", "n1"], SPEC)

    asyncio.run(run())


def test_a_spec_that_keeps_changing_is_given_up() -> None:
    class Restless(MemoryStore):
        async def get(self, key: str) -> Any:
            found = await super().get(key)
            if key == KEYS.spec:
                await super().txn([], [Put(KEYS.spec, encode(replace(SPEC, roles={})))])
            return found

    async def run() -> None:
        store = Restless()
        await store.put(KEYS.spec, encode(replace(SPEC, roles={})))
        with pytest.raises(RendezvousError, match="changed 50 times while joining"):
            await enter(store, 0)

    asyncio.run(run())


def test_another_policy_refuses_nobody_and_the_first_nodes_holds() -> None:
    async def run() -> None:
        store = MemoryStore()
        first = await enter(store, 0, replace(SPEC, policy={"join_timeout": 5.0}))
        second = await enter(store, 1, replace(SPEC, policy={"join_timeout": 7.0}))
        third = await enter(store, 2, SPEC)
        assert (await spec_of(store)).policy == {"join_timeout": 5.0}
        for lease in (first, second, third):
            await store.revoke(lease)
        await enter(store, 3, replace(SPEC, policy={"join_timeout": 7.0}))
        assert (await spec_of(store)).policy == {"join_timeout": 7.0}, "none lives who was started with the other"

    asyncio.run(run())
