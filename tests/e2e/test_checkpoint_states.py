"""Checkpoints of real models over real process groups, from one world into another, through stock DCP's own storage.

tests/programs/checkpoint_worlds.py has the checks; all of them run in the same four processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.torch]
ROOT = Path(__file__).parents[2]
PROCESSES = 4
PATIENCE = 110  # seconds for all checks, of which they take 20 on two idle cores
Results = dict[str, list[str]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """By check, what went wrong on which rank."""
    path = tmp_path_factory.mktemp("worlds")
    program = ROOT / "tests" / "programs" / "checkpoint_worlds.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, program, path], env=environment, start_new_session=True) as process:
        try:
            process.wait(PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    wrong: Results = {}
    for rank in range(PROCESSES):
        for name, text in json.loads((path / f"results{rank}").read_text()).items():
            wrong.setdefault(name, []).extend([f"rank {rank}: {text}"] if text else [])
    return wrong


@pytest.mark.parametrize(("kind", "number"), [("moved", 16), ("stock reads", 2), ("stock wrote", 4), ("compared", 1)])
def test_states(results: Results, kind: str, number: int) -> None:
    of_kind = {name: wrong for name, wrong in results.items() if name.startswith(kind)}
    assert "\n".join(text for wrong in of_kind.values() for text in wrong) == ""
    assert len(of_kind) == number, sorted(results)
