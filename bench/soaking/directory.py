"""The directory of checkpoints, looked at from outside."""

from __future__ import annotations

import json
import time
from pathlib import Path

from .commits import Commit, Scan, newest


class Directory:
    """Manifests are read once each, with nothing of elaunch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Commit] = {}

    def scan(self) -> Scan:
        """Claims first: what appears after this look has appeared after those."""
        at = time.monotonic()
        claimed = newest(self._claims())
        found = []
        for path in self._path.glob("step-*"):
            if path.name not in self._known and (commit := _read(path)) is not None:
                self._known[path.name] = commit
            if path.name in self._known:
                found.append(self._known[path.name])
        return Scan(at, claimed, tuple(found))

    def _claims(self) -> list[tuple[int, int]]:
        """The newest. None where that cannot be read: an older one that is still there would not be what holds."""
        paths = (self._path / ".elaunch" / "claims").glob("[0-9]*.json")
        numbers = {int(path.stem): path for path in paths if path.stem.isdecimal()}
        number = max(numbers, default=0)
        try:
            return [(number, int(json.loads(numbers[number].read_text())["generation"]))]
        except (OSError, ValueError, KeyError):
            return []  # a newer one has taken its place, or it is not written yet


def _read(path: Path) -> Commit | None:
    try:
        values = json.loads((path / "manifest.json").read_text())
    except (OSError, ValueError):
        return None  # removed meanwhile
    return Commit(path.name, int(values["step"]), int(values["generation"]))
