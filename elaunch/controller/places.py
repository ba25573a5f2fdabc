"""Where in the program a rank's exception was raised, read from what its error file told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from elaunch.errors import DirectoryInUseError
from elaunch.rendezvous.state import RankExit

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_IN_USE = re.compile(rf"(?:[\w.]+\.)?{DirectoryInUseError.__name__}: (?P<why>.+)")
_KIND = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?::|$)")

# What no second attempt can mend: the program's text, or what is installed, is the same again.
HOPELESS = frozenset(
    {
        "SyntaxError",
        "IndentationError",
        "TabError",
        "NameError",
        "UnboundLocalError",
        "AttributeError",
        "TypeError",
        "ImportError",
        "ModuleNotFoundError",
        "NotImplementedError",
    }
)

# What all ranks raise at one line when one of them, its host or the network fails, or on purpose: nobody's code.
_OUTSIDE = re.compile(
    r"\bnccl|\bgloo\b|\bDist\w*Error|connect|network|socket|\bpeer\b|time-?d? ?-?out|unreachable|CUDA error|\bECC\b"
    r"|rendezvous|\bOSError|Input/output error|stale file handle|\bInjected\w*Error",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Place:
    """The type of an exception and the innermost line of its traceback: ``NameError`` at ``train.py:31``."""

    kind: str
    line: str

    @property
    def hopeless(self) -> bool:
        return self.kind.rsplit(".", 1)[-1] in HOPELESS

    def __str__(self) -> str:
        return f"{self.kind} at {self.line}"


def place_of(exit: RankExit) -> Place | None:
    """Where ``exit``'s rank raised; None for one that was killed, left no traceback, or tells of the world outside."""
    frames = _FRAME.findall(exit.traceback)
    last = exit.traceback.strip().rsplit("\n", 1)[-1]
    if exit.exit_code <= 0 or not frames or _OUTSIDE.search(exit.message) or _OUTSIDE.search(last):
        return None
    file, line = frames[-1]
    kind = _KIND.match(exit.message.strip()) or _KIND.match(last)
    return Place(kind["kind"] if kind else "exception", f"{file}:{line}")


def common_place(exits: Sequence[RankExit]) -> tuple[Place, tuple[int, ...]] | None:
    """The one place at which all raised that tell where, with their ranks; None if nobody tells or they differ.

    Ranks that were killed do not count: the abort that follows the first failure reaches some before they get there.
    """
    told = {exit.rank: place for exit in exits if (place := place_of(exit))}
    places = set(told.values())
    if len(places) != 1 or any(exit.exit_code > 0 and exit.rank not in told for exit in exits):
        return None
    return places.pop(), tuple(sorted(told))


def directory_in_use(exits: Sequence[RankExit]) -> str:
    """What the ranks were told that found their directory of checkpoints another job's; "" where none did."""
    found = (_IN_USE.match(exit.message.strip()) for exit in exits if exit.exit_code > 0)
    return next((match["why"] for match in found if match), "")
