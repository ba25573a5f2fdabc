"""For how long a job may stand still, given what was learnt of its own steps and pauses.

Until a generation has got going (field: first iterations compile and warm up) it has ``START`` floors, 600 s by
default: torch's own collectives give up then as well (``torch.distributed`` with NCCL: 10 minutes). Afterwards a rank
is late when it takes longer than the job has ever been seen to, by a factor, and never under the floor.

The floor is 60 s. What is honest and cannot be foreseen lasts that long (a read that a file server repeats after its
time-out of 60 s, a garbage collection, a burst of ECC retries); what is gained under it is little beside the time of a
restart. (NVIDIA's resiliency extension learns likewise, five times the longest that it saw, but only where it is asked
to, and by sections that the program names.)
"""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.rendezvous.memory import Learnt

FLOOR = 60.0  # seconds
START = 10.0  # floors: before a generation has got going; also a section's share of the deadline around it
ORDINARY = 3.0  # times the pause that was seen twice
ONCE = 1.5  # times the longest pause, which may have been an accident
STEP = 25.0  # steps: an honest one may take 20 times as long, with a shape that is compiled anew
LONG_STEP = 5.0  # of steps so long that this would be more than a start's deadline


@dataclass(frozen=True, slots=True)
class Patience:
    """``--hang-timeout`` and ``--hang-floor``: ``timeout`` is fixed seconds, None to learn it, 0 for never."""

    timeout: float | None = None
    floor: float = FLOOR

    @classmethod
    def parse(cls, timeout: str, floor: float = FLOOR) -> Patience:
        """From ``auto``, ``off`` or seconds. Raises ValueError for anything else."""
        words: dict[str, float | None] = {"auto": None, "off": 0.0}
        seconds = words[timeout] if timeout in words else float(timeout)
        if not (0.0 < floor < float("inf")) or (timeout not in words and not 0.0 < (seconds or 0.0) < float("inf")):
            raise ValueError(f"a hang's timeout is auto, off or seconds above 0, not {timeout} (floor {floor})")
        return cls(seconds, floor)


def ordinary(known: Learnt, floor: float) -> float:
    """Seconds without progress in a generation that has got going."""
    of_steps = max(LONG_STEP * known.step, min(STEP * known.step, START * floor))
    return max(floor, of_steps, ORDINARY * known.second, ONCE * known.longest)


def starting(known: Learnt, floor: float) -> float:
    """Seconds without progress before that."""
    return max(START * floor, ordinary(known, floor), STEP * known.step, ORDINARY * known.first)


def in_section(longest: float, hang: float) -> float:
    """Seconds in a section without a timeout, which has taken ``longest``, where ``hang`` would hold outside."""
    return max(START * hang, ORDINARY * longest)
