"""Slurm's host lists, ``gpu[01-03,7]-ib,login1``, into names. Values only; ``scontrol show hostnames`` is not asked.

It would take a process and a moment per node, and refuses lists with something behind the bracket.
"""

from __future__ import annotations

import re
from itertools import product

MOST = 65_536  # names: more than the largest clusters have, and little enough to hold
_DIGITS = 9
_RANGE = re.compile(rf"([0-9]{{1,{_DIGITS}}})(?:-([0-9]{{1,{_DIGITS}}}))?")
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
_SHOWN = 60  # characters of a bad list


def expand(text: str) -> tuple[str, ...]:
    """The names in ``text``, in its order: ranges count up, of several brackets the last one fastest.

    A number is as wide as the first of its range is written (``[08-11]``: 08, 09, 10, 11). Raises ValueError for what
    is no such list, and for more than ``MOST`` names.
    """
    names: list[str] = []
    for part in split(text):
        names.extend(_names(part, MOST - len(names)))
    return tuple(names)


def counts(text: str) -> tuple[int, ...]:
    """Slurm's counts of each node, ``2(x3),1``, as ``(2, 2, 2, 1)``. Raises ValueError, as ``expand`` does."""
    found: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part)
        if match is None:
            raise ValueError(f"{_shown(text)} is no list of counts such as 2(x3),1")
        times = int(match[2] or 1)
        if len(found) + times > MOST:
            raise ValueError(f"{_shown(text)} counts more than {MOST} nodes")
        found.extend([int(match[1])] * times)
    return tuple(found)


def split(text: str) -> list[str]:
    """The parts between commas that are in no bracket. Raises ValueError for an empty one, and bad brackets."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
        if depth not in (0, 1):
            raise ValueError(f"{_shown(text)} has brackets that do not match")
    if depth:
        raise ValueError(f"{_shown(text)} has brackets that do not match")
    parts.append(text[begin:])
    if any(not part or part != part.strip() for part in parts):
        raise ValueError(f"{_shown(text)} has an empty name in it")
    return parts


def _names(part: str, room: int) -> list[str]:
    pieces: list[list[str]] = []
    size = 1
    for piece in re.split(r"(\[[^\]]*\])", part):
        if piece:
            pieces.append(_numbers(piece[1:-1], part, room) if piece[0] == "[" else [piece])
            size *= len(pieces[-1])
    if size > room:
        raise ValueError(f"{_shown(part)} stands for more than {MOST} hosts")
    return ["".join(choice) for choice in product(*pieces)]


def _numbers(inside: str, part: str, room: int) -> list[str]:
    found: list[str] = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise ValueError(f"{_shown(part)}: [{_shown(inside)}] is no list of numbers and ranges")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise ValueError(f"{_shown(part)}: {item} counts down")
        if len(found) + high - low + 1 > room:
            raise ValueError(f"{_shown(part)} stands for more than {MOST} hosts")
        found.extend(str(number).zfill(len(match[1])) for number in range(low, high + 1))
    return found


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
