"""examples/checkpoint.py through a hard day: a node lost, an older step asked for, a rank killed, a notice to stop."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import ROOT, Agent, wait_until
from tests.e2e.operating import elaunch

STARTS = re.compile(r"rank (\d) of (\d), pid (\d+): goes on from step (\d+)")
STEPS = re.compile(r"step (\d+) of (\d) ranks")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(600)
def test_a_training_outlives_its_node_and_goes_where_it_is_sent(job: MakeJob, etcd: str) -> None:
    at = f"--rdzv-endpoint={etcd}"
    one = job(
        "--rdzv-backend=etcd", at, "--rdzv-id=example", "--nnodes=1:2", "--nproc-per-node=2", "--max-restarts=3",
        "--rdzv-conf=last_call_timeout=30", "--grace-period=15",
    )  # fmt: skip
    one.program = [str(ROOT / "examples" / "checkpoint.py"), str(one.out / "run")]
    first, second = one.agent(), one.agent()

    def status() -> Any:
        return elaunch("status", "example", at, "--json").document

    def committed(what: str, fits: Callable[[Any], bool]) -> Any:
        def seen() -> Any:
            found = status()
            last = found.get("checkpoint")  # nothing before the job is known
            return last and fits(last) and found

        return wait_until(f"{what}\n{first.output()}", seen)

    committed("a checkpoint of four ranks", lambda c: c["step"] >= 40)
    assert {int(start[1]) for start in STARTS.findall(first.output())} == {4}
    second.kill()
    (left,) = starts(first, 2, 0)
    assert left >= 40
    assert left % 20 == 0
    found = committed("a checkpoint of two ranks, of step 140 or later", lambda c: c["step"] >= 140)
    last = found["checkpoint"]
    assert last["bytes"] > 0
    assert 0 <= last["age_seconds"] < 60
    assert (found["restored_step"], found["restart_count"]) == (left, 0), "a lost node costs no restart"
    text = elaunch("status", "example", at).out
    assert re.search(r"checkpoint: step \d+ of generation \d+, .*; a failure now would cost \d+ steps?, ", text), text

    assert elaunch("restart", "example", "--from-step=100", at).code == 0
    assert starts(first, 2, 1)[1:] == [100]
    os.kill(pids(first)[-1], signal.SIGKILL)
    assert starts(first, 2, 2)[2:] in ([100], [120]), "what was abandoned is not gone back to"

    committed("a checkpoint of the new line", lambda c: c["generation"] > found["generation"] + 1)
    first.kill(signal.SIGTERM)
    assert first.wait() == 143, first.output()
    ended = int(STEPS.findall(first.output())[-1][0])
    assert status()["checkpoint"]["step"] == ended, "the last checkpoint is that of the notice"
    listed = elaunch("ckpt", "ls", str(one.out / "run"))
    assert listed.code == 0
    assert str(ended) in listed.out


def starts(agent: Agent, world: int, more_than: int) -> list[int]:
    """The steps that rank 0 of a world of this size went on from: one each time, more than so many."""

    def found() -> list[int]:
        return [
            int(step) for rank, size, _, step in STARTS.findall(agent.output()) if (rank, size) == ("0", str(world))
        ]

    return wait_until(f"start {more_than + 1} of {world} ranks", lambda: len(found()) > more_than and found())  # type: ignore[no-any-return]


def pids(agent: Agent) -> list[int]:
    return [int(pid) for _, _, pid, _ in STARTS.findall(agent.output())]
