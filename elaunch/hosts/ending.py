"""How a job on several hosts ended, from how its agents did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_CUT_OFF = (69, 137, 143)  # etcd lost, killed, stopped: what a node says that does not know how the job ends
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Ended:
    """A host's part is over: with the agent's exit code, or, where that is not known, because of ``lost``."""

    host: str
    code: int | None = None
    lost: str = ""


def exit_code(ends: Sequence[Ended]) -> int | None:
    """The job's, of ends in the order of time: an agent that stayed to the last was told. None where none was."""
    codes = [end.code for end in ends if end.code is not None and end.code not in _CUT_OFF]
    return codes[-1] if codes else None


def last_code(ends: Sequence[Ended]) -> int | None:
    """What the last agent ended with, whatever it knew; None where all hosts were lost."""
    codes = [end.code for end in ends if end.code is not None]
    return codes[-1] if codes else None


def too_few(lost: Sequence[Ended], wanted: int, least: int) -> str:
    """Why the job cannot begin, or go on, with ``lost`` of the ``wanted`` hosts; "" where it can."""
    if wanted - len(lost) >= least:
        return ""
    count = "all of them" if least == wanted else f"{least} of them"
    named = "; ".join(f"ssh to {end.host} failed: {end.lost}" for end in lost[:_SHOWN])
    more = f"; and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    if wanted == 1:
        return f"the only host is not there: {named}"
    are = "is" if len(lost) == 1 else "are"
    return (
        f"{len(lost)} of the {wanted} hosts {are} not there, and the job needs {count} (--min-nodes says with how few"
        f" it goes on): {named}{more}"
    )
