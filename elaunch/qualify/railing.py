"""The cells about rails: in the laboratory, where a rail can be slow or broken without harm to anybody."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from signal import SIGUSR1
from typing import Any

from elaunch.errors import ElaunchError
from elaunch.inject.fault import Fault
from elaunch.lab import Lab, Watched
from elaunch.qualify.cells import Cell, Result, failed, passed
from elaunch.qualify.faulting import OPTIONS
from elaunch.qualify.lines import Line, found, of
from elaunch.qualify.link_tree import ROOT
from elaunch.qualify.rail_judging import FAIR, RAILS, Carried, check_alone, check_slow, check_told

PROGRAM = ("-m", "elaunch.qualify.programs.railed")
_STARTS = 120.0  # seconds for a generation to come to a round, on a machine that is busy
_ROUNDS = 10
_CUT = 20.0  # seconds for which a rail fails
_SLOW = 40.0  # Mbit/s
_DOWN, _UNPLUGGED = f"{RAILS[1]} is down", f"{RAILS[1]} is left out: no two of"
"""As agents tell of a port that is not taken."""


def run(
    lab: Lab,
    cells: Sequence[Cell],
    spoil: str,
    tell: Callable[[str], None],
    carried: Callable[[dict[str, Any]], None],
) -> Iterator[Result]:
    """Their results. ``carried`` hears what went over each rail, as rows of the report's ports."""
    course = _Course(lab, carried)
    try:
        for name, how in _HOW.items():
            for cell in [cell for cell in cells if cell.name == name]:
                tell(cell.name)
                yield _tried(course, cell, how, spoil == cell.name)
    finally:
        course.end()


def _tried(course: _Course, cell: Cell, how: Callable[[_Course, bool], str], spoiled: bool) -> Result:
    begin = time.monotonic()
    try:
        said = how(course, spoiled)
    except (AssertionError, ElaunchError, TimeoutError, OSError, subprocess.SubprocessError) as error:
        return failed(cell, " ".join(str(error).split())[:300], seconds=round(time.monotonic() - begin, 2))
    return passed(cell, reason=said, seconds=round(time.monotonic() - begin, 2))


class _Course:
    """A job on both hosts at a time."""

    def __init__(self, lab: Lab, carried: Callable[[dict[str, Any]], None]) -> None:
        self.lab, self._carried = lab, carried
        self.job: Watched | None = None
        self._agents = 0
        self._number = 0

    def start(self, chosen: bool = False) -> Watched:
        """The job with both rails, if it does not run yet; with ``chosen`` elaunch binds its ranks to them.

        Without, Gloo is told to take both in turn: elaunch gives it one, as it cannot do without any of several.
        """
        if self.job is not None:
            return self.job
        self._number += 1
        self._agents = len(self.lab.agents)
        name = f"rails-{self._number}"
        policy = ("--nic-policy=0=nic0,nic1",) if chosen else ()
        both = {} if chosen else {"GLOO_SOCKET_IFNAME": ",".join(RAILS)}
        words = ("--nnodes=2", *policy, *OPTIONS, *PROGRAM)
        for host in (1, 2):
            self.lab.agent(host, name, *words, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", **both, **{ROOT: ""})
        self.job = self.lab.watched(name)
        self.rounds(2, _STARTS)
        return self.job

    def end(self) -> None:
        """Have it end by itself, or at once where it does not."""
        if self.job is None:
            return
        try:
            self.job.command("signal", signal=int(SIGUSR1))
            for agent in self.lab.agents[self._agents :]:
                agent.wait(30.0)
        except (ElaunchError, OSError, TimeoutError, subprocess.TimeoutExpired):
            pass  # it is killed then
        finally:
            for agent in self.lab.agents[self._agents :]:
                if agent.process.poll() is None:
                    agent.process.kill()
                    agent.process.wait(20.0)
            self.job.close()
            self.job = None

    def output(self) -> str:
        """What this job's agents have printed."""
        return "\n".join(agent.output() for agent in self.lab.agents[self._agents :])

    def lines(self) -> list[Line]:
        return list(found(self.output()))

    def rounds(self, more: int, seconds: float) -> list[float]:
        """The seconds of the next so many rounds of rank 0. Raises TimeoutError."""
        begin = len(of(self.lines(), "round", rank=0))
        deadline = time.monotonic() + seconds
        while len(told := of(self.lines(), "round", rank=0)) < begin + more:
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds:.0f} s for {more} rounds of all-reduces")
            time.sleep(0.05)
        return [float(one["seconds"]) for one in told[begin:]]

    def shares(self, rounds: int, what: str) -> list[Carried]:
        """What went over each rail of the first host meanwhile; ``what`` the report calls it."""
        before, begin = self._traffic(), time.monotonic()
        self.rounds(rounds, _STARTS)
        moved = [tuple(map(int.__sub__, now, then)) for now, then in zip(self._traffic(), before, strict=True)]
        total, seconds = max(1, sum(sent for sent, _, _ in moved)), time.monotonic() - begin
        for name, (sent, received, errors) in zip(RAILS, moved, strict=True):
            rate = {"bytes_per_second": round(sent / seconds), "mbit": None, "utilisation": None}
            self._carried({"host": what, "port": name, "sent": sent, "received": received, "errors": errors, **rate})
        return [Carried(sent / total, sent / seconds) for sent, _, _ in moved]

    def _traffic(self) -> list[tuple[int, int, int]]:
        return [self.lab.net.traffic(1, name) for name in RAILS]

    def paths(self) -> set[str]:
        """The interfaces of the ranks of the newest generation."""
        told = of(self.lines(), "rail")
        newest = max((one["generation"] for one in told), default=0)
        return {str(one["path"].get("GLOO_SOCKET_IFNAME")) for one in told if one["generation"] == newest}


def _symmetric(course: _Course, spoiled: bool) -> str:
    course.start()
    one, other = course.shares(_ROUNDS, "two rails,")
    least = 0.6 if spoiled else FAIR
    assert min(one.share, other.share) >= least, f"the rails carry {one.share:.0%} and {other.share:.0%}"
    return f"{one.share:.0%} and {other.share:.0%} of {(one.rate + other.rate) / 1e6:.0f} MB/s"


def _slow(course: _Course, spoiled: bool) -> str:
    job = course.start()
    before = sorted(course.rounds(_ROUNDS, _STARTS))[_ROUNDS // 2]
    generation = job.running().state
    with course.lab.fault(Fault("rate", mbit=_SLOW, seconds=60.0), 1, 1, job=job):
        after = sorted(course.rounds(4, _STARTS))[2]
        slow = course.shares(3, "a slow rail,")[1]
    now = job.running().state
    assert generation is not None
    assert now is not None
    assert now.generation == generation.generation, "the ranks were started again"
    check_slow(before, after, slow, _SLOW / 100 if spoiled else _SLOW)
    return f"a round takes {after:.2f} s with rail 1 at {_SLOW:g} Mbit/s, and {before:.2f} s without"


def _broken(course: _Course, spoiled: bool) -> str:
    job = course.start()
    state = job.running().state
    assert state is not None
    with course.lab.fault(Fault("partition", seconds=_CUT), 2, 1, job=job):
        begin = time.monotonic()
        job.until("the next generation", lambda w: _after(w, state.generation), 5.0 if spoiled else 60.0)
        told = time.monotonic() - begin
        plan = job.look().plan
    course.rounds(2, _STARTS)
    back, paths = time.monotonic() - begin, ", ".join(sorted(course.paths()))
    assert plan is not None
    check_told(plan.reason.code, plan.reason.text)
    return f"told after {told:.1f} s, at work after {back:.1f} s over {paths}: {plan.reason.text}"


def _missing(course: _Course, spoiled: bool) -> str:
    """The cable of host 2's second port leads nowhere, though the port is up."""
    course.end()
    course.lab.net.unplug(2, 1)
    try:
        course.start(chosen=True)
        first = course.shares(3, "one unplugged,")[0]
        paths, output = course.paths(), course.output()
    finally:
        course.end()
        course.lab.net.plug(2, 1)
    check_alone(paths, output, _DOWN if spoiled else _UNPLUGGED)
    return f"both ranks have nic0 alone, which carries {first.share:.0%}"


def _asymmetric(course: _Course, spoiled: bool) -> str:
    """Host 2's second port is down."""
    course.end()
    fault = course.lab.fault(Fault("interface-down"), 2, 1)
    try:
        course.start(chosen=True)
        first = course.shares(3, "one down,")[0]
        paths, output = course.paths(), course.output()
    finally:
        course.end()
        fault.end()
    check_alone(paths, output, _UNPLUGGED if spoiled else _DOWN)
    return f"both ranks have nic0 alone, which carries {first.share:.0%}"


def _after(job: Watched, generation: int) -> bool:
    state = job.look().state
    return state is not None and state.generation > generation


_HOW: dict[str, Callable[[_Course, bool], str]] = {
    "rails/symmetric": _symmetric,
    "rails/slow-rail": _slow,
    "rails/failed-rail": _broken,
    "rails/missing-port": _missing,
    "rails/asymmetric": _asymmetric,
}
