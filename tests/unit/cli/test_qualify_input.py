"""What ``elaunch qualify`` and ``qualify diff`` are given that is none: one clear line each, and 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elaunch.cli.main import main
from elaunch.qualify.lines import MARK, found
from elaunch.qualify.page import page
from elaunch.qualify.report import read


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--local", "0"), "expected 1 to 1024 ranks"),
        (("--local", "-1"), "expected 1 to 1024 ranks"),
        (("--hosts=",), "it names no host"),
        (("--hosts", "a", "--nproc-per-node", "0"), "expected 1 to 1024 ranks"),
        (("--hosts", "a", "--nproc-per-node", "-5"), "expected 1 to 1024 ranks"),
        (("--ssh-python", "/x"), "go with --hosts"),
        (("--shared", "/etc/passwd"), "not a directory"),
        (("--shared", "/nonexistent"), "not a directory"),
        (("--output", "/etc/passwd"), "not a directory"),
        (("--output=",), "not a directory"),
        (("--only", "nothing"), "no cell of --quick matches --only=nothing"),
        (("--spoil", "nothing"), "no such cell is to be run"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["qualify", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_more_ranks_than_there_is_memory_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would take the machine with them."""
    monkeypatch.setattr("elaunch.qualify.facts.free_memory", lambda: 8 << 30)
    assert main(["qualify", "--local", "1000"]) == 2
    assert "so many ranks take 62.5 GiB or more, and 8.0 GiB are free" in capfd.readouterr().err


def report(tmp_path: Path, name: str, **members: Any) -> str:
    cell = {"name": "a/b", "text": "t", "outcome": "ok"}
    values = {"kind": "elaunch-qualification", "schema": 1, "mode": "quick", "where": {}, "cells": [cell], **members}
    path = tmp_path / name
    path.write_text(json.dumps(values))
    return str(path)


HOSTILE = "\x1b]0;x\x07<script>alert(1)</script>\nworse  x: ok -> failed \ud800"


def test_a_hostile_report_has_no_way_into_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither escape sequences nor lines of its own, and what is no character ends nothing."""
    bad = {"name": "a/b", "text": "t", "outcome": "failed", "why": HOSTILE}
    reports = report(tmp_path, "a"), report(tmp_path, "b", cells=[bad], partial=HOSTILE, versions={"x": HOSTILE})
    assert main(["qualify", "diff", *reports]) == 1
    out, err = capfd.readouterr()
    assert err == ""
    assert out.count("\n") == 2
    assert out.replace("\n", "").isprintable()


def test_a_hostile_report_has_no_way_into_the_page(tmp_path: Path) -> None:
    bad: dict[str, Any] = {"name": f"a/{HOSTILE}", "text": HOSTILE, "outcome": "failed", "why": HOSTILE}
    bad |= {"reason": HOSTILE, "phases": {"detection": 1.0}}
    path = report(
        tmp_path, "a", cells=[bad], partial=HOSTILE, mode=HOSTILE, versions={HOSTILE: HOSTILE},
        bandwidth=[{"op": HOSTILE, "bytes": 8, "algorithm": 5}, {"op": HOSTILE, "bytes": 16, "algorithm": 5}],
        steps=[{"name": HOSTILE, "compute": 1, "exposed": 1}],
    )  # fmt: skip
    text = page(read(Path(path).read_text()))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "[[NaN]]", '{"a":NaN}'])
def test_a_rank_that_tells_no_numbers_does_not_end_the_qualification(value: str) -> None:
    """A report.json has none: the whole of it could not be written."""
    assert list(found(f'{MARK}{{"kind":"step","rank":0,"compute":{value}}}')) == []
