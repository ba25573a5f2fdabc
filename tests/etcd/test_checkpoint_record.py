"""The record of the last checkpoint on a real etcd: fenced by leader and generation, and answered."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from elaunch.clock import SystemClock
from elaunch.controller.leader import Term
from elaunch.controller.ledger import Ledger
from elaunch.controller.node_status import NodeStatus
from elaunch.errors import ConflictError, DeposedError
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Checkpoint, Phase, decode
from elaunch.rendezvous.store import Compare, Field, Put
from elaunch.reports import Ask, Commit, Line, Receipts, Reply
from tests.etcd.running import PATIENT, run
from tests.etcd.servers import Member
from tests.etcd.world import FakeAgent, MortalStore, World, until


@dataclass
class Saver(FakeAgent):
    """A node whose ranks commit checkpoints: it asks until it is answered, whoever leads."""

    replies: list[Reply] = field(default_factory=list)

    def _obey(self, command: object) -> None:
        if isinstance(command, Receipts):
            self.replies += command.replies
            answered = {(reply.generation, reply.rank, reply.number) for reply in command.replies}
            asks = tuple(a for a in self.status.asks if (a.generation, a.rank, a.number) not in answered)
            lines = tuple(line for line in self.status.lines if line.number > command.heard)
            self.status = replace(self.status, asks=asks, lines=lines)
        else:
            super()._obey(command)

    def ask(self, step: int, generation: int, number: int, digest: str = "ab") -> None:
        commit = Commit(step, f"runs/a/{step}", digest)
        self.status = replace(self.status, asks=(Ask(generation, 0, number, commit),))


class Job(World):
    async def recorded(self) -> Checkpoint | None:
        found = await self.store.get(self.keys.checkpoint)
        return decode(Checkpoint, found.value) if found else None

    @property
    def saver(self) -> Saver:
        saver = self.agents["n0"]
        assert isinstance(saver, Saver)
        return saver

    def told(self, term: Term) -> None:
        """What the node says has changed."""
        term.receive(self.saver.status)

    def mortal(self, when: str) -> MortalStore:
        return MortalStore(self.endpoint, self.keys.checkpoint, when)


@pytest.fixture
def play(etcd: Member) -> Callable[[Callable[[Job], Any]], None]:
    """Runs a test's body with a job of one node, of which generation 1 runs."""

    async def body(test: Callable[[Job], Any]) -> None:
        store = EtcdStore([etcd.endpoint], **PATIENT)
        job = Job(store, etcd.endpoint, JobKeys(f"checkpoints {uuid.uuid4().hex}"), {})
        try:
            await job.join(0)
            job.agents["n0"] = Saver(job.agents["n0"].node, NodeStatus("n0"))
            async with job.led() as term:
                await until(lambda: term.job.phase is Phase.RUNNING)
            await test(job)
        finally:
            await store.close()

    return lambda test: run(body(test))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_is_answered_though_the_leader_dies_of_it(play, when: str) -> None:
    async def test(job: Job) -> None:
        job.saver.ask(60, 1, 5)
        await job.dies(when)
        assert job.saver.replies == []
        assert ((await job.recorded()) is None) == (when == "before")
        async with job.led():
            await until(lambda: bool(job.saver.replies))
            assert job.saver.replies == [Reply(1, 0, 5, True)]
        last = await job.recorded()
        assert last is not None
        assert (last.step, last.generation, last.digest, last.host) == (60, 1, "ab", "h0")

    play(test)


def test_the_next_leader_knows_what_the_last_one_has_recorded(play) -> None:
    async def test(job: Job) -> None:
        job.saver.ask(60, 1, 1)
        async with job.led():
            await until(lambda: bool(job.saver.replies))
        job.saver.ask(60, 1, 1)  # the answer was lost
        async with job.led() as term:
            await until(lambda: len(job.saver.replies) == 2)
            job.saver.ask(50, 1, 2)
            job.told(term)
            await until(lambda: len(job.saver.replies) == 3)
        assert [reply.accepted for reply in job.saver.replies] == [True, True, False]
        last = await job.recorded()
        assert last is not None
        assert last.step == 60

    play(test)


def test_the_commit_of_an_older_generation_is_refused_and_counted(play) -> None:
    async def test(job: Job) -> None:
        asked = await job.command("restart")
        async with job.led() as term:
            await job.through(asked)
            await until(lambda: term.job.phase is Phase.RUNNING)
            job.saver.ask(60, 1, 1)
            job.told(term)
            await until(lambda: bool(job.saver.replies))
            assert term.counters.refused["stale commit"] == 1
        assert job.saver.replies == [Reply(1, 0, 1, False, "generation 1 is over: the present one is 2")]
        assert await job.recorded() is None

    play(test)


def test_lines_that_no_leader_has_written_are_told_to_the_next(play) -> None:
    async def test(job: Job) -> None:
        job.saver.status = replace(
            job.saver.status, lines=(Line(1, 1, 0, "checkpoint_restored", "p", 40), Line(2, 1, 0, "checkpoint_x", "y"))
        )
        async with job.led():
            await until(lambda: job.saver.status.lines == ())
        async with job.led() as term:
            await until(lambda: term.job.phase is Phase.RUNNING)
            assert term.job.restored == 40

    play(test)


def ledger(job: Job, epoch: int) -> Ledger:
    guard = Compare(job.keys.leader, Field.CREATE_REVISION, epoch)
    return Ledger(job.store, job.keys, guard, SystemClock())


def test_etcd_itself_refuses_a_deposed_leader_and_a_generation_that_is_over(play) -> None:
    """Whatever a leader thinks that it knows."""

    async def test(job: Job) -> None:
        record = Checkpoint(60, "runs/a/60", 1, 0, "ab")
        deposed = await job.elect()
        async with job.led() as term:
            await until(lambda: term.job.phase is Phase.RUNNING)
            state = term.job
        present = await job.elect()
        with pytest.raises(DeposedError):
            await ledger(job, deposed.epoch).write(replace(state, checkpoint=record))
        await job.store.txn([], [Put(job.keys.plan(2), b"{}")])
        with pytest.raises(ConflictError):
            await ledger(job, present.epoch).write(replace(state, checkpoint=record))
        assert await job.recorded() is None
        await ledger(job, present.epoch).write(replace(state, checkpoint=replace(record, generation=2)))
        assert await job.recorded() == replace(record, generation=2)

    play(test)
