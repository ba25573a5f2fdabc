"""Ranks that tell of their checkpoints: what is recorded and seen, and from where the next generation goes on."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Event, Job, wait_until
from tests.e2e.operating import elaunch

pytestmark = pytest.mark.slow


class Orders:
    """Tells ranks what to do next, and waits until they have."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._next: dict[tuple[int, int], int] = {}

    def give(self, generation: int, do: str, rank: int = 0, **values: Any) -> None:
        number = self._next.get((generation, rank), 0)
        self._next[generation, rank] = number + 1
        path = self._job.out / f"order-{generation}-{rank}-{number}.json"
        path.with_suffix(".new").write_text(json.dumps({"do": do, **values}))
        path.with_suffix(".new").replace(path)

    def __call__(self, generation: int, do: str, rank: int = 0, **values: Any) -> Event:
        """What the rank wrote down of it."""
        before = len(self._job.events(generation=generation, rank=rank))
        self.give(generation, do, rank, **values)
        kind = "commit" if do == "commit" else "done"
        return wait_until(
            f"{do} of rank {rank} in generation {generation}",
            lambda: next(
                (e for e in self._job.events(generation=generation, rank=rank)[before:] if e["event"] == kind), None
            ),
        )

    def start(self, generation: int, rank: int = 0) -> Event:
        """What the rank found when it started."""
        found = wait_until(
            f"the start of rank {rank} in generation {generation}",
            lambda: self._job.events("start", generation=generation, rank=rank),
        )
        return found[0]


def on_etcd(job: MakeJob, etcd: str, name: str, *options: str) -> tuple[Job, Orders]:
    one = job(
        "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id={name}", "--start=exec", *options,
        program=[str(PROGRAMS / "keeping.py")],
    )  # fmt: skip
    return one, Orders(one)


def test_commits_are_recorded_and_decide_where_the_next_generation_goes_on(job: MakeJob, etcd: str) -> None:
    one, orders = on_etcd(job, etcd, "kept", "--nproc-per-node=2", "--max-restarts=9")
    agent = one.agent()
    at = f"--rdzv-endpoint={etcd}"

    def status() -> Any:
        return elaunch("status", "kept", at, "--json").document

    first = orders.start(1)
    assert (first["step"], first["avoid"], first["recorded"], first["who"]) == (-1, [], -1, ["kept", 1, 0])
    assert status()["checkpoint"] is None
    for rank in (0, 1):
        orders(1, "restored", rank, step=-1)
    orders(1, "step", step=3)
    assert orders(1, "commit", step=2)["ruling"] == "accepted"
    assert orders(1, "commit", step=4, digest="cd")["ruling"] == "accepted"
    assert orders(1, "commit", step=4, digest="cd")["ruling"] == "accepted"
    older = orders(1, "commit", step=3)
    assert (older["ruling"], older["reason"]) == ("refused", "generation 1 has committed step 4 already")
    orders(1, "step", step=6)
    seen = wait_until("step 6", lambda: (s := status())["checkpoint"]["lost_steps"] == 2 and s)
    last = seen["checkpoint"]
    assert (last["step"], last["path"], last["digest"], last["rank"]) == (4, "runs/a/step-4", "cd", 0)
    assert 0 <= last["age_seconds"] < 60
    assert last["lost_seconds"] >= 0.0
    assert (seen["restored_step"], seen["suspect_steps"], seen["refused"]["stale commit"]) == (-1, [], 1)
    text = elaunch("status", "kept", at).out
    assert "checkpoint: step 4 of generation 1, " in text
    assert "; a failure now would cost 2 steps, " in text

    orders(1, "tell", text="checkpoint_save_failed")
    assert elaunch("restart", "kept", "--from-step=40", at).code == 0
    second = orders.start(2)
    assert (second["step"], second["recorded"]) == (40, 4)
    orders.give(2, "missing", step=40, text="there is no step 40 in runs/a")
    orders.give(2, "exit", code=1)

    for generation in (3, 4, 5):
        start = orders.start(generation)
        assert (start["step"], start["avoid"]) == (-1, [])
        orders(generation, "restoring", step=4)
        orders.give(generation, "exit", code=7)
    assert orders.start(6)["avoid"] == [4]
    assert status()["suspect_steps"] == [4]
    assert status()["restart_count"] == 3, "a step that is missing costs none"
    assert elaunch("restart", "kept", "--from-step=4", at).code == 0
    seventh = orders.start(7)
    assert (seventh["step"], seventh["avoid"], seventh["rewinds"]) == (4, [], [])
    assert elaunch("restart", "kept", "--from-step=2", at).code == 0
    assert orders.start(8)["step"] == 2
    orders(8, "restored", step=2)
    assert elaunch("restart", "kept", at).code == 0
    ninth = orders.start(9)
    assert (ninth["step"], ninth["recorded"], ninth["rewinds"]) == (-1, -1, [[8, 2]])
    one.finish()
    assert agent.wait() == 0

    assert status()["checkpoint"]["step"] == 4, "as etcd has it, though nobody leads"
    lines = [json.loads(line) for line in elaunch("events", "kept", at, "--json").out.splitlines()]
    told = [(line["code"], line["text"]) for line in lines if line["code"].startswith("checkpoint_")]
    assert [code for code, _ in told] == [
        "checkpoint_restored",
        "checkpoint_committed",
        "checkpoint_refused",
        "checkpoint_save_failed",
        "checkpoint_missing",
        "checkpoint_suspect",
        "checkpoint_restored",
    ]
    assert told[0][1].startswith("generation 1 begins from scratch")
    assert told[1][1] == "generation 1 has committed its first checkpoint: step 2, runs/a/step-2"
    assert told[3][1].endswith(": the disk is full")


def test_the_commit_of_a_generation_that_is_over_is_refused(job: MakeJob, etcd: str) -> None:
    one, orders = on_etcd(job, etcd, "stale", "--nnodes=1:2", "--rdzv-conf=last_call_timeout=0.3,lease_ttl=3")
    first = one.agent()
    wait_until("the first leads", lambda: "leading" in first.output())
    second = one.agent()
    generation = wait_until(
        "both run", lambda: max((e["generation"] for e in one.events("start", rank=1)), default=None)
    )
    assert orders(generation, "commit", step=10)["ruling"] == "accepted"
    orders.give(generation, "commits", rank=1, step=1000)
    at = f"--rdzv-endpoint={etcd}"

    def recorded() -> Any:
        return elaunch("status", "stale", at, "--json").document

    wait_until("a commit of rank 1", lambda: recorded()["checkpoint"]["step"] >= 1000)
    second.kill(signal.SIGSTOP)
    try:
        orders.start(generation + 1)
        assert orders(generation + 1, "commit", step=50)["ruling"] == "accepted"
    finally:
        second.kill(signal.SIGCONT)
    found = wait_until("the refusal", lambda: (s := recorded())["refused"].get("stale commit") and s)
    assert (found["checkpoint"]["step"], found["checkpoint"]["generation"]) == (50, generation + 1)
    orders.start(generation + 2, rank=1)
    assert recorded()["checkpoint"]["step"] == 50
    one.finish()
    assert [first.wait(), second.wait()] == [0, 0]


@pytest.mark.torch
@pytest.mark.timeout(300)
def test_a_checkpointer_goes_on_from_where_the_plan_says(job: MakeJob, etcd: str) -> None:
    one = job(
        "--nproc-per-node=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=real", "--max-restarts=9",
        program=[str(PROGRAMS / "checkpointing.py")],
    )  # fmt: skip
    agent = one.agent()
    at = f"--rdzv-endpoint={etcd}"

    def restored(generation: int) -> list[tuple[int, list[float]]]:
        wait_until(
            f"generation {generation} has done its steps",
            lambda: len(one.events("idle", generation=generation)) == 2,
        )
        return [(e["step"], e["weights"]) for e in one.events("restored", generation=generation)]

    assert restored(2) == [(6, [6.0] * 4)] * 2
    status = elaunch("status", "real", at, "--json").document
    last = status["checkpoint"]
    assert (last["step"], last["generation"], status["restored_step"]) == (8, 2, 6)
    assert last["path"].startswith(f"{one.out}/checkpoints/")
    assert last["bytes"] > 0
    assert 0 < last["blocked"] < last["seconds"]

    (one.out / "poison").touch()
    assert elaunch("restart", "real", at).code == 0
    assert restored(6) == [(6, [6.0] * 4)] * 2, "three times it went on from step 8 and got nowhere"
    (one.out / "poison").unlink()
    status = elaunch("status", "real", at, "--json").document
    assert (status["checkpoint"]["step"], status["checkpoint"]["generation"], status["suspect_steps"]) == (8, 6, [])

    assert elaunch("restart", "real", "--from-step=5", at).code == 0
    assert restored(8) == [(8, [8.0] * 4)] * 2, "there is no step 5: told, and not counted"
    assert elaunch("restart", "real", "--from-step=6", at).code == 0
    assert restored(9) == [(6, [6.0] * 4)] * 2
    assert elaunch("status", "real", at, "--json").document["restart_count"] == 4
    one.finish()
    assert agent.wait() == 0
    codes = [json.loads(line)["code"] for line in elaunch("events", "real", at, "--json").out.splitlines()]
    assert [code for code in codes if code.startswith("checkpoint_")] == [
        "checkpoint_restored",
        "checkpoint_committed",
        "checkpoint_restored",
        "checkpoint_committed",
        *["checkpoint_restored"] * 3,
        "checkpoint_suspect",
        "checkpoint_restored",
        "checkpoint_committed",
        "checkpoint_missing",
        "checkpoint_restored",
        "checkpoint_restored",
        "checkpoint_committed",
    ]
