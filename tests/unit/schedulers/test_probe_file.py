"""The beat that probes read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elaunch.schedulers.probe_file import STALE, ProbeFile, probe, verdict


@pytest.mark.parametrize(
    ("state", "live", "ready"),
    [
        ("opening", True, False),
        ("waiting", True, False),
        ("member", True, True),
        ("spare", True, True),
        ("leaving", True, False),
    ],
)
def test_ready_is_who_is_of_use_and_live_is_who_beats(state: str, live: bool, ready: bool) -> None:
    line = f"100.0 7 {state} a sentence   "
    assert verdict("live", line, 101.0) == (live, "a sentence")
    assert verdict("ready", line, 101.0) == (ready, "a sentence")


def test_an_agent_that_stands_still_is_neither() -> None:
    for what in ("live", "ready"):
        assert verdict(what, "100.0 7 member well", 100.0 + STALE) == (True, "well")
        well, text = verdict(what, "100.0 7 member well", 101.0 + STALE)
        assert not well
        assert "31 s" in text


@pytest.mark.parametrize("line", ["", "x", "soon 7 member well", "nan 7 member well", "5000.0 7 member well"])
def test_a_file_that_says_nothing_is_no_beat(line: str) -> None:
    """Nor does one that says it of a time to come: the machine has been started anew since."""
    assert verdict("live", line, 0.0)[0] is False


def test_what_is_beaten_is_read(tmp_path: Path) -> None:
    environ = {"ELAUNCH_PROBE_FILE": str(tmp_path / "beat")}
    assert probe("live", environ)[0] is False
    file = ProbeFile(environ["ELAUNCH_PROBE_FILE"])
    file.beat("waiting", "x" * 500)
    assert probe("live", environ)[0] is True
    assert probe("ready", environ)[0] is False
    file.beat("member", "a member of generation 3")
    assert probe("ready", environ) == (True, "a member of generation 3")
    file.close()
    assert probe("ready", environ)[0] is False


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "beat").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        ProbeFile(str(tmp_path / "beat"))
    assert not (tmp_path / "precious").exists()


def test_a_probe_imports_next_to_nothing(tmp_path: Path) -> None:
    """Every kubelet asks every few seconds."""
    environ = {**os.environ, "ELAUNCH_PROBE_FILE": str(tmp_path / "beat")}
    file = ProbeFile(environ["ELAUNCH_PROBE_FILE"])
    file.beat("member", "well")
    code = (
        "import sys; from elaunch.cli.main import main; code = main(['kubernetes', 'probe', 'ready']);"
        "heavy = [m for m in ('argparse', 'asyncio', 'grpc', 'torch', 'structlog', 'json') if m in sys.modules];"
        "print(code, heavy)"
    )
    run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["ready: well", "0 []"]
    file.close()
