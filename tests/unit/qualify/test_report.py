"""report.json, report.html and the comparison of two."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from elaunch.cli import qualify
from elaunch.errors import UsageError
from elaunch.qualify import figures, plots
from elaunch.qualify.cells import Outcome
from elaunch.qualify.diff import changes
from elaunch.qualify.lines import Told, found, line, starts
from elaunch.qualify.page import page
from elaunch.qualify.report import SCHEMA, document, read, written
from tests.unit.qualify.samples import full, report, result

VOID = {"meta", "input", "line", "br"}


class Balanced(HTMLParser):
    """Notes what a browser would fetch or run, and tags that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.fetched += [f"{name}={value}" for name, value in attributes if name in ("src", "href") or name[:2] == "on"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_document_is_read_as_it_was_written() -> None:
    one = full()
    assert document(read(written(one))) == document(one)
    data = json.loads(written(one))
    assert (data["schema"], data["passed"]) == (SCHEMA, False)
    assert data["summary"] == {"ok": 2, "failed": 1, "not_run": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a report of elaunch qualify"),
        ('{"kind": "elaunch-qualification", "schema": 99}', "its schema is 99"),
        ('{"kind": "elaunch-qualification", "schema": 1, "cells": [1]}', "no list of objects"),
        ('{"kind": "elaunch-qualification", "schema": 1, "cells": [{"name": "x"}]}', "not a cell"),
        ('{"kind": "elaunch-qualification", "schema": 1, "cells": [], "ports": 3}', "its ports is of the wrong kind"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_report_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(text)


def test_the_whole_is_read_out_of_what_ranks_and_agents_told() -> None:
    ranks = [line("rank", r, 1, host="a", path={}, torch="2", import_seconds=2.0 + r, init_seconds=0.5) for r in (0, 1)]
    moved = [
        line(
            "traffic",
            0,
            1,
            at=at,
            host="a",
            time=float(t),
            ports={"eth0": {"tx_bytes": t * 10**6, "rx_bytes": 0, "mbit": 80}},
        )
        for at, t in (("begin", 1), ("end", 3))
    ]
    step = line("step", 0, 1, name="one", compute=0.2, exposed=0.1)
    speed = line("bandwidth", 0, 1, op="all-reduce", bytes=1000, seconds=0.5)
    record = json.dumps({"rank": 1, "rendezvous_seconds": 0.1, "exchange_seconds": 0.2, "communicator_seconds": 0.3,
                         "transport": "gloo over nic0"})  # fmt: skip
    text = "\n".join([*ranks, *moved, step, speed, f"gpu-02 | {record}", '{"communicator_seconds": broken'])
    one = report()
    figures.fill(one, [*found(text), *starts(text)], 2)
    assert one.ranks[1]["start"] == {
        "import": 3.0, "init_process_group": 0.5, "rendezvous": 0.1, "exchange": 0.2, "communicator": 0.3,
    }  # fmt: skip
    assert one.ranks[0]["start"] == {"import": 2.0, "init_process_group": 0.5}
    assert one.bootstrap == {
        "import": 3.0, "init_process_group": 0.5, "rendezvous": 0.1, "exchange": 0.2, "communicator": 0.3,
    }  # fmt: skip
    assert [rank["transport"] for rank in one.ranks] == ["", "gloo over nic0"]
    assert one.ports[0]["bytes_per_second"] == 10**6
    assert one.ports[0]["utilisation"] == 0.1
    assert one.steps == [{"name": "one", "rank": 0, "compute": 0.2, "exposed": 0.1}]
    assert one.bandwidth[0]["algorithm"] == 2000
    assert one.aggregate == {"bus_bandwidth": 2000.0, "link_throughput": 4000.0, "port_throughput": 1e6}


def test_what_a_log_tells_is_read_once(tmp_path: Path) -> None:
    log, told = tmp_path / "log", Told()
    one, two, three = (line("loss", 0, 1, step=n) for n in (1, 2, 3))
    log.write_text(f"noise\n{one}\n{two[:20]}")
    assert [row["step"] for row in told.all_of(log)] == [1]
    log.write_text(f"{'x' * len('noise')}\n{one}\n{two}\n{three}")
    assert [row["step"] for row in told.all_of(log)] == [1, 2]
    with log.open("a") as file:
        file.write("\n")
    assert [row["step"] for row in told.all_of(log)] == [1, 2, 3]


def test_what_passed_means() -> None:
    assert report(result("a/b")).passed
    assert not report().passed
    assert not report(result("a/b"), partial="interrupted").passed
    assert not report(result("a/b"), result("a/c", Outcome.FAILED)).passed


def test_the_page_is_whole_and_fetches_and_runs_nothing() -> None:
    text = page(full())
    seen = Balanced()
    seen.feed(text)
    assert seen.open == []
    assert seen.fetched == []
    assert not seen.tags & {"script", "link", "img", "iframe", "object"}
    assert "http" not in text.replace("http-equiv", "")
    assert text.count("<svg") == 4
    for words in ("1 cell failed", "told as hung", "needs two rails", "prefers-color-scheme:dark", "rank 1 was killed"):
        assert words in text


def test_what_comes_from_elsewhere_is_escaped() -> None:
    evil = "<script>alert(1)</script>\"'&"
    one = full()
    one.put([result(f"ddp/{evil}", Outcome.FAILED, evil, reason=evil, phases={"abort": 1.0})])
    one.partial = evil
    one.ranks = [{"rank": evil, "host": evil, "device": evil, "backend": evil, "path": {evil: evil}}]
    one.ports[0]["host"] = one.ports[0]["port"] = evil
    one.steps[0]["name"] = evil
    one.bandwidth[0]["op"] = evil
    one.versions = {evil: evil, "elaunch": evil}
    one.topology[0]["host"] = evil
    one.bootstrap[evil] = 1.0
    one.machine["host"] = evil
    text = page(one)
    assert "<script" not in text
    assert "alert(1)</" not in text
    seen = Balanced()
    seen.feed(text)
    assert "script" not in seen.tags


def test_plots_of_a_report_without_values_are_none() -> None:
    empty = report()
    assert [draw(empty) for draw in (plots.recovery, plots.bandwidth, plots.steps, plots.ports)] == ["", "", "", ""]
    assert "Nothing was measured" in page(empty)


def drawing(text: str) -> ET.Element:
    return ET.fromstring(text[text.index("<svg") : text.index("</svg>") + len("</svg>")])


def test_drawings_are_well_formed_and_bars_have_their_lengths() -> None:
    tree = drawing(plots.steps(full()))
    widths = [float(rect.get("width", 0)) for rect in tree.iter("rect")]
    assert len(widths) == 2
    assert widths[0] / widths[1] == pytest.approx(5, rel=0.05)
    drawing(plots.bandwidth(full()))


def test_two_reports() -> None:
    before = report(
        result("a/one"), result("a/two", Outcome.FAILED), result("a/gone"), result("f/x", first_step=2.0),
        bandwidth=[{"op": "all-reduce", "bytes": 1024, "seconds": 1.0, "algorithm": 1000, "bus": 1000}],
    )  # fmt: skip
    after = report(
        result("a/one", Outcome.FAILED, "off by 3"), result("a/two"), result("a/new"), result("f/x", first_step=5.0),
        bandwidth=[{"op": "all-reduce", "bytes": 1024, "seconds": 1.0, "algorithm": 400, "bus": 400}],
    )  # fmt: skip
    seen = {change.text: change.worse for change in changes(before, after)}
    assert seen == {
        "all-reduce of 1 KiB: 0.001 -> 0.0004 MB/s": True,
        "a/one: ok -> failed (off by 3)": True,
        "f/x: first step 2.0 s -> 5.0 s": True,
        "a/two: failed -> ok": False,
        "a/gone: only in the first": False,
        "a/new: only in the second": False,
    }
    assert changes(before, before) == []


def test_the_command_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, outcome in (("a", Outcome.OK), ("b", Outcome.FAILED)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(written(report(result("ddp/plain", outcome))))
    a, b = str(tmp_path / "a"), str(tmp_path / "b" / "report.json")
    assert qualify.run(["diff", a, b], {}) == 1
    assert capsys.readouterr().out == "worse  ddp/plain: ok -> failed\n"
    assert qualify.run(["diff", b, a], {}) == 0
    capsys.readouterr()
    assert qualify.run(["diff", a, a, "--json"], {}) == 0
    assert json.loads(capsys.readouterr().out) == {"common": 1, "changes": []}


@pytest.mark.parametrize(
    "words",
    [
        ["--quick", "--full"],
        ["--local=0"],
        ["--local=two"],
        ["--local=2", "--nproc-per-node=2"],
        ["--only=nothing-of-that-kind"],
        ["--spoil=nothing"],
        ["--hosts=/nowhere/hosts"],
        ["--output=/dev/null"],
        ["diff", "/nowhere/a", "/nowhere/b"],
        ["diff", "/nowhere/a"],
        ["extra"],
    ],
)
def test_bad_input_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        qualify.run(words, {})
    assert "\n" not in str(caught.value)


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert qualify.run(["--list", "--only", "ddp/*"], {}) == 0
    assert "ddp/no_sync" in capsys.readouterr().out
