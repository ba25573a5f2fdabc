"""The undisturbed run: one process that computes the same training, as far as it is asked."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading

from elaunch.lab.controllers import environment

from .samples import Wanted, wanted_of

_LATE = 300.0  # seconds for what it is asked; at first it imports torch
# Has the kernel kill it with whoever started it, already while it imports torch, and becomes the program.
_TIED = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1)\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])\n"
)


class Reference:
    """To be closed. Each step is computed once."""

    def __init__(self, program: str) -> None:
        self._upto = 0
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _TIED, str(os.getpid()), program, "--reference"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip

    def upto(self, step: int) -> dict[int, Wanted]:
        """The steps up to this one that were not told yet. Raises OSError."""
        found: dict[int, Wanted] = {}
        if step <= self._upto:
            return found
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Timer(_LATE, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(f"{step}\n")
            self._process.stdin.flush()
            while line := self._process.stdout.readline().strip():
                one = wanted_of(json.loads(line))
                found[one.step] = one
        finally:
            late.cancel()
        if step not in found:
            raise OSError(f"the reference has ended, or did not come to step {step} within {_LATE:.0f} s")
        self._upto = step
        return found

    def close(self) -> None:
        self._process.kill()  # it may be at its imports, and has nothing to save
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it was asked and has not taken is still to be written
                    pipe.close()
        self._process.wait(30)
