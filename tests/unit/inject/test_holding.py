"""What holds others stopped, and files changed: whatever interrupts it, all is undone."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from elaunch.inject import holding
from elaunch.inject.holding import Holder

ONE, OTHER = (11, 1), (12, 1)


def test_an_interruption_amid_the_stops_leaves_none_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[tuple[int, int], int]] = []

    def send(process: tuple[int, int], number: int) -> None:
        sent.append((process, number))
        if len(sent) == 1:
            raise SystemExit(0)  # as of SIGTERM

    monkeypatch.setattr(holding, "send", send)
    holder = Holder()
    with pytest.raises(SystemExit):
        holder.apply({ONE, OTHER}, {})
    holder.apply(set(), {})
    stopped = sent[0][0]
    assert sent[0][1] == signal.SIGSTOP
    assert (stopped, signal.SIGCONT) in sent


def test_an_interruption_amid_the_writes_leaves_no_file_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, of_holding = tmp_path / "state", holding.write
    state.write_text("up")

    def write(path: str, text: str) -> None:
        of_holding(path, text)
        if text == "down":
            raise SystemExit(0)

    monkeypatch.setattr(holding, "write", write)
    holder = Holder()
    with pytest.raises(SystemExit):
        holder.apply(set(), {str(state): ("down", "up")})
    assert state.read_text() == "down"
    holder.apply(set(), {})
    assert state.read_text() == "up"


def test_what_others_hold_stays_as_they_hold_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("up")
    holder = Holder()
    for during in ("down", "polling"):
        holder.apply(set(), {str(state): (during, "up")})
        assert state.read_text() == during
    holder.apply(set(), {})
    assert state.read_text() == "up"


def test_a_process_that_has_the_pid_of_another_gets_no_signal() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            started = holding.start_of(other.pid)
            holding.send((other.pid, started - 1), signal.SIGKILL)
            holding.send((other.pid, started), signal.SIGTERM)
            assert other.wait(10) == -signal.SIGTERM
        finally:
            other.kill()
