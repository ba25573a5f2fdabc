"""A cell of the matrix, and what became of it. Values only."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from elaunch.inject.fault import Fault

NOT_REACHED = "nobody got to it"
"""How the reason begins why a cell is not run that a partial qualification did not get to."""


class Outcome(str, Enum):
    """``NOT_RUN``: it cannot be here, or nobody got to it; its reason says which."""

    OK = "ok"
    FAILED = "failed"
    NOT_RUN = "not run"


class Job(str, Enum):
    """Which job runs a cell: as many as possible share one."""

    LAUNCH = "launch"
    TORCH = "torch"
    FAULTS = "faults"
    LAB = "lab"
    RAILS = "rails"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. ``name`` is ``group/...``; ``text`` says what must hold; ``fault`` is what is injected.

    ``phase`` is that of a generation in which a fault of the laboratory hits, "" for others.
    """

    name: str
    text: str
    job: Job
    fault: Fault | None = None
    phase: str = ""

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a cell.

    ``why`` is a sentence where it is not ok. ``seconds`` is what the cell took. Of faults, in seconds from the moment
    of the injection: ``detection`` until it was told, ``abort`` until the ranks were stopped, ``first_step`` until the
    next generation was at work; ``lost_steps`` and ``lost_seconds`` are work that was done again, ``reason`` is what
    was told, ``phases`` the recovery's phases. None: not known, or not of this cell.
    """

    name: str
    text: str
    outcome: Outcome
    why: str = ""
    seconds: float | None = None
    detection: float | None = None
    abort: float | None = None
    first_step: float | None = None
    lost_steps: int | None = None
    lost_seconds: float | None = None
    reason: str = ""
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]

    @property
    def values(self) -> dict[str, Any]:
        """For JSON; ``Result.of`` makes it again."""
        members = {name: getattr(self, name) for name in self.__slots__}
        return {**members, "outcome": self.outcome.value}

    @classmethod
    def of(cls, values: dict[str, Any]) -> Result:
        """Members that a newer elaunch has added are left out. Raises ValueError where it is none."""
        known = {name: values[name] for name in cls.__slots__ if name in values}
        try:
            made = cls(**{**known, "outcome": Outcome(values["outcome"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a cell: {error}") from None
        for name in cls.__slots__:
            if not _is_of(getattr(made, name), name):
                raise ValueError(f"not a cell: its {name} is {str(getattr(made, name))[:40]!r}")
        return made


_WORDS = ("name", "text", "why", "reason")


def _is_of(value: Any, name: str) -> bool:
    if name == "outcome":
        return True
    if name in _WORDS:
        return isinstance(value, str)
    if name == "phases":
        return isinstance(value, dict) and all(is_number(number) for number in value.values())
    return value is None or is_number(value)


def is_number(value: Any) -> bool:
    """A finite one, and no truth value."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def passed(cell: Cell, **values: Any) -> Result:
    return Result(cell.name, cell.text, Outcome.OK, **values)


def failed(cell: Cell, why: str, **values: Any) -> Result:
    return Result(cell.name, cell.text, Outcome.FAILED, why, **values)


def not_run(cell: Cell, why: str) -> Result:
    return Result(cell.name, cell.text, Outcome.NOT_RUN, why)
