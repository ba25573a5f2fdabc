"""Two reports side by side: what got worse or better, what is slower, what cannot be compared. Values only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from elaunch.qualify.cells import NOT_REACHED, Outcome, Result
from elaunch.qualify.plots import size_text
from elaunch.qualify.report import Report

FACTOR = 1.5
"""A time or bandwidth differs where it is worse by this factor, and a time by ``LEAST`` seconds as well."""
LEAST = 0.5
_TIMES = ("detection", "abort", "first_step")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. ``worse`` decides the exit code; ``text`` is a line for a person."""

    what: str
    name: str
    worse: bool
    text: str


def changes(a: Report, b: Report) -> list[Change]:
    """What is different in ``b``; the worse first.

    Times and bandwidths are compared where both had as many ranks on as many nodes: else they say nothing.
    """
    found = [*_setting(a, b), *_outcomes(a, b), *_topology(a, b), *_errors(a, b)]
    if _size(a) == _size(b):
        found += [*_slower(a, b), *_bandwidth(a, b), *_steps(a, b)]
    return sorted(found, key=lambda change: (not change.worse, _ORDER.index(change.what), change.name))


def common(a: Report, b: Report) -> int:
    """How many cells both have."""
    return len(_cells(a).keys() & _cells(b).keys())


_ORDER = ("setting", "cells", "times", "bandwidth", "steps", "topology", "ports")
_NAMED = 8  # cells that are named where only one of the reports has them


def _size(report: Report) -> tuple[Any, Any]:
    return report.where.get("ranks"), report.where.get("nodes")


def _size_text(report: Report) -> str:
    ranks, nodes = _size(report)
    return f"{ranks} ranks on each of {nodes} nodes" if nodes != 1 else f"{ranks} ranks on one node"


def _setting(a: Report, b: Report) -> list[Change]:
    """What was asked for, and with what: no fault of the cluster's."""
    texts = []
    if a.mode != b.mode:
        texts.append(("mode", f"--{a.mode} -> --{b.mode}"))
    if _size(a) != _size(b):
        end = "times and bandwidths are not compared"
        texts.append(("ranks", f"{_size_text(a)} -> {_size_text(b)}: {end}"))
    before, after = (_hosts(report) for report in (a, b))
    if before and after and before != after:
        gone, new = len(before - after), len(after - before)
        texts.append(("hosts", f"other hosts: {gone} of the first are not in the second, {new} have come"))
    for name in sorted({*a.versions, *b.versions}):
        old, now = a.versions.get(name), b.versions.get(name)
        if old and now and old != now:
            texts.append((f"version {name}", f"{name} {old} -> {now}"))
    found = [Change("setting", name, False, text) for name, text in texts]
    return [*found, *_partial("first", a), *_partial("second", b)]


def _partial(which: str, report: Report) -> list[Change]:
    """What a report did not get to is told in one line: in the second it is worse."""
    if not report.partial:
        return []
    left = len(_not_reached(report))
    text = f"the {which} is partial: {report.partial}" + (f"; it did not get to {left} cells" if left else "")
    return [Change("setting", f"partial {which}", which == "second" and left > 0, text)]


def _hosts(report: Report) -> set[str]:
    return {str(one["host"]) for one in report.topology}


def _cells(report: Report) -> dict[str, Result]:
    """Those that it got to."""
    left = _not_reached(report)
    return {result.name: result for result in report.cells if result.name not in left}


def _not_reached(report: Report) -> set[str]:
    return {result.name for result in report.cells if result.why.startswith(NOT_REACHED)}


def _outcomes(a: Report, b: Report) -> list[Change]:
    before, after = _cells(a), _cells(b)
    alike = a.mode == b.mode and _size(a) == _size(b)  # else it may be that a cell cannot be run
    left = dict.fromkeys(_not_reached(a) | _not_reached(b))
    found = [*_alone("first", before, after | left), *_alone("second", after, before | left)]
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        if old.outcome is not new.outcome:
            worse = new.outcome is Outcome.FAILED or (old.outcome is Outcome.OK and alike)
            why = f" ({new.why})" if new.why else ""
            found.append(Change("cells", name, worse, f"{name}: {old.outcome.value} -> {new.outcome.value}{why}"))
    return found


def _alone(which: str, mine: dict[str, Result], other: Collection[str]) -> list[Change]:
    """Cells that but one of them has; one that has failed is named in any case."""
    names = sorted(mine.keys() - set(other), key=lambda name: (mine[name].outcome is not Outcome.FAILED, name))
    bad = sum(mine[name].outcome is Outcome.FAILED for name in names)
    found = []
    for name in names[: max(_NAMED, bad)]:
        failed = mine[name].outcome is Outcome.FAILED
        text = f"{name}: only in the {which}" + (f", failed ({mine[name].why})" if failed else "")
        found.append(Change("cells", name, failed and which == "second", text))
    if left := len(names) - len(found):
        found.append(Change("cells", "~", False, f"{left} more are only in the {which}"))
    return found


def _slower(a: Report, b: Report) -> list[Change]:
    before = _cells(a)
    found = []
    for new in b.cells:
        old = before.get(new.name)
        if old is None:
            continue
        for name in _TIMES:
            x, y = getattr(old, name), getattr(new, name)
            if x is None or y is None or abs(y - x) < LEAST or max(x, y) < FACTOR * min(x, y):
                continue
            word = name.replace("_", " ")
            found.append(Change("times", new.name, y > x, f"{new.name}: {word} {x:.1f} s -> {y:.1f} s"))
    return found


def _bandwidth(a: Report, b: Report) -> list[Change]:
    def rows(report: Report) -> dict[tuple[str, Any], float]:
        return {(row["op"], row["bytes"]): float(row["algorithm"]) for row in report.bandwidth}

    before, found = rows(a), []
    for (op, size), new in rows(b).items():
        old = before.get((op, size))
        if old and new and max(old, new) >= FACTOR * min(old, new):
            text = f"{op} of {size_text(size)}: {old / 1e6:.4g} -> {new / 1e6:.4g} MB/s"
            found.append(Change("bandwidth", f"{op}/{size}", new < old, text))
    return found


def _topology(a: Report, b: Report) -> list[Change]:
    def digests(report: Report) -> dict[str, str]:
        return {str(row.get("host")): str(row.get("digest")) for row in report.topology}

    before, after = digests(a), digests(b)
    return [
        Change("topology", host, False, f"{host}: another machine (topology {before[host][:12]} -> {digest[:12]})")
        for host, digest in after.items()
        if host in before and before[host] != digest
    ]


def _steps(a: Report, b: Report) -> list[Change]:
    before, found = {row["name"]: row for row in a.steps}, []
    for new in b.steps:
        old = before.get(new["name"])
        x, y = (row["compute"] + row["exposed"] if row else 0.0 for row in (old, new))
        if x and y and max(x, y) >= FACTOR * min(x, y):
            text = f"a step with {new['name']}: {1000 * x:.3g} ms -> {1000 * y:.3g} ms"
            found.append(Change("steps", new["name"], y > x, text))
    return found


def _errors(a: Report, b: Report) -> list[Change]:
    """Ports that have errors now, and had none."""
    clean = {(row["host"], row["port"]) for row in a.ports if not row["errors"]}
    return [
        Change("ports", f"{row['host']} {row['port']}", False, f"{row['host']} {row['port']}: {row['errors']} errors")
        for row in b.ports
        if row["errors"] and (row["host"], row["port"]) in clean
    ]
