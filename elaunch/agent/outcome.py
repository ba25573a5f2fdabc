"""How a job ended, as its agent reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RankFailure:
    """One rank that failed. ``exit_code`` is -n where signal n ended it; ``time`` is seconds since the epoch.

    ``error_file`` and ``traceback`` are empty where the rank left none.
    """

    host: str
    rank: int
    local_rank: int
    pid: int
    exit_code: int
    time: float
    error_file: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What ``elaunch`` exits with, and why: ``code`` for a machine, ``reason`` for a person.

    ``failed`` ranks have failed, of which ``failures`` are the first.
    """

    exit_code: int
    code: str
    reason: str
    outcome: Literal["succeeded", "failed", "stopped", "left"]
    failures: tuple[RankFailure, ...] = ()
    failed: int = 0
