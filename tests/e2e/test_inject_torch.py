"""Faults at the points of a real training: DDP, its passes, its optimizer, its checkpoints, its rendezvous."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from elaunch.inject import EXPECTED, Fault
from elaunch.lab import Watched
from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(900)]

PROGRAM = [str(PROGRAMS / "injected_training.py")]
OPTIONS = (
    "--nproc-per-node=2", "--max-restarts=100", "--quarantine-faults=0", "--crash-loop=0", "--suspect-after=0",
    "--allow-injection", "--hang-timeout=8",
)  # fmt: skip
DIED = "at %s: the rank has ended"
BEHIND = ("write", "commit")  # in a thread of its own: what is raised there ends the save, and not the rank
# Each with one that comes but once, so that it is armed for the generation that follows.
POINTS = (
    ("forward", "rendezvous"),
    ("backward", "ddp"),
    ("optimizer", ""),
    ("save", ""),
    ("write", ""),
    ("commit", "restore"),
)


def at_work(one: Job, generation: int) -> None:
    wait_until(
        f"generation {generation} at work",
        lambda: {e["rank"] for e in one.events("step", generation=generation)} == {0, 1},
    )


@pytest.fixture
def training(job: MakeJob, etcd: str, request: pytest.FixtureRequest) -> Iterator[tuple[Job, Watched]]:
    name = request.node.name  # the etcd is that of all tests
    one = job("--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id={name}", *OPTIONS, program=PROGRAM)
    one.agent(TELL="1", **getattr(request, "param", {}))
    with Watched(name, [etcd]) as watched:
        at_work(one, 1)
        yield one, watched


def test_a_rank_dies_at_each_point(training: tuple[Job, Watched]) -> None:
    """It has got there, and no further; the job goes on from its newest checkpoint."""
    one, watched = training
    generation, where = 1, {}
    for point, late in POINTS:
        if point == "save":
            wait_until("a save", lambda: watched.events("checkpoint_committed"))
        if late:
            watched.inject(Fault("raise", rank=0, at=late))
        watched.inject(Fault("kill" if point in BEHIND else "raise", rank=1, at=point))
        generation += 2 if late else 1
        watched.running(generation, 120.0)
        at_work(one, generation)
        for name, rank in ((point, 1), (late, 0)):
            ended = [e for e in watched.events("injection_ended") if e.text.endswith((f"at {name}: over", DIED % name))]
            assert len(ended) == (name != "")
            where[name] = _trace(one, rank, name) if name and name not in BEHIND else ""
    steps = [e["step"] for e in one.events("step", generation=generation, rank=0)]
    assert steps[0] > 1, "it began anew"
    assert "in main\n    loss = model(" in where["forward"]
    assert "in main\n    loss.backward()" in where["backward"]
    assert "in main\n    optimizer.step()" in where["optimizer"]
    assert "in main\n    checkpoints.save(step)" in where["save"]
    assert "in main\n    model = DistributedDataParallel(" in where["ddp"]
    assert "in main\n    step = checkpoints.restore()" in where["restore"]
    assert "init_process_group" in where["rendezvous"]

    hang = Fault("sleep", rank=0, at="backward", seconds=1.0)
    watched.inject(hang)
    watched.until("the end of a pause", lambda w: [e for e in w.events("injection_ended") if str(hang) in e.text])
    assert watched.look().state.generation == generation, "a pause that ends disturbs nobody"

    other = Fault("mismatch", rank=1, at="forward")
    watched.inject(other)
    generation += 1
    watched.running(generation, 120.0)
    plan = watched.look().plan
    assert plan is not None
    assert plan.reason.code in EXPECTED["mismatch"].codes, plan.reason
    at_work(one, generation)
    one.finish()
    assert one.agents[0].wait() == 0, one.outputs()


@pytest.mark.parametrize("training", [{"LONGEST": "8"}], indirect=True)
def test_who_is_late_in_a_checkpoint_is_told_before_its_peers_give_up(training: tuple[Job, Watched]) -> None:
    """They wait as long as the call may take: the sentence is about the rank that they wait for."""
    one, watched = training
    wait_until("a save", lambda: watched.events("checkpoint_committed"))
    for generation, point in ((3, "restore"), (4, "save")):
        watched.inject(Fault("sleep", rank=1, at=point))
        if point == "restore":
            watched.command("restart")
        watched.running(generation, 120.0)
        plan = watched.look().plan
        assert plan is not None
        assert plan.reason.code == "section_overrun", plan.reason
        assert "rank 1" in plan.reason.text, plan.reason
    assert "another rank did not answer" not in one.outputs()
    one.finish()
    assert one.agents[0].wait() == 0, one.outputs()


def test_a_slow_rank_is_told_and_disturbed_by_nobody(training: tuple[Job, Watched]) -> None:
    """One whose step takes longer, and one that is not let run: each is named, in time, and its generation goes on."""
    one, watched = training
    slow = (Fault("slow-step", rank=1, at="forward", delay=0.3), Fault("slow-cpu", rank=0, share=0.1))
    for generation, fault in enumerate(slow, 1):
        at_work(one, generation)
        watched.inject(fault)
        wanted, named = EXPECTED[fault.kind], f"rank {fault.rank} "

        def told(job: Watched, codes: tuple[str, ...] = wanted.codes, named: str = named) -> bool:
            return any(line.text.startswith(named) for line in job.events(*codes))

        watched.until(f"{fault.kind} to be told", told, wanted.within())
        assert wanted.generation == "same"
        assert [line.generation for line in watched.events("job_starting")] == list(range(1, generation + 1))
        watched.command("restart")  # what has begun in a rank ends with it
    one.finish()
    assert one.agents[0].wait() == 0, one.outputs()


def _trace(one: Job, rank: int, point: str) -> str:
    """The traceback that an injected error has left in a rank."""
    lines = one.agents[0].output().splitlines(keepends=True)
    others = (f"[rank{1 - rank}]: ", "elaunch ")  # without a process group torch puts nothing in front
    text = "".join(line.removeprefix(f"[rank{rank}]: ") for line in lines if not line.startswith(others))
    found = re.findall(r"Traceback \(most recent call last\):\n(?:[ ].*\n)*.*InjectedError: injected at (?:.*)\n", text)
    here = [one for one in found if one.endswith(f"injected at {point}\n")]
    assert here, text[-3000:]
    return str(here[-1])
