"""What ranks tell of their checkpoints, on its way from the rank's page over the agent to the leader, and the answers.

What cannot be is refused where such a value is made, with ValueError: in the agent what a program wrote into its page,
in the leader what came over the wire.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

MOST_PATH = 3000  # bytes of UTF-8
MOST_TEXT = 400  # bytes of UTF-8, of a sentence
MOST_LINES = 64  # of one node that its leader has not noted yet
HIGHEST_STEP = 1 << 62

RESTORING = "checkpoint_restoring"
RESTORED = "checkpoint_restored"
MISSING = "checkpoint_missing"
"""The step that the plan asks for is not there, or cannot be used."""
PENDING = "shutdown_pending"
"""Collectives were under way when a rank destroyed its process groups."""

INJECTION = "injection_"
"""With this begin the kinds of lines that tell of faults on purpose; those of no rank have rank -1."""

_DIGEST = re.compile(r"[0-9a-f]{1,128}")
_KIND = re.compile(r"(checkpoint|shutdown|injection)_[a-z_]{1,50}")


@dataclass(frozen=True, slots=True)
class Commit:
    """A checkpoint that is whole and in its place: ``path`` of its folder or URL, ``digest`` of its manifest in hex.

    ``bytes`` is its size, ``seconds`` what it took from the call of ``save`` on, ``blocked`` for how many of these the
    program had to wait (0: not told).
    """

    step: int
    path: str
    digest: str
    bytes: int = 0
    seconds: float = 0.0
    blocked: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.step < HIGHEST_STEP and 0 <= self.bytes < HIGHEST_STEP):
            raise ValueError(f"a checkpoint cannot be of step {self.step} and {self.bytes} bytes")
        for seconds in (self.seconds, self.blocked):
            if not (math.isfinite(seconds) and seconds >= 0):
                raise ValueError(f"a checkpoint cannot have taken {seconds} s")
        if not self.path or len(self.path.encode(errors="replace")) > MOST_PATH:
            raise ValueError(f"the path of a checkpoint has 1 to {MOST_PATH} bytes")
        if not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"{self.digest[:40]!r} is no digest: expected 1 to 128 hexadecimal digits")


@dataclass(frozen=True, slots=True)
class Ask:
    """A rank asks that its commit be recorded, under a number of its own: the answer repeats it."""

    generation: int
    rank: int
    number: int
    commit: Commit


@dataclass(frozen=True, slots=True)
class Reply:
    """The leader's answer to an ``Ask``; ``text`` says why it is refused."""

    generation: int
    rank: int
    number: int
    accepted: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class Receipts:
    """What the leader answers a node: to commits, and up to which number it has noted the node's lines."""

    heard: int
    replies: tuple[Reply, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """Something that a rank told, and does not wait for. ``step`` is -1 where it is of none.

    ``number`` is its agent's: a leader notes each line of a node once.
    """

    number: int
    generation: int
    rank: int
    kind: str
    text: str
    step: int = -1

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise ValueError(
                f"{self.kind[:40]!r} is no kind of event: expected checkpoint_..., shutdown_... or injection_..."
            )
        if not -1 <= self.step < HIGHEST_STEP:
            raise ValueError(f"{self.step} is no step")
