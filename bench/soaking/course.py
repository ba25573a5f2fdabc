"""The faults of a soak: drawn from the seed, and brought about one after the other, in a thread."""

from __future__ import annotations

import concurrent.futures
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from elaunch.errors import ElaunchError
from elaunch.inject import KINDS, POINTS, Fault, Planned, schedule
from elaunch.lab import Injection, Lab, Watched
from elaunch.qualify.link_tree import NICS

from .broken import BrokenError

HOSTS = 3
ALL = tuple(KINDS)
_LONE = ("etcd", "controller")
"""Of these one at a time: two of three members, or both controllers, are no fault that a job is to bear."""
_LONGEST_UNDOING = 90.0  # seconds
_GOOD = 5.0  # seconds after which somebody starts a controller again
FAILURES = (ElaunchError, OSError, subprocess.SubprocessError, TimeoutError, concurrent.futures.TimeoutError)


def drawn(seed: int, seconds: float, every: float, kinds: Sequence[str] = ALL) -> tuple[Planned, ...]:
    """The course of a seed: the same on any machine. Raises ValueError where it cannot be."""
    if strange := [kind for kind in kinds if kind not in ALL]:
        raise ValueError(f"no fault {strange[0]!r} of a soak: expected one of {', '.join(ALL)}")
    found = schedule(seed, seconds, every=every, world=HOSTS, hosts=HOSTS, kinds=kinds, points=tuple(POINTS))
    return tuple(_of_port(planned, number) for number, planned in enumerate(found))


def _of_port(planned: Planned, number: int) -> Planned:
    """The schedule knows no names of ports: those of our trees take turns."""
    if planned.fault.what.target != "port":
        return planned
    return replace(planned, fault=replace(planned.fault, port=f"{NICS[number % len(NICS)]}:1"))


def told(planned: Planned) -> str:
    """One line, as ``--list`` prints it."""
    return f"{planned.at:8.3f} s  {_which(planned):18} {planned.fault}"


def _which(planned: Planned) -> str:
    target = planned.fault.what.target
    if target == "rank":
        return f"rank {planned.fault.rank}"
    if target == "etcd":
        return f"etcd e{planned.host}"
    if target == "port":
        return f"host {planned.host}, {planned.fault.port}"
    if target == "controller":
        return f"controller k{(planned.host - 1) % 2 + 1}"
    return f"host {planned.host}"


@dataclass
class Happened:
    """A fault of the course. ``at`` and ``over`` are seconds of CLOCK_MONOTONIC; ``refused`` is why it was none."""

    planned: Planned
    at: float
    over: float | None = None
    refused: str = ""
    injection: Injection | None = None

    @property
    def kind(self) -> str:
        return self.planned.fault.kind


@dataclass
class Course:
    """Each of ``planned`` at its time after ``start``. ``about`` hears of a fault before it is brought about."""

    lab: Lab
    job: Watched
    planned: tuple[Planned, ...]
    about: Callable[[Fault, int], None]
    happened: list[Happened] = field(default_factory=list)
    began: float = 0.0
    _thread: threading.Thread | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self.began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="soak-course", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_LONGEST_UNDOING)

    @property
    def done(self) -> bool:
        """Whether all have begun, and are over."""
        return (
            self._thread is not None
            and not self._thread.is_alive()
            and all(self._is_over(one) for one in self.happened)
        )

    def check(self) -> None:
        """Raises BrokenError where a fault is not undone, RuntimeError where not all of them were brought about."""
        for one in self.happened:
            if one.injection is not None and one.injection.error is not None:
                raise BrokenError("progress", f"{told(one.planned)} is not undone: {one.injection.error}")
        over = self._thread is not None and not self._thread.is_alive() and not self._stop.is_set()
        if over and len(self.happened) < len(self.planned):
            raise RuntimeError(f"the course broke off after {len(self.happened)} of {len(self.planned)} faults")

    def quiet_since(self, now: float) -> float:
        """When the last fault was over; now, while one lasts."""
        if not all(self._is_over(one) for one in self.happened):
            return now
        return max((one.over for one in self.happened if one.over is not None), default=0.0)

    def _is_over(self, one: Happened) -> bool:
        if one.over is not None:
            return True
        if one.injection is None:
            if time.monotonic() < one.at + one.planned.fault.seconds:
                return False
            one.over = one.at + one.planned.fault.seconds
            return True
        if not one.injection.over:
            return False
        one.over = time.monotonic()
        return True

    def _run(self) -> None:
        for planned in self.planned:
            if self._stop.wait(max(0.0, self.began + planned.at - time.monotonic())):
                return
            if planned.fault.what.target in _LONE and not self._alone(planned.fault.what.target):
                return
            self._bring(planned)

    def _alone(self, target: str) -> bool:
        """Wait until no other of its kind is there; False where all is to end."""
        deadline = time.monotonic() + _LONGEST_UNDOING
        before = [one for one in self.happened if one.planned.fault.what.target == target]
        while not all(self._is_over(one) for one in before):
            if self._stop.wait(0.1):
                return False
            if time.monotonic() > deadline:
                raise RuntimeError(f"another fault of {target} is not over after {_LONGEST_UNDOING:.0f} s")
        return True

    def _end_later(self, one: Happened) -> None:
        """What lasts for good by itself, the death of a controller: somebody starts it again."""

        def end() -> None:
            with suppress(*FAILURES):  # as ``check`` tells
                if one.injection is not None:
                    one.injection.end()

        timer = threading.Timer(_GOOD, end)
        timer.daemon = True
        timer.start()

    def _bring(self, planned: Planned) -> None:
        one = Happened(planned, time.monotonic())
        self.about(planned.fault, planned.host)
        try:
            made = self.lab.bring_about(planned, self.job)
            if isinstance(made, Injection):
                one.injection = made
                if not planned.fault.seconds and planned.fault.kind != "reset":
                    self._end_later(one)
        except FAILURES as error:
            one.refused, one.over = str(error).splitlines()[0] if str(error) else type(error).__name__, time.monotonic()
        self.happened.append(one)
        what = f"refused: {one.refused}" if one.refused else ""
        print(f"{time.monotonic() - self.began:8.1f} s  {told(planned)[12:]}  {what}".rstrip(), flush=True)
