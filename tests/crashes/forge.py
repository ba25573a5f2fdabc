"""Processes for tests that kill or freeze them: forked from one that has imported torch once, before any thread."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_SECONDS = 600.0  # against those that hang
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.crashes.scenes"])


@dataclass
class Child:
    """One process. Its function's value comes with ``value()``, how it ended with ``code()``."""

    process: Any
    answers: Connection

    @property
    def pid(self) -> int:
        pid: int = self.process.pid
        return pid

    def code(self) -> int:
        self.process.join(_SECONDS)
        assert self.process.exitcode is not None, f"process {self.pid} did not end in {_SECONDS:.0f} s"
        code: int = self.process.exitcode
        return code

    def value(self) -> Any:
        assert self.answers.poll(_SECONDS), f"process {self.pid} says nothing"
        failed, value = self.answers.recv()
        assert self.code() == 0
        if failed:
            raise AssertionError(value)
        return value

    def await_frozen(self) -> bool:
        """Wait until it is stopped; False where it has ended instead."""
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            try:
                state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
            except FileNotFoundError:
                return False
            if state in "TZX":
                return state == "T"
            time.sleep(0.002)
        raise AssertionError(f"process {self.pid} neither stops nor ends")

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join(_SECONDS)


def start(function: Callable[..., Any], *args: Any) -> Child:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    here, there = _context.Pipe()
    process = _context.Process(target=_run, args=(there, function, args))
    process.start()
    there.close()
    return Child(process, here)


def run(function: Callable[..., Any], *args: Any) -> Any:
    """The function's value, from a process of its own."""
    return start(function, *args).value()


def _run(answers: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        answers.send((False, function(*args)))
    except BaseException:  # noqa: BLE001 -- the outermost of this process: its test tells
        answers.send((True, traceback.format_exc()))
