"""Faults of agents, controllers, etcd members, networks and ports, in a laboratory: what came of each is judged."""

from __future__ import annotations

import itertools
import math
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from elaunch.errors import ElaunchError
from elaunch.inject.expecting import EXPECTED, Expected, expected
from elaunch.inject.fault import Fault
from elaunch.lab import Injection, Lab
from elaunch.lab.network import CONTROL
from elaunch.qualify import link_tree, progress
from elaunch.qualify.cells import Cell, Outcome, Result, failed, not_run
from elaunch.qualify.courses import BEGAN, ENDED, course
from elaunch.qualify.judging import SLACK, Course, judge
from elaunch.qualify.lab_job import HOSTS, LEASE, SETTINGS, STARTS, LabJob
from elaunch.qualify.matrix import ONCE
from elaunch.qualify.phases import AT_ONCE
from elaunch.rendezvous.embedded import find_etcd
from elaunch.rendezvous.journal import Happening

_HELD = 2.0  # seconds for which a rank is held at a point
_GOES_ON = 5  # steps under a fault: fewer may be those that were on their way,
_SLOWLY = 2  # and under one of a network, where each may take seconds
_BORNE = LEASE + 2.0  # seconds of a fault that does not stop the job
_GROWTHS = 4  # of one job: each node that comes back soon after another is kept waiting for twice as long
_WHOLE = 90.0  # seconds after a fault's end
_LASTS = 1.0  # seconds that a fault lasts beyond the bound, where nobody ends it earlier
_OF_ONE = ("agent-kill", "agent-freeze", "partition", "one-way")  # of a network both ends may be told else
_FAULTY = (ElaunchError, OSError, TimeoutError, subprocess.SubprocessError)


def run(
    lab: Lab, cells: Sequence[Cell], environ: Mapping[str, str], spoil: str, tell: Callable[[str], None]
) -> Iterator[Result]:
    """The results of these cells. After one that failed the job is begun anew."""
    session = _Session(lab, environ)
    try:
        for cell in cells:
            tell(cell.name)
            begin = time.monotonic()
            try:
                result = session.result(cell, spoil == cell.name)
            except _FAULTY as error:
                result = failed(cell, " ".join(str(error).split())[:300])
            if result.outcome is Outcome.FAILED:
                session.end()
            yield replace(result, seconds=round(time.monotonic() - begin, 2))
    finally:
        session.end()


class _Session:
    """One job at a time, one fault at a time."""

    def __init__(self, lab: Lab, environ: Mapping[str, str]) -> None:
        self._lab, self._environ = lab, environ
        self._job: LabJob | None = None
        self._ports: list[str] | None = None
        self._numbers, self._turn = itertools.count(1), itertools.count(1)

    def end(self) -> None:
        if self._job is not None:
            job, self._job = self._job, None
            job.end()

    def result(self, cell: Cell, spoiled: bool) -> Result:
        assert cell.fault is not None
        of_ports = cell.fault.what.target == "port"
        job = self._begun(of_ports)
        if of_ports and not self._ports:
            return not_run(cell, f"no port of ${link_tree.ROOT} is up")
        fault, host = self._aimed(cell.fault, job)
        self._reach(job, cell.phase)
        before = job.generation()
        last = _last(job)
        injection: Injection | None = None
        lapsed = ""
        wanted = expected(fault, SETTINGS)
        seen = _Seen(job, before, last, fault)
        try:
            if not spoiled:
                injection = self._begin(job, fault, host, cell.phase)
            seen.settled(wanted, 3.0 if spoiled else wanted.within(SETTINGS) + SLACK)
            if injection is not None and fault.what.target == "network" and wanted.generation == "either":
                injection.end()  # no generation can come to work meanwhile
            seen.at_work()
        except TimeoutError as error:
            lapsed = " ".join(str(error).split())[:300]
        hosts = tuple(self._lab.net.host(h) for h in HOSTS if h == host or fault.kind not in _OF_ONE)
        # What an old etcd does to leases when it wakes is not what the job does while it is frozen.
        early = seen.course(hosts) if fault.kind == "etcd-freeze" and not find_etcd().wakes_well else None
        if injection is not None:
            injection.end()
        found = early or seen.course(hosts)
        told = judge(cell, fault, replace(found, lapsed="" if found.began is None else lapsed), SETTINGS)
        return told if told.outcome is Outcome.FAILED else self._mended(job, cell, fault, last, told)

    def _begun(self, of_ports: bool) -> LabJob:
        if self._job is not None and (of_ports is (self._ports is None) or self._job.growths() >= _GROWTHS):
            self.end()
        if self._job is None:
            trees: dict[int, Path] = {}
            if of_ports:
                trees = {h: link_tree.made(self._lab.folder / f"sysfs-{h}", self._environ) for h in HOSTS}
            self._ports = link_tree.ports(trees[HOSTS[-1]]) if of_ports else None
            self._job = LabJob(self._lab, f"faults-{next(self._numbers)}", trees)
        return self._job

    def _aimed(self, fault: Fault, job: LabJob) -> tuple[Fault, int]:
        """Whom it hits: the last host, the controller that leads, the etcd members in turn."""
        target = fault.what.target
        if target == "etcd":
            return fault, 1 + next(self._turn) % len(self._lab.etcd)
        if target == "controller":
            return fault, job.leads()
        host = HOSTS[-1]
        if target == "network":
            return fault, host
        port = self._ports.pop(0) if self._ports and target == "port" else ""
        fault = replace(fault, node=self._lab.net.host(host), port=port)
        if fault.what.lasts:
            fault = replace(fault, seconds=math.ceil(EXPECTED[fault.kind].within(SETTINGS)) + _LASTS)
        return fault, host

    def _reach(self, job: LabJob, phase: str) -> None:
        """Have a rank come to that point, and be held there for a while."""
        if phase == AT_ONCE:
            return
        hold = Fault("sleep", rank=job.rank_on(HOSTS[-1]), at=phase, seconds=_HELD)
        last = _last(job)
        job.watched.inject(hold)
        if phase in ONCE:
            job.watched.command("restart")

        def held() -> bool:
            return any(line.seq > last and str(hold) in line.text for line in job.watched.events(BEGAN))

        job.until(f"a rank at {phase}", held, STARTS)

    def _begin(self, job: LabJob, fault: Fault, host: int, phase: str) -> Injection | None:
        if "job" in fault.what.carriers:
            job.watched.inject(fault)
            return None
        control = fault.kind == "reset" and phase == "rendezvous"  # the ranks have no other connections yet
        return self._lab.fault(fault, host, CONTROL if control else None, job=job.watched)

    def _mended(self, job: LabJob, cell: Cell, fault: Fault, last: int, told: Result) -> Result:
        """The job is whole for the next fault; else it has not stood this one."""
        if fault.seconds:
            job.until("the fault's end", lambda: _over(job, fault, last), fault.seconds + _WHOLE)
        try:
            deadline = time.monotonic() + _WHOLE
            while True:
                job.mend()
                with suppress(TimeoutError):
                    job.whole(10.0)
                    return told
                if time.monotonic() > deadline:
                    why = f"not all hosts' ranks were at work again {_WHOLE:.0f} s after the fault"
                    return replace(told, outcome=Outcome.FAILED, why=why)
        except ElaunchError as error:
            return failed(cell, " ".join(str(error).split())[:300])


class _Seen:
    """What is seen of a fault that hit generation ``before``; events up to ``last`` were there."""

    def __init__(self, job: LabJob, before: int, last: int, fault: Fault) -> None:
        self._job, self._before, self._last, self._fault = job, before, last, fault
        self._worked: float | None = None
        self._code = self._text = ""

    def settled(self, wanted: Expected, seconds: float) -> None:
        """Wait until it is clear what becomes of the job. Raises TimeoutError.

        What need not stop the ranks lasts for as long as a lease at least, and they do steps at the end as at the
        begin of that time.
        """
        borne = time.monotonic() + (_BORNE if self._fault.what.target != "port" else 0.0)
        steps = [self._job.steps(self._before)]
        least = _SLOWLY if wanted.generation == "either" else _GOES_ON

        def clear() -> bool:
            if self._job.generation() > self._before:
                return True
            if wanted.generation == "next" or self._job.steps(self._before) < steps[0] + least:
                return False
            self._worked = self._worked or time.time()
            if time.monotonic() < borne:
                steps[0] = self._job.steps(self._before)
                return False
            codes = wanted.codes if wanted.generation == "same" else ()
            return not codes or any(line.code in codes for line in self._events())

        what = "the next generation" if wanted.generation == "next" else "the job to go on"
        self._job.until(what, clear, seconds)

    def at_work(self) -> None:
        """Where another generation follows, wait until it is at work. Raises TimeoutError."""
        if self._job.generation() == self._before:
            return
        plan = self._job.watched.look().plan
        if plan is not None:
            self._code, self._text = plan.reason.code, plan.reason.text

        def works() -> bool:
            return any(one.code == "job_working" and one.generation > self._before for one in self._events())

        self._job.until("the next generation at work", works, STARTS)

    def course(self, hosts: tuple[str, ...]) -> Course:
        """``hosts`` are those that the sentence may name."""
        after = self._job.generation()
        found = course(self._fault, self._events(), self._before, after, self._code, self._text, hosts=hosts)
        if after == self._before:
            return replace(found, worked=self._worked)
        return replace(found, lost_steps=progress.lost_steps(self._job.lines(), self._before, after))

    def _events(self) -> list[Happening]:
        return [line for line in self._job.watched.events() if line.seq > self._last]


def _over(job: LabJob, fault: Fault, last: int) -> bool:
    """An agent that was frozen may have nobody to tell it to."""
    if fault.what.target == "node" and not job.stopped(HOSTS[-1]):
        return True
    return any(line.seq > last and str(fault) in line.text for line in job.watched.events(ENDED))


def _last(job: LabJob) -> int:
    seen = job.watched.events()
    return seen[-1].seq if seen else 0
