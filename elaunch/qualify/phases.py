"""The faults that a laboratory brings about, and in which phase of a generation each of them hits. Values only."""

from __future__ import annotations

from collections.abc import Iterator

from elaunch.inject.fault import Fault
from elaunch.inject.kinds import KINDS

AT_ONCE = "at-once"
PHASES = {
    AT_ONCE: "while steps run",
    "rendezvous": "while a generation starts",
    "save": "while a checkpoint is saved",
    "restore": "while one is restored",
}
"""Where a rank is meanwhile: at that point of ``elaunch.inject`` it is held, so that the fault hits nothing else."""
ON_HOSTS = ("agent-freeze", AT_ONCE)
"""What several hosts can do by themselves: an agent that was frozen comes back, one that was killed does not."""
QUICK = ("agent-kill", "controller-kill", "etcd-kill", "partition", "link-down")
"""One of each target."""


def lab_faults(mode: str) -> Iterator[tuple[Fault, str]]:
    """Each with its phase. Whom it hits, and for how long, is known where it is brought about.

    Those of ports come last: they need a job of their own, whose hosts have ports that are not theirs; and they hit no
    rank at a point, but what the agents choose for the next generation.
    """
    kinds = [kind for kind in KINDS.values() if "lab" in kind.carriers and (mode == "full" or kind.name in QUICK)]
    for kind in sorted(kinds, key=lambda kind: kind.target == "port"):
        for phase in PHASES if mode == "full" and kind.target != "port" else (AT_ONCE,):
            yield _made(kind.name), phase


def _made(kind: str) -> Fault:
    if kind == "loss":
        return Fault(kind, share=0.2)  # of half of them little gets through, and it is neither going on nor hanging
    return Fault(kind, seconds=1.0) if kind == "link-flap" else Fault(kind)
