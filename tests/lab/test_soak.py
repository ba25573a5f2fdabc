"""bench/soak.py for a minute, as one would run it: three faults are lived through, and what is planted is found."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elaunch.lab import impossible
from tests.e2e.harness import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(700)]
SEED = "4423"


def soaked(*words: str) -> tuple[int, str]:
    """Its exit code, and what it has printed."""
    if why := impossible():
        pytest.skip(why)
    argv = [sys.executable, str(ROOT / "bench" / "soak.py"), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=660)
    return done.returncode, done.stdout + done.stderr


def test_a_minute_with_three_faults(tmp_path: Path) -> None:
    """A death, a fault of the control plane, and one of a network; figures and bars are as those of all benchmarks."""
    path = tmp_path / "soak.json"
    code, text = soaked("--seed", SEED, "--minutes", "0.6", "--every", "12", "--json", str(path))
    found = json.loads(path.read_text())
    assert "BROKEN" not in text, text
    holds = {bar["name"]: bar["holds"] for bar in found["bars"]}
    assert holds["invariants broken"]
    assert code == (0 if all(holds.values()) else 1), "the other bars are of this machine's time"
    assert "3 faults, 0 of them had nobody to hit" in text
    assert "goodput" in text
    assert f"--seed {SEED} " in found["machine"]["again"]
    assert any(name.startswith("recovery, ") for name in found["samples"]), "somebody was hit, and it went on"


def test_a_stale_writer_is_found() -> None:
    """A checkpoint of an older generation appears; the run ends, says so in one line, and keeps what it has."""
    code, text = soaked("--seed", SEED, "--minutes", "1", "--every", "12", "--plant", "stale-commit")
    (line,) = [line for line in text.splitlines() if line.startswith("BROKEN")] or [text]
    assert code == 1
    assert line.startswith("BROKEN stale-commit after "), line
    assert f"--seed {SEED} --minutes 1 --every 12 | faults so far: " in line
    (folder,) = [Path(line.split()[1]) for line in text.splitlines() if line.startswith("evidence: ")]
    assert "job_starting" in (folder / "evidence" / "events.txt").read_text()
    shutil.rmtree(folder)


def test_a_list_runs_nothing() -> None:
    code, text = soaked("--seed", SEED, "--minutes", "0.6", "--every", "12", "--list")
    assert code == 0
    assert len([line for line in text.splitlines() if line.startswith(" ")]) == 3
