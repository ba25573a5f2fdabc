"""What somebody else has written under a job's keys: one clear sentence, and no leader after the other dies of it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from elaunch.controller.chronicle import happenings
from elaunch.controller.commands import End
from elaunch.controller.operating import submit
from elaunch.errors import BadRecordError, ElaunchError, JobFinishedError
from elaunch.rendezvous.election import Election, claim
from elaunch.rendezvous.joining import join
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader, Node, Phase, Spec, decode
from elaunch.rendezvous.seats import await_seat
from elaunch.rendezvous.state import State
from tests.etcd.running import opened, run
from tests.etcd.servers import Member
from tests.etcd.world import WHO, World, until

BAD: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "no JSON": lambda _: b"\xff{",
    "another shape": lambda _: b"[1, 2]",
    "too deep": lambda _: b"[" * 100_000,
    "no generation": lambda data: json.dumps({k: v for k, v in data.items() if k != "generation"}).encode(),
    "a number as text": lambda data: json.dumps(data | {"generation": "1"}).encode(),
}


@pytest.mark.parametrize("what", ["state", "plan"])
@pytest.mark.parametrize("how", [*BAD, "another's"])
def test_a_job_whose_records_cannot_be_read_ends_once_and_says_why(play, what: str, how: str) -> None:
    async def test(world: World) -> None:
        key = world.keys.state if what == "state" else world.keys.plan(1)
        found = await world.store.get(key)
        assert found is not None
        if how == "another's":
            await world.store.put(world.keys.plan(1), found.value.replace(b'"generation":1', b'"generation":4'))
            key = world.keys.plan(1)
        else:
            await world.store.put(key, BAD[how](json.loads(found.value)))
        for number in range(3):  # each standby in its turn
            async with world.led() as term:
                await until(lambda: all(agent.end is not None for agent in world.agents.values()))
                assert (term.job.phase, term.job.exit_code) == (Phase.FAILED, 65)
                assert f"the key {key} cannot be used: " in term.job.reason.text
            for agent in world.agents.values():
                end, agent.end = agent.end, None
                assert isinstance(end, End)
                assert (end.exit_code, end.code) == (65, "bad_record")
            written = await world.store.get(world.keys.state)
            assert written is not None
            state = decode(State, written.value)
            assert (state.phase, state.generation) == (Phase.FAILED, 1), number
        codes = [line.code for line in await happenings(world.store, world.keys.job)]
        assert codes.count("bad_record") == 1
        with pytest.raises(JobFinishedError, match="cannot be used"):
            await submit(world.store, world.keys.job, "abort", WHO, 1.0, "")
        for node_id in list(world.agents):
            await world.leave(node_id)
        await world.join(7)
        async with world.led() as term:  # the job is started again
            await until(lambda: term.job.phase is Phase.RUNNING)
            assert term.job.generation == 2

    play(test)


def test_a_plan_of_a_job_that_has_ended_does_not_matter(play) -> None:
    async def test(world: World) -> None:
        async with world.led() as term:
            await world.command("abort")
            await until(lambda: all(agent.end is not None for agent in world.agents.values()))
            assert term.job.phase is Phase.STOPPED
        await world.store.put(world.keys.plan(1), b"x")
        async with world.led() as term:
            await until(lambda: term.job.phase is Phase.STOPPED)
            assert term.job.exit_code == 94

    play(test)


def node(rank: int = -1) -> Node:
    return Node("n0", "h0", "127.0.0.1", 2, 1, "127.0.0.1:1", node_rank=rank, owns_rank=rank >= 0)


@pytest.mark.parametrize("what", ["leader", "spec", "seat"])
def test_a_node_that_cannot_know_the_job_ends_with_the_key_and_its_defect(etcd: Member, what: str) -> None:
    async def test() -> None:
        async with opened(etcd.endpoint) as store:
            keys = JobKeys(f"bad {uuid.uuid4().hex}")
            key = {"leader": keys.leader, "spec": keys.spec, "seat": keys.seat(3)}[what]
            await store.put(key, b'{"address": 5}')
            lease = await store.grant(10)

            async def follow() -> Any:
                election = Election(store, keys, lease)
                try:
                    return await anext(aiter(election.observe()))
                finally:
                    await election.close()

            trials: dict[str, list[Callable[[], Any]]] = {
                "leader": [follow, lambda: claim(store, keys.leader, Leader("n0", "a", "t"), lease)],
                "spec": [lambda: join(store, keys, Spec(1, 2, 0, {}), node(), lease)],
                "seat": [lambda: await_seat(store, keys, node(3), 1, lambda *_: None)],
            }
            for trial in trials[what]:
                with pytest.raises(BadRecordError, match="cannot be used: not a ") as raised:
                    await trial()
                assert isinstance(raised.value, ElaunchError)
                assert (raised.value.exit_code, raised.value.key) == (65, key)
                assert key in str(raised.value)

    run(test())
