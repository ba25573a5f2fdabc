"""What one leader has learnt of a job's pace, in the hands of the next."""

from __future__ import annotations

import asyncio

from elaunch.progress import Heartbeat, RankProgress
from elaunch.rendezvous.memory import Learnt
from elaunch.rendezvous.records import Phase, decode
from elaunch.rendezvous.state import State
from tests.etcd.world import World, until


def test_the_next_leader_knows_that_the_generation_has_got_going(play) -> None:
    async def test(world: World) -> None:
        async def written() -> Learnt:
            found = await world.store.get(world.keys.state)
            assert found is not None
            return decode(State, found.value).learnt

        async with world.led() as term:
            await until(lambda: term.job.phase is Phase.RUNNING)
            for step in range(50):
                rank = RankProgress(0, 0, 40, "S", attached=True, step=step)
                term.hear(Heartbeat("n0", 1, 0.25, (rank,)))
            for _ in range(3000):
                if (learnt := await written()).going:
                    break
                await asyncio.sleep(0.02)
            assert learnt.going == 1
        async with world.led() as term:
            await until(lambda: term.job.phase is Phase.RUNNING)
            assert term.job.learnt == learnt
            stopped = RankProgress(0, 0, 40, "S", attached=True, step=49, where_age=61.0, progress_age=61.0)
            term.hear(Heartbeat("n0", 1, 0.25, (stopped,)))  # too long, but for a generation that still starts
            await until(lambda: term.job.history.fruitless > 0 or term.job.reason.code == "hung")

    play(test)
