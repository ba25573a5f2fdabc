"""Training with kills and restores is training undisturbed, bit by bit, in a world of the same size."""

from __future__ import annotations

import os
import random
import signal

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Event, Job, wait_until

STEPS = 75
KILLS = 4


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(600)
def test_a_killed_training_is_an_undisturbed_one(job: MakeJob) -> None:
    seed = int(os.environ.get("ELAUNCH_TEST_SEED") or random.randrange(10**6))
    print(f"ELAUNCH_TEST_SEED={seed}")
    chance = random.Random(seed)
    one = job(
        "--standalone", "--nproc-per-node=2", f"--max-restarts={KILLS}", "--suspect-after=0",
        program=[str(PROGRAMS / "equality.py")], env={"STEPS": str(STEPS), "KILLS": str(KILLS)},
    )  # fmt: skip
    agent = one.agent()
    for generation, step in enumerate(sorted(chance.sample(range(2, STEPS), KILLS)), 1):
        rank = chance.randrange(2)
        at = disturbed(one, rank, generation, step)
        os.kill(at["pid"], signal.SIGKILL)
    assert agent.wait() == 0, agent.output()
    for rank in (0, 1):
        undisturbed = one.events("undisturbed", rank=rank)
        assert [e["step"] for e in undisturbed] == list(range(1, STEPS + 1))
        done: dict[int, int] = {}
        for event in one.events("disturbed", rank=rank):
            as_it_was = undisturbed[event["step"] - 1]
            for what in ("seen", "losses"):
                where = f"{what} of step {event['step']}, generation {event['generation']}, rank {rank}"
                assert event[what] == as_it_was[what], where
            done[event["step"]] = done.get(event["step"], 0) + 1
        assert sorted(done) == list(range(1, STEPS + 1))
        assert max(done.values()) > 1, "no step was done again"
        (wanted,), (found,) = one.events("undisturbed end", rank=rank), one.events("disturbed end", rank=rank)
        assert found["digests"] == wanted["digests"]
    restored = [e["step"] for e in one.events("restored", rank=0)]
    assert len(restored) == KILLS + 1
    assert restored == sorted(restored)
    assert restored[-1] > 0


def disturbed(job: Job, rank: int, generation: int, step: int) -> Event:
    """What the rank wrote down of this step, or of the first later one, when it has."""

    def done() -> Event | None:
        return next((e for e in job.events("disturbed", rank=rank, generation=generation) if e["step"] >= step), None)

    try:
        return wait_until(f"step {step} in generation {generation}", done)  # type: ignore[no-any-return]
    except AssertionError as error:
        raise AssertionError(f"{error}\n{job.outputs()}") from None
