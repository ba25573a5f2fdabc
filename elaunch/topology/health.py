"""What is wrong with the ports of a node: samples and their times in, reports out. No clock and no file in here."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final

from elaunch.links import CONGESTED, DOWN, ERRORS, FLAPPING, SLOW, PortReport, PortTrouble
from elaunch.topology import limits
from elaunch.topology.counters import RECEIVED, SENT, WORD, PortSample
from elaunch.topology.limits import WINDOW, Limit
from elaunch.topology.machine import PortState

WRAP: Final = 1 << 32
_BYTES: Final = {SENT: WRAP * WORD, RECEIVED: WRAP * WORD}
_STILL: Final = frozenset(limit.counter for limit in (*limits.ERRORS, *limits.CONGESTION))


def delta(before: int, now: int, wrap: int = 0) -> int:
    """What a counter rose by. One that is lower than before was reset, and began at 0.

    With ``wrap``, where it begins anew by itself, that is taken for the reason if it was near to it. Counters of errors
    stop at their highest value instead (InfiniBand Architecture Specification, 16.1.3.5).
    """
    if now >= before:
        return now - before
    around = wrap - before + now
    return around if 0 < around < wrap // 4 and before < wrap else now


class Health:
    """The ports of one node. ``observe`` is to be called about once a second, with times of one monotonic clock."""

    def __init__(self) -> None:
        self._ports: dict[str, _Port] = {}

    def observe(
        self, now: float, samples: Iterable[PortSample], users: Mapping[str, tuple[int, ...]]
    ) -> tuple[PortReport, ...]:
        """A report on each of ``samples``. ``users`` are the local ranks by port; one that is not in it has none."""
        samples = tuple(samples)
        ports = {s.port: self._ports.get(s.port) or _Port() for s in samples}
        for s in samples:
            ports[s.port].take(now, s)
        self._ports |= ports
        usual = _usual([ports[s.port].rate for s in samples])
        return tuple(ports[s.port].report(now, s, users.get(s.port, ()), usual) for s in samples)


def _usual(rates: Iterable[float | None]) -> tuple[float, int, int] | None:
    """The rate that most ports have, of how many, of all; None where no majority of three or more agrees."""
    known = [rate for rate in rates if rate is not None]
    if len(known) < 3:
        return None
    rate, count = Counter(known).most_common(1)[0]
    return (rate, count, len(known)) if 2 * count > len(known) else None


class _Port:
    """One port, as far as it was seen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int]] = {}
        self._rises: dict[str, deque[tuple[float, int]]] = {}
        self._drops: deque[tuple[float, int]] = deque()
        self._since: float | None = None  # when it went down
        self._state = PortState.UNKNOWN
        self._present = False
        self._best = 0.0
        self._over: set[str] = set()
        self._untold = 0
        self._slowness = -math.inf, ""
        self._rose: dict[str, int] = {}
        self._flow: dict[str, float] = {}
        self.rate: float | None = None

    @property
    def _down(self) -> bool:
        return self._state in (PortState.DOWN, PortState.INIT)

    def take(self, now: float, s: PortSample) -> None:
        """The next sample."""
        self._rose, self._flow = {}, {}
        for name, value in s.counters.items():
            self._count(now, name, value)
        state = s.state if s.present else PortState.DOWN if self._present else PortState.UNKNOWN
        was, self._present = self._state, self._present or s.present
        if state is not PortState.UNKNOWN:  # else its file could not be read just now
            self._state = state
        drops = self._dropped(was)
        if drops:
            self._drops.append((now, drops))
        while self._drops and now - self._drops[0][0] >= limits.FLAP_WINDOW:
            self._drops.popleft()
        if not self._down:
            self._since = None
        elif self._since is None:
            self._since = now
        before, self.rate = self.rate, None if self._down else s.rate  # what a port that is down says is a fancy
        self._best = max(self._best, min(before or 0.0, self.rate or 0.0))  # and so may be what it said only once

    def _count(self, now: float, name: str, value: int) -> None:
        at, before = self._seen.get(name, (now, value))
        if now - at > WINDOW:  # nobody was looking: it may have been anybody's
            at, before = now, value
        self._seen[name] = now, value
        rise = delta(before, value, _BYTES.get(name, 0))
        if name in _BYTES and now > at:
            self._flow[name] = rise / (now - at)
        if rise:
            self._rises.setdefault(name, deque()).append((now, rise))
            self._rose[name] = rise

    def _dropped(self, was: PortState) -> int:
        """How often the link went down since the last sample, whether or not it was seen to be down."""
        fell = was is PortState.ACTIVE and self._down
        downs = self._rose.get("carrier_down_count")
        if downs is None:
            downs = (self._rose.get("carrier_changes", 0) + fell) // 2
        told = self._rose.get("link_downed", 0)
        drops = max(downs, told - self._untold, int(fell))
        if told or fell:
            self._untold = int(fell and not told)  # this counter may come a moment after the state
        return drops

    def report(
        self, now: float, s: PortSample, users: tuple[int, ...], usual: tuple[float, int, int] | None
    ) -> PortReport:
        """What is to be said of it as of the last sample."""
        found = (self._link(now, s), self._errors(now), self._slow(now, usual), self._congestion(now))
        return PortReport(
            s.port,
            users,
            self._state,
            s.phys_state,
            self.rate,
            self._flow.get(SENT),
            self._flow.get(RECEIVED),
            {name: rise for name, rise in self._rose.items() if name in _STILL},
            tuple(trouble for trouble in found if trouble is not None),
        )

    def _link(self, now: float, s: PortSample) -> PortTrouble | None:
        drops = sum(count for _, count in self._drops)
        ago = now - self._drops[-1][0] if drops else 0.0
        if drops >= limits.DROPS:
            at_present = " and is down now" if self._down else ""
            text = f"has gone down {drops} times in {limits.FLAP_WINDOW / 60:.0f} min, last {ago:.0f} s ago{at_present}"
            return PortTrouble(FLAPPING, text)
        if not s.present and self._present:
            return PortTrouble(DOWN, "has gone from this host: sysfs has no such port any more")
        if self._state is PortState.INIT:
            return PortTrouble(DOWN, "is not configured by a subnet manager (state INIT)")
        if self._down:
            return PortTrouble(DOWN, f"is down{f' ({s.phys_state})' if s.phys_state else ''}")
        if drops and ago < limits.SETTLE:
            return PortTrouble(DOWN, f"went down {f'{ago:.0f} s ago' if ago >= 1 else 'just now'}, and is up again")
        return None

    def _errors(self, now: float) -> PortTrouble | None:
        found = self._beyond(now, limits.ERRORS)
        return PortTrouble(ERRORS, f"has errors: {', '.join(found)}") if found else None

    def _congestion(self, now: float) -> PortTrouble | None:
        found = self._beyond(now, limits.CONGESTION)
        share = self._stalled(now)
        if share >= limits.STALLED / (2 if limits.STALL in self._over else 1):
            self._over.add(limits.STALL)
            found.append(f"could not send for {share:.0%} of the time in which it had something to send")
        else:
            self._over.discard(limits.STALL)
        return PortTrouble(CONGESTED, f"is congested: {', '.join(found)}") if found else None

    def _beyond(self, now: float, table: Iterable[Limit]) -> list[str]:
        """What is beyond its limit, and stays so until it is below half of it."""
        found = []
        for limit in table:
            rise = self._sum(now, limit.counter)
            if rise >= limit.least or (limit.counter in self._over and rise >= limit.least / 2):
                self._over.add(limit.counter)
                found.append(f"{rise} {limit.what} in {WINDOW:.0f} s ({limit.counter})")
            else:
                self._over.discard(limit.counter)
        return found

    def _stalled(self, now: float) -> float:
        """The share of the time in which there was something to send that it was held up.

        A tick of the counter is taken for the time that a word of 4 bytes takes, as it is with the adapters in use.
        """
        sent = self._sum(now, SENT)
        ticks = self._sum(now, limits.STALL)
        return ticks / (ticks + sent / WORD) if sent >= limits.STALLED_BYTES else 0.0

    def _sum(self, now: float, name: str) -> int:
        rises = self._rises.get(name)
        if rises is None:
            return 0
        while rises and now - rises[0][0] >= WINDOW:
            rises.popleft()
        return sum(rise for _, rise in rises)

    def _slow(self, now: float, usual: tuple[float, int, int] | None) -> PortTrouble | None:
        if self.rate is not None and (text := self._behind(self.rate, usual)):
            self._slowness = now, text
        at, text = self._slowness
        return PortTrouble(SLOW, text) if now - at < limits.SETTLE else None

    def _behind(self, rate: float, usual: tuple[float, int, int] | None) -> str:
        if rate < self._best:
            return f"runs at {rate:g} Gbit/s, and ran at {self._best:g} before"
        if usual is not None and rate < usual[0]:
            peers = f"{usual[1]} of the {usual[2]} watched on this node run at {usual[0]:g}"
            return f"runs at {rate:g} Gbit/s; {peers}"
        return ""
