"""A save that takes long is no hang, and outlives whatever its program does next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.torch]
SECONDS = 2.5


@pytest.mark.timeout(200)
def test_slow_saves_are_no_hang_and_are_committed_however_the_program_ends(job: MakeJob, tmp_path: Path) -> None:
    one = job(
        "--standalone", "--nproc-per-node=2", "--max-restarts=3", "--hang-timeout=1.5", f"--log-dir={tmp_path}/logs",
        program=[str(PROGRAMS / "slow_saves.py")], env={"SECONDS": str(SECONDS)},
    )  # fmt: skip
    agent = one.agent()
    assert agent.wait(180) == 0, agent.output()
    assert not list((tmp_path / "logs").rglob("evidence")), agent.output()
    # raise, Ctrl-C, an exit code of one rank: each time the save before it is there
    restored = [(e["generation"], e["rank"], e["step"], e["weights"][0]) for e in one.events("restored")]
    assert sorted(restored) == [
        (g, r, s, float(s)) for g, s in [(1, 0), (2, 3), (3, 4), (4, 5)] for r in (0, 1)
    ], agent.output()  # fmt: skip
    names = sorted(path.name for path in (one.out / "checkpoints").glob("step-*"))
    assert names[-1].endswith("6"), names
    assert [e["behind"] for e in one.events("worked")] == [True, True]
    assert all(e["waited"] > SECONDS * 0.9 for e in one.events("saved"))
