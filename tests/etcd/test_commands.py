"""Operators' commands on a real etcd: durable, carried out once though the leader dies at the worst moment."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import aclosing
from dataclasses import replace
from urllib.parse import unquote

import pytest

from elaunch.controller.access import parse_tokens
from elaunch.controller.chronicle import follow_happenings, happenings
from elaunch.controller.ledger import KEPT_COMMANDS, KEPT_EVENTS
from elaunch.controller.operating import submit, verdict
from elaunch.controller.operator_server import status_of
from elaunch.controller.survey import job_names, overview
from elaunch.errors import CommandRefusedError, JobFinishedError, NoSuchJobError, UnansweredError
from elaunch.kubernetes import job_view
from elaunch.progress import GroupProgress, Heartbeat, RankProgress
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.journal import Operation, Standing, decode_operation
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader, Node, Phase, Reason, encode, read
from elaunch.rendezvous.state import State
from elaunch.rendezvous.store import Put, Snapshot
from elaunch.rendezvous.waiting import cancelled
from tests.etcd.running import PATIENT, run
from tests.etcd.servers import Member
from tests.etcd.world import WHO, World, until

HOSTILE = (
    b"",
    b"\xff",
    b"[]",
    b"{}",
    b"null",
    b"[" * 100_000,
    b'{"id": 5}',
    b'{"id": "bad7", "kind": "abort", "who": "x", "at": 1, "nodes": 5}',
    b'{"id": "bad8", "kind": ["abort"], "who": "x", "at": 1}',
    b'{"id": "bad9", "kind": "abort", "who": "x", "at": 1, "standing": []}',
    b'{"id": "bad10", "kind": "dance", "who": "x", "at": 1, "standing": "accepted"}',
    b'{"id": "bad11", "kind": "signal", "who": "x", "at": 1, "standing": "accepted", "nodes": ["n0"]}',
    b'{"id": "bad12", "kind": "stacks", "who": "x", "at": 1, "standing": "accepted", "answers": {"n0": 5}}',
    b'{"id": "bad13", "kind": "signal", "who": "x", "at": 1, "arguments": {"signal": true}}',
)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_restart_is_carried_out_once_though_the_leader_dies_of_it(play, when: str) -> None:
    async def test(world: World) -> None:
        asked = await world.command("restart", "try again")
        await world.dies(when)
        async with world.led() as term:
            told = await world.through(asked)
            assert told.answer == "generation 2 runs: 4 ranks on 2 nodes"
            await until(lambda: term.job.phase is Phase.RUNNING)
        async with world.led() as term:
            await until(lambda: term.job.phase is Phase.RUNNING and not term.job.operations)
        assert await world.plans() == 2
        assert [agent.starts for agent in world.agents.values()] == [[1, 2], [1, 2]]
        codes = [line.code for line in await happenings(world.store, world.keys.job)]
        assert (codes.count("command_accepted"), codes.count("command_done")) == (1, 1)

    play(test)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_abort_is_carried_out_though_the_leader_dies_of_it(play, when: str) -> None:
    async def test(world: World) -> None:
        asked = await world.command("abort", "enough")
        await world.dies(when)
        async with world.led() as term:
            told = await world.through(asked)
            assert (told.standing, told.exit_code) == (Standing.DONE, 0)
            assert (term.job.phase, term.job.exit_code) == (Phase.STOPPED, 94)
        with pytest.raises(JobFinishedError, match="has ended"):
            await world.command("abort")

    play(test)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_scaling_is_kept_by_the_next_leader(play, when: str) -> None:
    async def test(world: World) -> None:
        asked = await world.command("scale", min_nodes=1, max_nodes=1)
        await world.dies(when)
        async with world.led() as term:
            assert (await world.through(asked)).answer == "generation 2 runs: 2 ranks on 1 node"
        async with world.led() as term:
            await until(lambda: term.job.phase is Phase.RUNNING)
            assert (term.job.policy.min_nodes, term.job.policy.max_nodes) == (1, 1)
        assert await world.plans() == 2

    play(test)


def test_a_signal_is_sent_once_though_leaders_change(play) -> None:
    async def test(world: World) -> None:
        for agent in world.agents.values():
            agent.silent = True
        asked = await world.command("signal", signal=10)
        async with world.led() as term:
            await until(lambda: bool(term.job.answer_by))
        for agent in world.agents.values():
            agent.silent = False
        async with world.led():
            told = await world.through(asked)
        assert told.answers == {"n0": "sent", "n1": "sent"}
        assert [agent.signals for agent in world.agents.values()] == [{asked.id: 1}, {asked.id: 1}]

    play(test)


def test_a_drained_host_stays_out_under_every_leader(play) -> None:
    async def test(world: World) -> None:
        asked = await world.command("drain", "new disk", node="h1")
        async with world.led():
            await until(lambda: world.agents["n1"].status.leaving)
            await world.leave("n1")
            assert (await world.through(asked)).answer.startswith("h1 has left the job")
        await world.join(2, "h1")
        async with world.led() as term:
            await until(lambda: "n2" in term.job.nodes and term.job.phase is Phase.RUNNING)
            assert [m.node_id for m in term.job.members] == ["n0"]
            back = await world.command("undrain", node="h1")
            assert (await world.through(back)).answer == "h1 may take part again"
            await until(lambda: len(term.job.members) == 2 and term.job.phase is Phase.RUNNING)

    play(test)


def test_commands_are_taken_in_the_order_of_the_store(play) -> None:
    async def test(world: World) -> None:
        asked = [await world.command("scale", min_nodes=1, max_nodes=n) for n in (3, 4, 5, 6)]
        async with world.led() as term:
            for one in asked:
                assert (await world.through(one)).standing is Standing.DONE
            assert term.job.policy.max_nodes == 6

    play(test)


def test_a_command_nobody_takes_stands_and_says_so(play) -> None:
    async def test(world: World) -> None:
        asked = await world.command("restart")
        left = await world.through(asked, 0.2)
        error = verdict("job", left, 0.2)
        assert isinstance(error, UnansweredError)
        assert "not seen by a leader yet" in str(error)
        async with world.led():
            assert (await world.through(asked)).standing is Standing.DONE

    play(test)


def test_a_command_of_the_last_run_does_nothing_to_the_next(play) -> None:
    async def test(world: World) -> None:
        asked = await world.command("abort")
        for node_id in list(world.agents):
            await world.leave(node_id)
        await world.join(5)
        async with world.led() as term:
            told = await world.through(asked)
            assert (told.standing, told.exit_code) == (Standing.REFUSED, 67)
            await until(lambda: term.job.phase is Phase.RUNNING)

    play(test)


def test_what_is_no_command_is_left_alone(play) -> None:
    async def test(world: World) -> None:
        for number, value in enumerate(HOSTILE):
            await world.store.put(world.keys.command(f"bad{number}"), value)
        for number, value in enumerate(
            (b"", b"[]", b'{"seq": "x"}', b'{"seq": 1, "time": NaN, "code": "", "text": ""}')
        ):
            await world.store.put(world.keys.events + f"bad{number}", value)
        async with world.led() as term:
            for number, value in enumerate((b"x", encode(Operation("other-id", "abort", WHO, 1.0)))):
                await world.store.put(world.keys.command(f"worse{number}"), value)
            asked = await world.command("scale", min_nodes=1, max_nodes=3)
            assert (await world.through(asked)).standing is Standing.DONE
            assert term.job.phase is Phase.RUNNING
        assert (await happenings(world.store, world.keys.job))[0].code == "leading"

    play(test)


def test_history_and_commands_are_bounded(play) -> None:
    async def test(world: World) -> None:
        for first in range(0, KEPT_EVENTS, 100):
            old = {"time": 1.0, "code": "old", "text": "old"}
            lines = {seq: json.dumps({"seq": seq, **old}).encode() for seq in range(first, first + 100)}
            await world.store.txn([], [Put(world.keys.event(seq), line) for seq, line in lines.items()])
        async with world.led():
            asked = [await world.command("undrain", node="h9") for _ in range(KEPT_COMMANDS + 10)]
            assert (await world.through(asked[-1])).standing is Standing.REFUSED
        told = await happenings(world.store, world.keys.job)
        assert len(told) == KEPT_EVENTS
        assert [line.seq for line in told] == list(range(told[0].seq, told[0].seq + KEPT_EVENTS))
        assert len((await overview(world.store, world.keys.job)).operations) == KEPT_COMMANDS

    play(test)


def test_a_leader_tells_who_is_waited_for(play) -> None:
    async def test(world: World) -> None:
        async with world.led() as term:
            await until(lambda: term.job.phase is Phase.RUNNING)
            for node, started in (("n0", 3), ("n1", 2)):
                group = GroupProgress("default", 4, started, 2, "all_reduce float32[8]")
                numbers = range(2) if node == "n0" else range(2, 4)
                ranks = [
                    RankProgress(n, n, 40 + n, "S", attached=True, progress_age=12.0, groups=(group,)) for n in numbers
                ]
                term.hear(Heartbeat(node, 1, 0.25, tuple(ranks)))
            lines = status_of(term).ranks
            assert [(line.rank, line.awaited_by, line.waits_in) for line in lines] == [
                (0, 0, "all_reduce float32[8]"),
                (1, 0, "all_reduce float32[8]"),
                (2, 2, ""),
                (3, 2, ""),
            ]
            assert {line.progress_seconds for line in lines} == {12.0}

    play(test)


TOKENS = parse_tokens(f"operator {'o' * 20}\nagent {'a' * 20}")


def test_a_command_that_nobody_has_sealed_is_settled_though_it_is_said_to_be_accepted(play) -> None:
    async def test(world: World) -> None:
        forged = Operation("forged", "restart", WHO, 1.0, standing=Standing.ACCEPTED, generation=1)
        sealed = await submit(world.store, world.keys.job, "restart", WHO, 5.0, "", TOKENS)
        for operation in (forged, replace(sealed, standing=Standing.ACCEPTED, generation=1)):
            await world.store.put(world.keys.command(operation.id), encode(operation))
        async with world.led() as term:
            term.access = TOKENS.access()
            told = await world.through(forged)
            assert (told.standing, told.exit_code) == (Standing.REFUSED, 77)
            assert "operator's token" in told.answer
            left = await overview(world.store, world.keys.job)
            assert [o.id for o in left.operations if o.standing.open] == [sealed.id], "it waits for its generation"
            assert term.job.generation == 1

    play(test)


@pytest.mark.slow
@pytest.mark.parametrize("standing", [Standing.PENDING, Standing.ACCEPTED])
@pytest.mark.parametrize("ended", [True, False])
def test_a_command_of_a_job_of_which_nobody_is_left_does_not_stay_open(play, standing: Standing, ended: bool) -> None:
    async def test(world: World) -> None:
        asked = await world.command("restart")
        await world.store.put(world.keys.command(asked.id), encode(replace(asked, standing=standing)))
        if ended:
            state = State(Phase.SUCCEEDED, 1, 0, Reason("succeeded", "every rank ended with 0"))
            await world.store.put(world.keys.state, encode(state))
        await world.store.delete(world.keys.leader)
        for node_id in list(world.agents):
            await world.leave(node_id)
        (seen,) = (await overview(world.store, world.keys.job)).operations
        assert (seen.standing, seen.exit_code) == (Standing.FAILED, 67)
        told = await world.through(asked)  # long before its time is over
        assert isinstance(verdict(world.keys.job, told, 10.0), JobFinishedError)
        written = await world.store.get(world.keys.command(asked.id))
        assert written is not None
        assert decode_operation(written.value, 1).standing is Standing.FAILED

    play(test)


@pytest.mark.slow
def test_a_command_stands_while_somebody_may_lead_again(play) -> None:
    async def test(world: World) -> None:
        asked = await world.command("restart")
        await world.store.delete(world.keys.leader)
        (seen,) = (await overview(world.store, world.keys.job)).operations
        assert seen.standing is Standing.PENDING
        assert (await world.through(asked, 2.5)).standing is Standing.PENDING
        async with world.led():
            assert (await world.through(asked)).standing is Standing.DONE

    play(test)


def test_events_are_followed_to_the_end_of_the_job(play) -> None:
    async def test(world: World) -> None:
        seen: list[str] = []

        async def follow() -> None:
            async with aclosing(follow_happenings(world.store, world.keys.job)) as lines:
                async for line in lines:
                    seen.append(line.code)

        following = asyncio.create_task(follow())
        async with world.led():
            await until(lambda: seen.count("leading") == 2)
            await world.command("abort")
            await asyncio.wait_for(following, 60)
        assert seen[-2:] == ["job_stopped", "command_done"]

    play(test)


class Overtaken(EtcdStore):
    """The job ends after its state was read, and before its history is."""

    async def list(self, prefix: str, *, keys_only: bool = False) -> Snapshot:
        keys = JobKeys(unquote(prefix.split("/")[2]))
        if prefix == keys.events and (found := await self.get(keys.state)) is not None:
            state = read(State, found.key, found.value)
            if not state.phase.final:
                await self.put(keys.state, encode(replace(state, phase=Phase.STOPPED, horizon=found.mod_revision)))
        return await super().list(prefix, keys_only=keys_only)


def test_an_end_that_comes_while_the_history_is_read_is_not_missed(play) -> None:
    async def test(world: World) -> None:
        store = Overtaken([world.endpoint], **PATIENT)
        try:
            async with aclosing(follow_happenings(store, world.keys.job)) as lines:
                assert [line.code async for line in lines]
        finally:
            await store.close()

    play(test)


def test_a_pod_s_manager_hears_of_a_change_right_after_another(play) -> None:
    async def test(world: World) -> None:
        wake = asyncio.Event()
        following = asyncio.create_task(job_view.follow(world.store, world.keys.job, wake))
        for n in range(4):
            await asyncio.wait_for(wake.wait(), 60)
            wake.clear()
            await world.store.put(f"{world.keys.nodes}x", str(n).encode())
        await asyncio.wait_for(wake.wait(), 60)
        await cancelled(following)

    play(test)


def test_what_can_be_said_without_a_leader(etcd: Member) -> None:
    async def test() -> None:
        store = EtcdStore([etcd.endpoint], **PATIENT)
        try:
            job = f"said {uuid.uuid4().hex}/x"
            keys = JobKeys(job)
            with pytest.raises(NoSuchJobError, match="no job"):
                await submit(store, job, "abort", WHO, 1.0, "")
            await store.put(keys.state, encode(State(Phase.RUNNING, 3, 0, Reason("start", "the job starts"))))
            assert job in await job_names(store)
            assert (await overview(store, job)).phase == "gone"
            with pytest.raises(JobFinishedError, match="no agent of it lives"):
                await submit(store, job, "abort", WHO, 1.0, "")
            await store.put(keys.node("n0"), encode(Node("n0", "h0", "127.0.0.1", 2, 1, "")))
            await store.put(keys.leader, encode(Leader("n0", "", "token")))
            with pytest.raises(CommandRefusedError, match="torchrun's"):
                await submit(store, job, "abort", WHO, 1.0, "")
            assert not (await store.list(keys.commands)).items, "nothing was written"
        finally:
            await store.close()

    run(test())
