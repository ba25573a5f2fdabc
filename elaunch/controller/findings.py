"""A port in trouble, as a record and as a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from elaunch.links import BROKEN, CONGESTED, DOWN, ERRORS, FLAPPING, SLOW

_OVER = {
    DOWN: "is up again",
    FLAPPING: "does not flap any more",
    ERRORS: "has no more errors",
    SLOW: "is as fast as before or as its peers again",
    CONGESTED: "is not congested any more",
}
_TOLD = 16  # of one kind at once that have a line each
_NAMED = 4  # spans of ranks that a sentence names at most


@dataclass(frozen=True, slots=True)
class Finding:
    """A port of a node in trouble since ``since`` (monotonic seconds), or with ``over`` no longer so.

    ``ranks`` are those that use it, of the whole job. ``trouble`` goes on after the port's name, ``text`` is a
    sentence. ``broken``: another port would not suffer from it.
    """

    code: str
    host: str
    node_id: str
    port: str
    ranks: tuple[int, ...]
    trouble: str
    since: float
    broken: bool = False
    over: bool = False

    @property
    def text(self) -> str:
        return f"port {self.port} of {self.host} ({users(self.ranks)}) {self.trouble}"

    @property
    def event(self) -> str:
        """The code of the event that tells of it."""
        return self.code if not self.over else "port_up" if self.code == DOWN else f"{self.code}_over"

    @property
    def weight(self) -> tuple[int, float]:
        """What the worst is sorted first by."""
        return (BROKEN.index(self.code) if self.code in BROKEN else len(BROKEN)), self.since


def lines(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Events with their sentences: where a switch takes a thousand ports along, a few and how many more there are."""
    found: list[tuple[str, str]] = []
    for event, alike in groupby(sorted(findings, key=lambda finding: finding.event), lambda finding: finding.event):
        texts = [finding.text for finding in alike]
        found += [(event, text) for text in texts[:_TOLD]]
        if len(texts) > _TOLD:
            found.append((event, f"so it is with {len(texts) - _TOLD} more ports"))
    return found


def recovered(code: str, seconds: float) -> str:
    """The trouble ``code`` is over, after so many seconds."""
    return f"{_OVER.get(code, f'is well again ({code})')}, after {seconds:.0f} s"


def users(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0-3, 8``, ``no rank uses it``."""
    ranks = sorted(set(ranks))
    if not ranks:
        return "no rank uses it"
    runs = [[rank for _, rank in run] for _, run in groupby(enumerate(ranks), lambda pair: pair[1] - pair[0])]
    spans = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    more = f" and {len(spans) - _NAMED} more spans" if len(spans) > _NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(spans[:_NAMED])}{more}"
