"""An invariant that does not hold."""

from __future__ import annotations

INVARIANTS = {
    "two-generations": "no rank of an older generation is alive once a newer one has begun its first step",
    "stale-commit": "each checkpoint is of the generation alive then, and none goes back but after a restore",
    "loss-curve": "each step's loss is that of an undisturbed run",
    "samples": "each sample of an epoch is seen exactly once, in the steps that count",
    "leak": "no process, descriptor, port, namespace, memory or file is left behind",
    "progress": "training goes on once a fault is over, with all hosts, and agents end only when they are to",
}


class BrokenError(Exception):
    """``invariant`` is one of ``INVARIANTS``."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant, self.text = invariant, text
