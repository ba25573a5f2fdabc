"""Forking, and what a fresh child does before it is a rank or the store's host."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from elaunch.agent.confinement import confine
from elaunch.agent.start import RankStart
from elaunch.agent.trees import die_with

Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

# Sent to every process of a job step, container or unit by those who end it; what becomes of the ranks is the
# agent's to say, so the spawner process and the store's host do not hear them.
_LEFT_TO_THE_AGENT = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
)


@dataclass(frozen=True, slots=True)
class Child:
    """A child process and the descriptor that becomes readable when it ends."""

    pid: int
    pidfd: int

    def signal(self, signum: int) -> None:
        """Signal it; nothing happens if it has ended. Its number cannot be another's before it is reaped."""
        os.kill(self.pid, signum)


@dataclass(frozen=True, slots=True)
class Dispositions:
    """What the signals did before the spawner process ignored them: a rank has them so again."""

    caught: Mapping[int, Handler]

    @classmethod
    def ignore(cls) -> Dispositions:
        return cls({s: signal.signal(s, signal.SIG_IGN) for s in _LEFT_TO_THE_AGENT})

    def ignore_again(self) -> Dispositions:
        """Ignore what imported modules have set handlers for; ranks get those handlers."""
        now = {s: signal.signal(s, signal.SIG_IGN) for s in _LEFT_TO_THE_AGENT}
        return Dispositions({s: self.caught[s] if h == signal.SIG_IGN else h for s, h in now.items()})

    def restore(self) -> None:
        for signum, handler in self.caught.items():
            signal.signal(signum, handler)


@dataclass(frozen=True, slots=True)
class Streams:
    """The files that stand for a rank's standard output and error; None: inherited."""

    out: int | None
    err: int | None

    @classmethod
    @contextmanager
    def open(cls, start: RankStart) -> Iterator[Streams]:
        """Open the files of a rank, empty. Raises OSError."""
        with ExitStack() as stack:
            descriptors: list[int | None] = []
            for path in (start.stdout, start.stderr):
                if path is None:
                    descriptors.append(None)
                    continue
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
                stack.callback(os.close, fd)
                descriptors.append(fd)
            yield cls(*descriptors)

    @property
    def descriptors(self) -> list[int]:
        return [fd for fd in (self.out, self.err) if fd is not None]

    def install(self) -> None:
        for fd, standard in ((self.out, 1), (self.err, 2)):
            if fd is not None:
                os.dup2(fd, standard)


def warm_up(modules: Sequence[str]) -> None:
    """Import what ranks will need, and leave the heap so that forks share it."""
    for name in modules:
        importlib.import_module(name)
    for name in ("autoload", "bootstrap", "full_disk", "program", "progress", "start_hooks", "store_host", "stores"):
        importlib.import_module(f"elaunch.worker.{name}")
    # OpenBLAS ends its pool of threads before the first fork and starts it anew when it is needed: fork once
    # now, so that a thread seen later is another's.
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    gc.collect()
    gc.freeze()


def fork(signals: Mapping[int, Handler]) -> Child | None:
    """Fork; None in the child, whose ``signals`` are blocked until ``settle``: one sent early is not lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        pid = os.fork()
        if pid == 0:
            return None
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Child(pid, os.pidfd_open(pid))


def detach(parent: int) -> None:
    """In any child: a session of its own, and death with its parent."""
    os.setsid()
    die_with(parent)


def settle(dispositions: Dispositions, streams: Streams, start: RankStart) -> None:
    """In a rank's child: its streams, CPUs, memory and signals."""
    try:
        streams.install()
    except OSError as error:
        _fail(f"cannot set the rank up: {error}", 126)
    for warning in confine(start.cpus, start.memory):
        _say(f"warning: local rank {start.local_rank}: {warning}")
    dispositions.restore()
    for signum in start.ignored:
        if signal.getsignal(signum) is signal.SIG_DFL:
            signal.signal(signum, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, dispositions.caught)


def settle_store() -> None:
    """In the store's child: it goes on ignoring the signals."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _LEFT_TO_THE_AGENT)


def retitle(argv: Sequence[str]) -> None:
    """Have ``ps`` show this command line, as far as there is room, where the original one stands in memory."""
    with open("/proc/self/stat", "rb") as file:
        stat = file.read()
    fields = stat[stat.rindex(b")") + 2 :].split()
    begin, end = int(fields[45]), int(fields[46])
    room = end - begin - 2
    title = " ".join(argv).encode(errors="surrogateescape")[:room] if room > 0 else b""
    if title:
        # The kernel shows the first string only when the last byte is not zero (the convention of setproctitle).
        ctypes.memmove(begin, title.ljust(room + 1, b"\0") + b" ", room + 2)


def execute(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Become another program, or say why not and end as a shell would: 127 not found, 126 not runnable."""
    try:
        os.execvpe(argv[0], list(argv), env)
    except OSError as error:
        _fail(f"cannot run {argv[0]!r}: {error.strerror}", 127 if isinstance(error, FileNotFoundError) else 126)


def _fail(text: str, code: int) -> NoReturn:
    _say(text)
    os._exit(code)


def _say(text: str) -> None:
    os.write(2, f"elaunch: {text}\n".encode(errors="backslashreplace"))
