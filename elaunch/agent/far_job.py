"""A job on hosts that are reached by ssh: all are reached, then all are started, then the job's end is waited for."""

from __future__ import annotations

import asyncio
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from elaunch import __version__
from elaunch.agent.console import shown
from elaunch.agent.far_host import GREETING, FarHost, UnreachedError
from elaunch.agent.far_lines import Printer
from elaunch.errors import JoinTimeoutError, StartError
from elaunch.hosts.ending import Ended, exit_code, last_code, too_few
from elaunch.hosts.host_file import Host
from elaunch.hosts.plan import Ways, candidates, command_of, endpoints, meeting_port
from elaunch.hosts.words import Hello, Order
from elaunch.rendezvous.waiting import cancelled

_AT_ONCE = 64  # connections that are made at the same time
_BEATS = 6  # in the time after which a host ends its part
_TELL = 5.0  # seconds between two lines about hosts that have not answered
_NAMED = 8  # of them
_MARGIN = 15.0  # seconds beyond the grace for agents to end
_PATIENCE = 3  # signals; the last one waits for nobody
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

Orders = Callable[[int, tuple[str, ...]], Order]
"""A host's place among those that were reached, and where they meet, to what it is to run."""


@dataclass(frozen=True, slots=True)
class FarJob:
    """``least`` of ``hosts`` are needed. ``grace`` is how long agents may take to stop, ``silence`` after how long
    without a word from here they do, both in seconds. ``meets``: the hosts are to agree on a port.
    """

    job: str
    hosts: tuple[Host, ...]
    ways: Ways
    least: int
    grace: float
    silence: float
    meets: bool
    orders: Orders


async def run_far_job(task: FarJob) -> int:
    """The job's exit code. Raises JoinTimeoutError where too few hosts are there, StartError where no port is free."""
    with tempfile.TemporaryDirectory(prefix="elaunch-ssh-") as folder:
        conductor = Conductor(task, Path(folder))
        with conductor.handling_signals():
            return await conductor.run()


class Conductor:
    """Runs one job; signals are handed on to all of its hosts."""

    def __init__(self, task: FarJob, folder: Path) -> None:
        self._task = task
        self._ports = candidates(task.job) if task.meets else ()
        nonce = secrets.token_hex(8)
        self._all: list[FarHost] = []
        for number, host in enumerate(task.hosts):
            log = folder / str(number)
            self._all.append(FarHost(host, command_of(host, task.ways, nonce, self._ports, str(log)), nonce, log))
        self._running: dict[asyncio.Task[Ended], FarHost] = {}
        self._ends: list[Ended] = []
        self._lost: list[Ended] = []
        self._reason = ""
        self._signals: list[signal.Signals] = []
        self._stop_by = float("inf")
        self._woken = asyncio.Event()
        self._log = structlog.get_logger()

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """SIGHUP that is ignored (nohup) stays so."""
        loop, main = asyncio.get_running_loop(), asyncio.current_task()
        handled = [one for one in STOPPING if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
        for signum in handled:
            loop.add_signal_handler(signum, self._signalled, signum, main)
        try:
            yield
        finally:
            for signum in handled:
                loop.remove_signal_handler(signum)

    def _signalled(self, signum: signal.Signals, main: asyncio.Task[int] | None) -> None:
        self._signals.append(signum)
        self._log.info("signal_received", signal=signum.name)
        if self._running and len(self._signals) < _PATIENCE:
            self._stop(signum)
        elif main is not None:
            main.cancel()

    def _stop(self, signum: signal.Signals) -> None:
        for host in self._running.values():
            host.signal(signum)
        self._stop_by = min(self._stop_by, time.monotonic() + self._task.grace + _MARGIN)
        self._woken.set()

    async def run(self) -> int:
        """From the first knock to the exit code."""
        try:
            self._start(await self._reach())
            await self._follow()
        except asyncio.CancelledError:
            if not self._signals:
                raise
        finally:
            await asyncio.gather(*(host.close() for host in self._all))
            await cancelled(*self._running)
        return self._code()

    async def _reach(self) -> list[tuple[FarHost, Hello]]:
        gate = asyncio.Semaphore(_AT_ONCE)
        opening = [asyncio.ensure_future(self._open(host, gate)) for host in self._all]
        telling = asyncio.ensure_future(self._tell_awaited(opening))
        try:
            hellos = await asyncio.gather(*opening)
        finally:
            await cancelled(telling, *opening)
        if reason := too_few(self._lost, len(self._all), self._task.least):
            raise JoinTimeoutError(reason)
        return [(host, hello) for host, hello in zip(self._all, hellos, strict=True) if hello is not None]

    async def _tell_awaited(self, opening: Sequence[asyncio.Future[Hello | None]]) -> None:
        """Now and then say which hosts have not answered, and how long the first of them still may take."""
        began = time.monotonic()
        while True:
            await asyncio.sleep(_TELL)
            names = [host.host.label for host, task in zip(self._all, opening, strict=True) if not task.done()]
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            left = max(0.0, self._task.ways.timeout + GREETING - (time.monotonic() - began))
            text = f"{len(self._all) - len(names)} of {len(self._all)} have answered; waiting up to {left:.0f} s for "
            self._log.info("hosts", text=f"{text}{', '.join(names[:_NAMED])}{more}")

    async def _open(self, host: FarHost, gate: asyncio.Semaphore) -> Hello | None:
        async with gate:
            try:
                hello = await host.open(self._task.ways.timeout)
            except UnreachedError as error:
                self._lose(Ended(host.host.label, lost=str(error)))
                return None
        if hello.version != __version__:
            text = f"elaunch {hello.version} is there, and {__version__} here"
            self._log.warning("versions_differ", host=host.host.label, text=text)
        return hello

    def _lose(self, end: Ended) -> None:
        self._lost.append(end)
        if not too_few(self._lost, len(self._all), self._task.least):
            self._log.warning("host_lost", text=f"ssh to {end.host} failed: {end.lost}; the job goes on without it")

    def _start(self, reached: list[tuple[FarHost, Hello]]) -> None:
        where: tuple[str, ...] = ()
        if self._task.meets:
            hellos = [hello for _, hello in reached]
            port = meeting_port(self._ports, hellos)
            if port is None:
                tried = ", ".join(map(str, self._ports))
                raise StartError(f"no port is free on the first hosts of {tried}; give one with --rdzv-endpoint")
            where = endpoints([host.host for host, _ in reached], hellos, port)
        out, err = Printer(shown(None, 1)), Printer(shown(None, 2))
        width = max(len(host.host.label) for host, _ in reached)
        for place, (host, _) in enumerate(reached):
            prefix = f"{host.host.label:<{width}} | "
            following = host.follow(self._task.orders(place, where), prefix, out, err)
            self._running[asyncio.ensure_future(following)] = host

    async def _follow(self) -> None:
        pause = self._task.silence / _BEATS
        while self._running and time.monotonic() < self._stop_by:
            self._woken.clear()
            waking = asyncio.ensure_future(self._woken.wait())
            timeout = min(pause, max(0.0, self._stop_by - time.monotonic()))
            done, _ = await asyncio.wait({waking, *self._running}, timeout=timeout, return_when="FIRST_COMPLETED")
            waking.cancel()
            for task in self._running.keys() & done:
                del self._running[task]
                self._ended(task.result())
            for host in self._running.values():
                host.beat()

    def _ended(self, end: Ended) -> None:
        self._ends.append(end)
        if end.code is not None or self._signals:
            return
        self._lose(end)
        self._reason = too_few(self._lost, len(self._all), self._task.least)
        if self._reason:
            self._stop(signal.SIGTERM)

    def _code(self) -> int:
        code = exit_code(self._ends)
        if code is not None:
            return code
        if self._signals:
            return 128 + self._signals[0]
        if self._reason:
            raise JoinTimeoutError(self._reason)
        code = last_code(self._ends)
        return 1 if code is None else code
