"""The ports of one name on all nodes of a job are a rail: which of them are slower than the others. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LEAST_NODES: Final = 3  # whose rates say what is usual

Rates = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Below:
    """A port runs at less than its rail: ``text`` goes on after its name.

    ``whole``: so do all of the several ports of its node, which then is of another kind, and no other port is better.
    """

    text: str
    whole: bool


def below_peers(nodes: Mapping[str, Rates]) -> dict[str, dict[str, Below]]:
    """By node, which of its ports are slower than most of their rail; rates in Gbit/s of the ports that are in use."""
    rails: dict[str, Counter[float]] = {}
    for rates in nodes.values():
        for port, rate in rates.items():
            rails.setdefault(port, Counter())[rate] += 1
    usual = {port: found for port, counts in rails.items() if (found := _usual(counts)) is not None}
    slow: dict[str, dict[str, Below]] = {}
    for node, rates in nodes.items():
        low = {port: rate for port, rate in rates.items() if port in usual and rate < usual[port][0]}
        whole = len(low) == len(rates) > 1
        if low:
            slow[node] = {port: Below(_text(rate, *usual[port]), whole) for port, rate in low.items()}
    return slow


def _usual(counts: Counter[float]) -> tuple[float, int, int] | None:
    """The rate that more than half have, how many do, and of how many; None where too few are known, or at odds."""
    total = counts.total()
    rate, count = counts.most_common(1)[0]
    return (rate, count, total) if total >= LEAST_NODES and 2 * count > total else None


def _text(rate: float, usual: float, count: int, total: int) -> str:
    return f"runs at {rate:g} Gbit/s; on {count} of {total} nodes it runs at {usual:g}"
