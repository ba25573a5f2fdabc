"""Two reports that are not alike, and files that are none: one clear line, and exit codes that tell them apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elaunch.cli import qualify
from elaunch.errors import UsageError
from elaunch.qualify.cells import NOT_REACHED, Outcome
from elaunch.qualify.diff import changes, common
from elaunch.qualify.report import Report, document, written
from tests.unit.qualify.samples import full, report, result

Compare = Callable[..., int]


def texts(a: Report, b: Report) -> dict[str, bool]:
    return {change.text: change.worse for change in changes(a, b)}


def sized(made: Report, ranks: int, nodes: int) -> Report:
    made.where = {"ranks": ranks, "nodes": nodes, "hosts": []}
    return made


def slow(factor: float) -> Report:
    return report(
        result("f/x", first_step=2.0 * factor),
        bandwidth=[{"op": "all-reduce", "bytes": 1024, "seconds": 1.0, "algorithm": 1000 / factor, "bus": 1000}],
        steps=[{"name": "one bucket", "rank": 0, "compute": 0.01 * factor, "exposed": 0.01}],
    )


def test_what_is_slower_counts_only_between_worlds_of_one_size() -> None:
    assert texts(slow(1), slow(4)) == {
        "f/x: first step 2.0 s -> 8.0 s": True,
        "all-reduce of 1 KiB: 0.001 -> 0.00025 MB/s": True,
        "a step with one bucket: 20 ms -> 50 ms": True,
    }
    assert list(texts(slow(4), slow(1)).values()) == [False, False, False]
    assert texts(slow(1), sized(slow(4), 8, 16)) == {
        "2 ranks on one node -> 8 ranks on each of 16 nodes: times and bandwidths are not compared": False
    }


def test_another_mode_is_told_and_what_it_cannot_run_is_no_harm() -> None:
    a = report(result("a/one"), result("rails/slow"), result("a/gone"))
    b = report(result("a/one"), result("rails/slow", Outcome.NOT_RUN, "takes --full"))
    assert texts(a, b) == {
        "rails/slow: ok -> not run (takes --full)": True,
        "a/gone: only in the first": False,
    }
    a.mode = "full"
    assert texts(a, b) == {
        "--full -> --quick": False,
        "rails/slow: ok -> not run (takes --full)": False,
        "a/gone: only in the first": False,
    }
    b.put([result("a/one", Outcome.FAILED, "off")])
    assert texts(a, b)["a/one: ok -> failed (off)"]


def test_other_hosts_versions_errors_and_partial_reports_are_told() -> None:
    def of(*hosts: str, torch: str, errors: int) -> Report:
        return report(
            result("a/one"),
            topology=[{"host": host, "digest": f"{host}{torch}"} for host in hosts],
            versions={"torch": torch, "elaunch": "1"},
            ports=[{"host": "a", "port": "nic0", "errors": errors}],
        )

    before, after = of("a", "b", torch="2.12", errors=0), of("a", "c", "d", torch="2.13", errors=3)
    after.partial = "interrupted"
    assert texts(before, after) == {
        "other hosts: 1 of the first are not in the second, 2 have come": False,
        "torch 2.12 -> 2.13": False,
        "the second is partial: interrupted": False,
        "a: another machine (topology a2.12 -> a2.13)": False,
        "a nic0: 3 errors": False,
    }
    assert texts(before, before) == {}


def test_what_a_partial_report_did_not_get_to_is_one_line() -> None:
    whole = report(*(result(f"a/{n}") for n in range(20)))
    part = report(*(result(f"a/{n}") for n in range(5)))
    part.put(result(f"a/{n}", Outcome.NOT_RUN, f"{NOT_REACHED}: interrupted") for n in range(5, 20))
    part.partial = "interrupted"
    assert texts(whole, part) == {"the second is partial: interrupted; it did not get to 15 cells": True}
    assert texts(part, whole) == {"the first is partial: interrupted; it did not get to 15 cells": False}
    assert common(whole, part) == common(part, whole) == 5
    part.put([result("a/1", Outcome.FAILED, "off")])
    assert texts(whole, part)["a/1: ok -> failed (off)"]


def test_of_many_cells_that_one_alone_has_a_few_are_named_and_the_failed_ones() -> None:
    many = report(*(result(f"a/{n:03d}") for n in range(100)))
    few = report(result("b/one"), result("b/bad", Outcome.FAILED, "off"))
    seen = texts(few, many)
    assert len(seen) == 2 + 8 + 1
    assert "92 more are only in the second" in seen
    assert not any(seen.values())
    assert texts(many, few)["b/bad: only in the second, failed (off)"], "what fails is worse, new or not"
    assert common(many, few) == 0


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """Compares a good report with what is in the second file; the exit code."""
    (tmp_path / "good").write_text(written(full()))

    def run(content: bytes | None, *words: str) -> int:
        if content is not None:
            (tmp_path / "other").write_bytes(content)
        return qualify.run(["diff", str(tmp_path / "good"), str(tmp_path / "other"), *words], {})

    return run


def changed(**members: Any) -> bytes:
    return json.dumps({**document(full()), **members}).encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\x89PNG\r\n\x1a\n\xff", "not JSON: it is not text"),
        (b"[" * 200_000, "not JSON"),
        (b"9" * 50_000, "not JSON"),
        (b'{"a": 1}', "not a report of elaunch qualify"),
        (b"null", "not a report of elaunch qualify"),
        (changed(schema=2), "its schema is 2, this elaunch reads 1 to 1"),
        (changed(schema=True), "its schema is True"),
        (changed(schema="1"), "its schema is '1'"),
        (changed(where=[]), "its where is of the wrong kind"),
        (changed(cells={}), "no list of objects"),
        (changed(cells=[{"name": 3, "text": "", "outcome": "ok"}]), "its name is '3'"),
        (changed(cells=[{"name": "a", "text": "", "outcome": "fine"}]), "'fine' is not a valid Outcome"),
        (changed(cells=[{"name": "a", "text": "", "outcome": "ok", "first_step": "2"}]), "its first_step is '2'"),
        (changed(cells=[{"name": "a", "text": "", "outcome": "ok", "phases": {"abort": None}}]), "its phases is"),
        (changed(bandwidth=[{"op": "x"}]), "an entry of its bandwidth is not as it should be"),
        (changed(bandwidth=[1]), "an entry of its bandwidth"),
        (changed(topology=[{"host": None, "digest": ""}]), "an entry of its topology"),
        (changed(steps=[{"name": "x", "compute": True, "exposed": 1}]), "an entry of its steps"),
        (changed(cells=[{"name": "a", "text": "", "outcome": "ok", "abort": 10**400}]), "its abort is '1000"),
        (changed(schema="x" * 10_000), "its schema is 'xxx"),
        (changed(partial="x").replace(b"12.5", b"NaN"), "not JSON: NaN is no number"),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(compare: Compare, content: bytes, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        compare(content)
    assert caught.value.exit_code == 2
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_what_is_not_there_or_too_large_is_refused(
    compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"there is no file .*other"):
        compare(None)
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match=r"there is no report.json in .*other; elaunch"):
        compare(None)
    (tmp_path / "other").rmdir()
    monkeypatch.setattr(qualify, "_LARGEST", 1 << 20)
    with pytest.raises(UsageError, match="more than 1 MiB: that is no report"):
        compare(b" " * (2 << 20))


def test_members_that_are_new_are_left_out(compare: Compare) -> None:
    """The schema grows when a member changes its meaning, not when one comes."""
    data = document(full())
    data["to_come"] = 1
    data["cells"][0]["to_come"] = 2
    assert compare(json.dumps(data).encode()) == 0


def test_exit_codes(compare: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(written(full()).encode()) == 0
    assert capsys.readouterr().out == "no difference\n"
    worse = full()
    worse.put([result("ddp/plain", Outcome.FAILED, "off")])
    assert compare(written(worse).encode()) == 1
    capsys.readouterr()
    other = report(result("other/cell"))
    assert compare(written(other).encode()) == 3
    assert capsys.readouterr().err == "qualify diff: the reports have no cell in common\n"
    assert compare(written(other).encode(), "--json") == 3
    assert json.loads(capsys.readouterr().out)["common"] == 0
