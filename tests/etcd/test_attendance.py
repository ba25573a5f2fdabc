"""Rounds of torchrun agents on a real etcd, without torchrun: who meets, when, under which number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from elaunch.clock import SystemClock
from elaunch.errors import EtcdLostError, JoinTimeoutError, SpecMismatchError
from elaunch.rendezvous.attendance import Attendance, RunClosedError
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.presence import Site
from elaunch.rendezvous.records import Spec
from elaunch.rendezvous.rounds import Limits, Participant
from tests.etcd.running import run
from tests.etcd.servers import Member

PATIENCE = 60.0
TTL = 30  # seconds of a lease that nobody waits for the end of
SHORT = 2  # seconds of one whose end is waited for


class Scene:
    """Agents of one job in one loop, each with a store of its own."""

    def __init__(self, endpoint: str, job: str, limits: Limits) -> None:
        self.endpoint, self.job, self.limits = endpoint, job, limits
        self.stores: list[EtcdStore] = []
        self.agents: list[Attendance] = []

    def agent(self, limits: Limits | None = None, ttl: int = TTL) -> Attendance:
        limits = limits or self.limits
        store = EtcdStore([self.endpoint])
        spec = Spec(limits.min_nodes, limits.max_nodes, -1, {"torchrun": {}})
        site = Site(store, JobKeys(self.job), spec, limits, ttl, SystemClock())
        self.stores.append(store)
        self.agents.append(Attendance(site, Participant("", "host", "127.0.0.1", 1, 0, "")))
        return self.agents[-1]


@asynccontextmanager
async def scene(etcd: Member, job: str, limits: Limits) -> AsyncIterator[Scene]:
    made = Scene(etcd.endpoint, job, limits)
    try:
        yield made
    finally:
        for agent in made.agents:
            await agent.leave()
        for store in made.stores:
            await store.close()


async def meet(*agents: Attendance) -> Plan:
    """All of ``agents`` are in one round; its plan."""
    plans = await asyncio.gather(*(agent.next_round(1000 + i, PATIENCE) for i, agent in enumerate(agents)))
    assert len(set(plans)) == 1
    assert all(plans[0].member(agent.node_id) for agent in agents)
    return plans[0]


def rank(plan: Plan, agent: Attendance) -> int:
    place = plan.member(agent.node_id)
    assert place is not None
    return place.group_rank


async def news(agent: Attendance, expected: int) -> None:
    async def told() -> None:
        while agent.news() != expected:  # noqa: ASYNC110 - torchrun polls it as well
            await asyncio.sleep(0.01)

    await asyncio.wait_for(told(), PATIENCE)


def test_a_full_round_forms_at_once_and_ranks_stay(etcd: Member) -> None:
    async def story() -> None:
        async with scene(etcd, "full", Limits(1, 3, 60.0)) as s:
            a, b, c = s.agent(), s.agent(), s.agent()
            first = await meet(a, b, c)
            assert (first.generation, first.world_size) == (1, 3)
            assert first.store_port == 1000 + [rank(first, agent) for agent in (a, b, c)].index(0)
            again = await meet(c, b, a)
            assert again.generation == 2
            assert [rank(again, x) for x in (a, b, c)] == [rank(first, x) for x in (a, b, c)]

            # One is lost: the others are told, and go on without a last call; the newcomer comes last.
            await b.leave()
            await news(a, 1)
            await news(c, 1)
            assert (await meet(a, c)).world_size == 2
            late = s.agent()
            joining = asyncio.create_task(late.next_round(7, PATIENCE))
            await news(a, 1)
            assert not joining.done()  # nobody is left behind by a round formed too early
            grown = await meet(a, c)
            assert await joining == grown
            assert grown.world_size == 3
            assert rank(grown, late) == 2

    run(story())


def test_a_running_member_is_waited_for(etcd: Member) -> None:
    async def story() -> None:
        async with scene(etcd, "busy", Limits(1, 2, 0.0)) as s:
            a, b = s.agent(), s.agent()
            first = asyncio.create_task(a.next_round(1, PATIENCE))
            await first
            joined = asyncio.create_task(b.next_round(2, PATIENCE))
            await news(a, 1)
            plan = await a.next_round(3, PATIENCE)
            assert await joined == plan
            assert plan.world_size == 2
            back = asyncio.create_task(a.next_round(4, PATIENCE))
            await news(b, 1)
            await asyncio.sleep(0.3)
            assert not back.done(), "a formed a round while b runs the last one"
            again = await b.next_round(5, PATIENCE)
            assert await back == again

    run(story())


def test_a_spare_is_no_news_and_harms_nobody(etcd: Member) -> None:
    async def story() -> None:
        async with scene(etcd, "spare", Limits(2, 2, 60.0)) as s:
            a, b, spare = s.agent(), s.agent(), s.agent()
            await meet(a, b)
            for seconds in (0.5, 5.0, 30.0):  # longer where it had not even come in yet
                with pytest.raises(JoinTimeoutError) as told:
                    await spare.next_round(1, seconds)
                if "0 nodes wait" not in str(told.value):
                    break
            assert "1 nodes wait, 2 run" in str(told.value)
            assert not spare.took_part
            assert (a.news(), b.news()) == (0, 0)
            waiting = asyncio.create_task(spare.next_round(1, PATIENCE))
            await b.leave()
            await news(a, 2)
            plan = await a.next_round(1, PATIENCE)
            assert await waiting == plan

    run(story())


@pytest.mark.slow
def test_a_closed_run_has_no_rounds_and_the_next_one_has(etcd: Member) -> None:
    async def story() -> None:
        async with scene(etcd, "closed", Limits(2, 2, 60.0)) as s:
            a, b = s.agent(), s.agent()
            assert (await meet(a, b)).generation == 1
            await a.close_run()
            await a.leave()
            with pytest.raises(RunClosedError):
                await b.next_round(1, PATIENCE)
            assert b.closed
            assert b.news() == 0

            other = Limits(1, 1, 0.0)
            refused = s.agent(other, SHORT)
            with pytest.raises(RunClosedError):  # b stays for longer than a lease could have kept a dead one
                await refused.next_round(1, PATIENCE)
            c = s.agent(other)
            joining = asyncio.create_task(c.next_round(1, PATIENCE))
            await asyncio.sleep(0.2)
            assert not joining.done()
            await b.close_run()  # closing once more is of no consequence for the next run
            await b.leave()
            assert (await joining).generation == 2
            assert not c.closed
            await b.close_run()
            assert (await c.next_round(1, PATIENCE)).generation == 3

    run(story())


def test_another_number_of_nodes_is_refused(etcd: Member) -> None:
    async def story() -> None:
        async with scene(etcd, "mismatch", Limits(1, 1, 0.0)) as s:
            a = s.agent()
            await a.next_round(1, PATIENCE)
            with pytest.raises(SpecMismatchError, match="--nnodes"):
                await s.agent(Limits(1, 2, 0.0)).next_round(1, PATIENCE)
            assert a.news() == 0

    run(story())


def test_an_ended_lease_makes_the_node_join_again(etcd: Member) -> None:
    async def story() -> None:
        async with scene(etcd, "lease", Limits(1, 2, 60.0)) as s:
            a, b = s.agent(), s.agent()
            first = await meet(a, b)
            old = a.node_id
            found = await s.stores[0].get(JobKeys("lease").node(old))
            assert found is not None
            await s.stores[0].revoke(found.lease)
            await news(a, 1)
            await news(b, 1)
            rejoining = asyncio.create_task(a.next_round(7, PATIENCE))
            await news(b, 2)
            second = await b.next_round(8, PATIENCE)
            assert await rejoining == second
            assert a.node_id != old
            assert rank(second, b) == rank(first, b)

    run(story())


@pytest.mark.slow
def test_an_etcd_that_is_gone_is_told(own_etcd: Member) -> None:
    async def story() -> None:
        async with scene(own_etcd, "gone", Limits(1, 1, 0.0)) as s:
            a = s.agent(ttl=SHORT)
            await a.next_round(1, PATIENCE)
            own_etcd.kill()
            s.stores[0]._transport.deadline = 1.0
            await news(a, 1)  # after the lease the ranks may not run on
            with pytest.raises(EtcdLostError):
                await a.next_round(1, PATIENCE)

    run(story())


@pytest.mark.slow
def test_a_crashed_run_is_followed_by_the_next_number(etcd: Member) -> None:
    async def story() -> None:
        async with scene(etcd, "crash", Limits(1, 2, 1.0)) as s:
            a, b = (s.agent(Limits(1, 2, 60.0), SHORT) for _ in range(2))
            first = await meet(a, b)
            for agent in (a, b):  # as SIGKILL does: nobody renews, nobody says good-bye
                presence, agent._presence = agent._presence, None
                assert presence is not None
                for task in presence._tasks:
                    task.cancel()
            plan = await s.agent().next_round(1, PATIENCE)  # once their leases have ended
            assert (plan.generation, plan.world_size) == (first.generation + 1, 1)

    run(story())
