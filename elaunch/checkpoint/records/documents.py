"""Small JSON documents of a checkpoint directory: whatever stands in the file, one error says that it is none."""

from __future__ import annotations

import json
from typing import Any


def parse(data: bytes) -> Any:
    """What a document holds. Raises ValueError, also for one that is nested deeper than Python follows."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def whole(value: object) -> int:
    """A number as an integer. Raises ValueError, also for an infinite one, and TypeError."""
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except OverflowError as error:
        raise ValueError(f"{value!r} is no whole number") from error
