"""What proves that a rail is slow, broken or left out. Values only; each check raises AssertionError."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.inject.expecting import EXPECTED

RAILS = ("nic0", "nic1")
FAIR = 0.25  # of the traffic: less is no share of two equal rails
_ABOUT = 1.25  # of a limited rate: what was on its way counts too


@dataclass(frozen=True, slots=True)
class Carried:
    """What a rail has sent: its share of what all rails have, and bytes per second."""

    share: float
    rate: float


def check_slow(before: float, after: float, slow: Carried, most: float) -> None:
    """A round took ``before`` and ``after`` seconds, and the slow rail takes so many Mbit/s."""
    carried = slow.rate * 8 / 1e6
    assert carried <= _ABOUT * most, f"the slow rail carries {carried:.1f} Mbit/s, expected {most:g} at most"
    assert slow.share >= FAIR, f"the slow rail carries {slow.share:.0%} of the traffic"
    assert after > before, f"a round takes {after:.2f} s with a slow rail, and {before:.2f} s without"


def check_told(code: str, text: str) -> None:
    """The next generation began because of the rail, as of an interface that is down."""
    wanted = EXPECTED["interface-down"].codes
    assert code in wanted, f"told as {code}, expected {' or '.join(wanted)}: {text}"


def check_alone(paths: set[str], output: str, told: str) -> None:
    """All ranks have the first port alone, and their agents say why: in these words."""
    assert paths == {RAILS[0]}, f"the ranks have {', '.join(sorted(paths))}, expected {RAILS[0]} alone"
    assert told in output, f"nowhere is it told: {told}"
