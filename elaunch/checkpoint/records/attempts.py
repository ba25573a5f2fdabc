"""Restores that came to nothing, counted in the directory: for programs that no controller watches.

Under elaunch the controller knows whether a job made progress, and says which steps to avoid.
"""

from __future__ import annotations

import json

from elaunch.checkpoint.records import documents
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.storage import Storage

LIMIT = 3
_MOST_BYTES = 1 << 20


def suspects(storage: Storage) -> frozenset[int]:
    """Steps from which ``LIMIT`` starts in a row have come to no save."""
    try:
        return frozenset(step for step, count in _read(storage).items() if count >= LIMIT)
    except OSError:
        return frozenset()  # nobody knows, and the newest is as good as any


def begun(storage: Storage, step: int) -> None:
    """A start has restored this step."""
    counts = _read(storage)
    _write(storage, {**counts, step: counts.get(step, 0) + 1})


def over(storage: Storage) -> None:
    """The program has come to a save: whatever it restored was good."""
    if _read(storage):
        _write(storage, {})


def _read(storage: Storage) -> dict[int, int]:
    try:
        raw = documents.parse(storage.read(layout.ATTEMPTS, _MOST_BYTES))
        return {int(step): documents.whole(count) for step, count in raw.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError):
        return {}  # of no worth by itself: counted anew


def _write(storage: Storage, counts: dict[int, int]) -> None:
    storage.write(layout.ATTEMPTS, json.dumps(counts).encode())
