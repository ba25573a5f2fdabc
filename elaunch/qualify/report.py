"""The report as a document: report.json. Values only; docs/qualify.md describes every member."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from elaunch.qualify.cells import Outcome, Result, is_number

KIND = "elaunch-qualification"
SCHEMA = 1
"""Grows when a member changes its meaning or goes; new members may come without."""


@dataclass(slots=True)
class Report:
    """A qualification as far as it has got. ``partial`` says why it is not whole, "" where it is.

    ``began`` is in wall-clock seconds, ``seconds`` how long it took; ``topology``, ``bootstrap``, ``ranks``, ``ports``,
    ``rails``, ``bandwidth``, ``steps`` and ``aggregate`` are about the whole. Their form is that of report.json.
    """

    mode: str
    where: dict[str, Any]
    began: float = 0.0
    seconds: float = 0.0
    partial: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    topology: list[dict[str, Any]] = field(default_factory=list)
    bootstrap: dict[str, float] = field(default_factory=dict)
    ranks: list[dict[str, Any]] = field(default_factory=list)
    ports: list[dict[str, Any]] = field(default_factory=list)
    rails: list[dict[str, Any]] = field(default_factory=list)
    bandwidth: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    aggregate: dict[str, float] = field(default_factory=dict)
    cells: list[Result] = field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        return sum(result.outcome is outcome for result in self.cells)

    @property
    def passed(self) -> bool:
        """Whether nothing failed, something ran, and nothing cut it short."""
        return not self.partial and not self.count(Outcome.FAILED) and self.count(Outcome.OK) > 0

    def put(self, results: Iterable[Result]) -> None:
        """Note results; the newest of a cell counts."""
        for result in results:
            places = [i for i, one in enumerate(self.cells) if one.name == result.name]
            if places:
                self.cells[places[0]] = result
            else:
                self.cells.append(result)


def document(report: Report) -> dict[str, Any]:
    """For report.json."""
    members = {f.name: getattr(report, f.name) for f in fields(Report) if f.name != "cells"}
    summary = {outcome.value.replace(" ", "_"): report.count(outcome) for outcome in Outcome}
    head = {"kind": KIND, "schema": SCHEMA, "passed": report.passed, "summary": summary}
    return {**head, **members, "cells": [result.values for result in report.cells]}


def written(report: Report) -> str:
    return json.dumps(document(report), indent=1, allow_nan=False) + "\n"


def read(text: str) -> Report:
    """The report in ``text``. Raises ValueError with a sentence where it is none, or of a newer schema."""
    try:
        data = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise ValueError(f"not a report of elaunch qualify: it has no kind {KIND!r}")
    if type(data.get("schema")) is not int or not 1 <= data["schema"] <= SCHEMA:
        raise ValueError(f"its schema is {data.get('schema')!r}, this elaunch reads 1 to {SCHEMA}")
    known: dict[str, Any] = {f.name: data[f.name] for f in fields(Report) if f.name in data and f.name != "cells"}
    if wrong := [name for name, kind in _KINDS.items() if not isinstance(known.get(name, kind()), kind)]:
        raise ValueError(f"its {wrong[0]} is of the wrong kind")
    for name, members in _ROWS.items():
        for row in known.get(name, ()):
            if not isinstance(row, dict) or not all(is_of(row.get(word)) for word, is_of in members.items()):
                raise ValueError(f"an entry of its {name} is not as it should be: {str(row)[:60]}")
    rows = data.get("cells")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("its cells are no list of objects")
    try:
        return Report(**{"mode": "", "where": {}, **known}, cells=[Result.of(row) for row in rows])
    except TypeError as error:
        raise ValueError(str(error)) from None


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_ROWS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "topology": {"host": _is_text, "digest": _is_text},
    "ranks": {},
    "ports": {"host": _is_text, "port": _is_text, "errors": is_number},
    "rails": {},
    "bandwidth": {"op": _is_text, "bytes": is_number, "algorithm": is_number},
    "steps": {"name": _is_text, "compute": is_number, "exposed": is_number},
}
"""What a comparison looks at in each entry."""
_KINDS: dict[str, type] = {
    "mode": str,
    "where": dict,
    "partial": str,
    "versions": dict,
    "machine": dict,
    "topology": list,
    "bootstrap": dict,
    "ranks": list,
    "ports": list,
    "rails": list,
    "bandwidth": list,
    "steps": list,
    "aggregate": dict,
}
