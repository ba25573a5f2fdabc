"""A rank's word with the controller about checkpoints: commits are asked for, the rest is told. Without torch.

Outside of elaunch, and in any other process than the rank itself, every function is a cheap no-op: :func:`identity` is
None, :func:`commit` answers at once that nothing is known. The data on disk comes first: a commit that was not answered
is a checkpoint like any other, it is only not known to the operator yet.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from elaunch.reports import MISSING, MOST_TEXT, RESTORED, RESTORING, Commit, Line
from elaunch.worker.claim import claim

__all__ = ["Commit", "Identity", "RestorePoint", "Ruling", "Verdict", "commit", "identity", "missing"]
__all__ += ["restore_point", "restored", "restoring", "tell"]

FROM_STEP = "ELAUNCH_FROM_STEP"
AVOID_STEPS = "ELAUNCH_AVOID_STEPS"
RECORDED_STEP = "ELAUNCH_RECORDED_STEP"
REWINDS = "ELAUNCH_REWINDS"

_PAUSE = 0.01  # seconds between two looks for the answer: it lies in shared memory, where nothing can be waited for
_LONGEST_PAUSE = 0.05


class Ruling(Enum):
    """What became of a commit."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The controller's answer. ``reason`` is a sentence, empty for a commit that was accepted."""

    ruling: Ruling
    reason: str = ""

    @property
    def accepted(self) -> bool:
        return self.ruling is Ruling.ACCEPTED

    @property
    def refused(self) -> bool:
        """This rank's generation may commit nothing any more, or not this."""
        return self.ruling is Ruling.REFUSED


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this process is under elaunch.

    ``incarnation`` tells the job from an earlier one of the same name, whose generations were numbered from 1 as well.
    """

    job: str
    generation: int
    restart_count: int
    rank: int
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """Which checkpoint this generation is to restore.

    ``step`` is the one that an operator asked for, -1 for the newest good one that is not to be passed over;
    ``recorded`` is the last step that the controller knows as committed and that counts, -1 for none. ``avoid`` are
    suspect steps; each of ``rewinds`` (generation, step) abandons the checkpoints of earlier generations above a step.
    """

    step: int = -1
    avoid: tuple[int, ...] = ()
    recorded: int = -1
    rewinds: tuple[tuple[int, int], ...] = ()


_lock = threading.Lock()


def commit(record: Commit, timeout: float) -> Verdict:
    """Have a checkpoint recorded that is whole and in its place; wait ``timeout`` seconds at most for the answer.

    May be called from any thread; commits of one rank wait for each other.
    """
    page = claim()
    if page is None:
        return Verdict(Ruling.UNKNOWN, "this process is no rank of elaunch")
    deadline = time.monotonic() + timeout
    if not _lock.acquire(timeout=max(0.0, timeout)):
        return Verdict(Ruling.UNKNOWN, "another commit of this rank waits for its answer")
    try:
        number, pause = page.reports.ask(record), _PAUSE
        while (answer := page.reports.answer_to(number)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return Verdict(Ruling.UNKNOWN, f"the controller has not answered within {timeout:.0f} s")
            time.sleep(min(left, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
    finally:
        _lock.release()
    accepted, reason = answer
    return Verdict(Ruling.ACCEPTED if accepted else Ruling.REFUSED, reason)


def restoring(step: int, path: str) -> None:
    """Say that the checkpoint of ``step`` is about to be read: should that end the rank, it is known what did."""
    _tell(RESTORING, path, step)


def restored(step: int, path: str) -> None:
    """Say from which step the program goes on; -1: from scratch."""
    _tell(RESTORED, path, step)


def missing(step: int, sentence: str) -> None:
    """Say that the step which the plan asks for cannot be restored, before raising: the next plan asks for none."""
    _tell(MISSING, sentence, step)


def tell(kind: str, sentence: str) -> None:
    """An event for the job's history. ``kind`` is ``checkpoint_...``, of a sentence the first 400 bytes are kept.

    Raises ValueError for another kind. Of very many events some are dropped.
    """
    _tell(kind, sentence, -1)


def restore_point(environ: Mapping[str, str] = os.environ) -> RestorePoint:
    """What the plan of this generation says; of the newest there is, where there is no plan."""
    avoid = (_number(part) for part in environ.get(AVOID_STEPS, "").split(","))
    return RestorePoint(
        _number(environ.get(FROM_STEP, "")),
        tuple(step for step in avoid if step >= 0),
        _number(environ.get(RECORDED_STEP, "")),
        tuple(pair for part in environ.get(REWINDS, "").split(",") if min(pair := _pair(part)) >= 0),
    )


def identity(environ: Mapping[str, str] = os.environ) -> Identity | None:
    """Who this process is; None outside of elaunch."""
    job, generation, rank = environ.get("ELAUNCH_JOB"), environ.get("ELAUNCH_GENERATION", ""), environ.get("RANK", "")
    if not job or _number(generation) < 0 or _number(rank) < 0:
        return None
    restarts = max(0, _number(environ.get("TORCHELASTIC_RESTART_COUNT", "")))
    return Identity(job, int(generation), restarts, int(rank), environ.get("ELAUNCH_INCARNATION", ""))


def _tell(kind: str, text: str, step: int) -> None:
    line = Line(0, 0, 0, kind, text[:MOST_TEXT], step)
    page = claim()
    if page is not None:
        with _lock_of_lines:
            page.reports.tell(line.kind, line.step, line.text)


_lock_of_lines = threading.Lock()


def _pair(text: str) -> tuple[int, int]:
    first, _, second = text.partition(":")
    return _number(first), _number(second)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1


def _forget() -> None:
    """In a forked child: the locks may be held by threads that it does not have."""
    global _lock, _lock_of_lines
    _lock, _lock_of_lines = threading.Lock(), threading.Lock()


os.register_at_fork(after_in_child=_forget)
