"""What a rank of a qualification tells: one line of JSON on its standard output each. Works over ssh as well."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MARK = "elaunch-qualify:"
Line = dict[str, Any]


def line(kind: str, rank: int, generation: int, **values: Any) -> str:
    """As a rank prints it."""
    return MARK + json.dumps({"kind": kind, "rank": rank, "generation": generation, **values}, separators=(",", ":"))


def found(text: str) -> Iterator[Line]:
    """All such lines in what a job printed; what is cut off or none is left out."""
    for part in text.splitlines():
        at = part.find(MARK)
        if at < 0:
            continue
        try:
            value = json.loads(part[at + len(MARK) :])
            json.dumps(value, allow_nan=False)  # what is no number would be none in the report either
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("kind"), str) and isinstance(value.get("rank"), int):
            yield value


class Told:
    """The lines of a file that grows: only what is new is read."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._read = 0  # bytes, up to the end of a line

    def all_of(self, file: Path) -> list[Line]:
        """Those that are there now. Raises OSError."""
        with file.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        self._lines += found(whole.decode(errors="replace"))
        return list(self._lines)


def starts(text: str) -> Iterator[Line]:
    """The records of starts that agents log as JSON (docs/start-check.md), as lines of kind ``start``."""
    for part in text.splitlines():
        if '"communicator_seconds"' not in part:
            continue
        try:
            value = json.loads(part[max(0, part.find("{")) :])  # over ssh the host stands in front
            json.dumps(value, allow_nan=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("rank"), int):
            yield {**value, "kind": "start"}


def of(lines: Iterable[Line], kind: str, **values: Any) -> list[Line]:
    """Those of a kind, with these values."""
    return [one for one in lines if one["kind"] == kind and values.items() <= one.items()]
