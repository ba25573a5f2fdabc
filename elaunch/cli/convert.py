"""Text into a value of an option's kind. Every ValueError says what was expected."""

from __future__ import annotations

import math
from typing import Any

from elaunch.cli.flag import Flag

_TRUE = ("1", "true", "t", "yes", "y", "on")
_FALSE = ("0", "false", "f", "no", "n", "off")


def convert(flag: Flag, text: str) -> Any:
    """``text`` as a value of the flag's kind. Raises ValueError that says what was expected."""
    if flag.kind == "flag":
        return boolean(text)
    if flag.kind == "integer":
        return _integer(text)
    if flag.kind == "number":
        return number(text)
    if flag.kind == "list":
        return comma_separated(text)
    if flag.kind == "choice" and text not in flag.choices:
        raise ValueError(f"expected one of {', '.join(flag.choices)}")
    return text


def boolean(text: str) -> bool:
    """1/0, true/false, yes/no, on/off and their first letters."""
    word = text.strip().lower()
    if word not in _TRUE + _FALSE:
        raise ValueError("expected 1 or 0 (or true, yes, on; false, no, off)")
    return word in _TRUE


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected an integer") from None


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("expected a number")
    return value


def comma_separated(text: str) -> tuple[str, ...]:
    """Items between commas; a doubled comma is one that belongs to the item."""
    return tuple(item.replace("\0", ",") for item in text.replace(",,", "\0").split(","))
