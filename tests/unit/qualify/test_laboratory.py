"""Cells that take a laboratory, where there is none: each says why in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elaunch.qualify import laboratory
from elaunch.qualify.cells import Job, Outcome, Result
from elaunch.qualify.matrix import cells


def results(mode: str, tmp_path: Path, *, hosts: bool = False) -> dict[str, Result]:
    wanted = [cell for cell in cells(mode, several=hosts) if cell.job in (Job.LAB, Job.RAILS)]
    carried: list[Any] = []
    found = laboratory.run(wanted, mode, hosts, tmp_path, {}, "", lambda _: None, carried.append)
    told = {result.name: result for result in found}
    assert list(told) == [cell.name for cell in wanted]
    assert {result.outcome for result in told.values()} == {Outcome.NOT_RUN}
    assert all(result.why and "\n" not in result.why for result in told.values())
    return told


def test_quick_makes_none(tmp_path: Path) -> None:
    found = results("quick", tmp_path)
    assert {result.why for result in found.values()} == {"cannot run here: it takes a laboratory, which --full makes"}


def test_where_none_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laboratory, "impossible", lambda: "needs root, for network namespaces")
    found = results("full", tmp_path)
    assert {result.why for result in found.values()} == {"cannot run here: needs root, for network namespaces"}


def test_nothing_of_others_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laboratory, "impossible", lambda: "")

    def nowhere(**_: int) -> None:
        raise OSError("no room")

    monkeypatch.setattr(laboratory, "Lab", nowhere)
    found = results("full", tmp_path, hosts=True)
    assert "elaunch ssh starts no agent again" in found["faults/agent-kill/save"].why
    assert "nothing of other people's hosts is cut" in found["faults/etcd-kill/at-once"].why
    assert "faults/agent-freeze/at-once" not in found, "it is of the job that runs there"
    assert found["rails/symmetric"].why == "cannot run here: the laboratory: no room"
