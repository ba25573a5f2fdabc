"""A fault of a laboratory and its end: whoever ends it, or waits for that, hears of what went wrong."""

from __future__ import annotations

import subprocess

import pytest

from elaunch.inject import Fault
from elaunch.lab import faults
from elaunch.lab.lab import Lab


def stuck() -> None:
    raise TimeoutError("etcd e1 does not serve")


def test_what_cannot_be_undone_is_told_to_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "begin", lambda *_: stuck)
    lab = Lab(1)
    made = lab.fault(Fault("etcd-kill", seconds=0.05), 1)
    with pytest.raises(TimeoutError, match="e1 does not serve"):
        made.wait(20.0)
    assert made.over
    with pytest.raises(TimeoutError, match="e1 does not serve"):
        made.end()
    assert not lab._faults, "it is tried once"


def test_a_fault_that_nobody_ends_is_undone_with_the_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    undone: list[str] = []
    monkeypatch.setattr(faults, "begin", lambda *_: lambda: undone.append("undone"))
    lab = Lab(1)
    made = lab.fault(Fault("loss"), 1)
    assert not made.over
    lab._close()
    assert made.over
    made.end()
    assert undone == ["undone"]


@pytest.mark.parametrize(("printed", "closed"), [("", False), ("0 0 10.1.1.2:4711 10.1.1.1:7700\n", True)])
def test_a_reset_that_resets_nothing_is_refused(printed: str, closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that cannot close a socket of others' says nothing of it, and ss ends well."""

    def run(words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert "-K" in words
        return subprocess.CompletedProcess(words, 0, printed, "")

    monkeypatch.setattr(faults.subprocess, "run", run)
    lab = Lab(1)
    monkeypatch.setattr(type(lab.net), "host", lambda *_: "elb-h1")
    monkeypatch.setattr(type(lab.net), "address_at", lambda *_: "10.1.1.2")
    if closed:
        assert lab.fault(Fault("reset"), 1).over
    else:
        with pytest.raises(OSError, match="no connection of elb-h1 was reset"):
            lab.fault(Fault("reset"), 1)


def test_a_fault_that_would_undo_another_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that are late would get through a cable that is unplugged."""
    done: list[object] = []
    lab = Lab(1)
    monkeypatch.setattr("elaunch.lab.network.ip", lambda *words: done.append(words))
    monkeypatch.setattr(type(lab.net), "name", "elb")
    monkeypatch.setattr(type(lab.net), "impair", lambda _, *more: done.append(more))
    cut = lab.fault(Fault("partition"), 1)
    with pytest.raises(OSError, match="loss: another fault is on nic0, nic1 of elb-h1"):
        lab.fault(Fault("loss"), 1)
    cut.end()
    lab.fault(Fault("loss"), 1)
    assert done[-1] == (1, 1, {"loss": 0.5}, {})
