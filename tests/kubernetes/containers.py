"""A container of a pod as a process tree: the first process of PID, mount, host name and IPC namespaces of its own.

As in a real one, that process is PID 1: it gets SIGTERM only if it handles it, and its end is the end of all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_INSIDE = Path(__file__).with_name("inside.py")
_NSENTER = shutil.which("nsenter") or "nsenter"


class StartError(Exception):
    """There is no program to run in a container."""


@dataclass(frozen=True)
class Run:
    """One run of a container's program."""

    words: Sequence[str]
    env: Mapping[str, str]
    network: str  # the name of a network namespace
    log: Path
    layer: Path  # a folder that there is not yet, for what the container writes
    inside: Mapping[str, Any]  # what inside.py reads beside words, env and layer


class Process:
    """Started by ``start``; ``wait`` gives its exit code, 128 and the signal's number where one ended it."""

    def __init__(self, run: Run, launcher: asyncio.subprocess.Process, first: int) -> None:
        self._run, self._launcher, self.pid = run, launcher, first

    @classmethod
    async def start(cls, run: Run) -> Process:
        """Raises StartError."""
        spec = run.layer.with_suffix(".json")
        spec.parent.mkdir(parents=True, exist_ok=True)
        told = {**run.inside, "words": run.words, "env": run.env, "layer": str(run.layer), "network": run.network}
        spec.write_text(json.dumps(told))
        run.log.parent.mkdir(parents=True, exist_ok=True)
        launcher, said = await _launch(spec, run.log)
        first, _, why = said.partition("\n")
        if why or not first:
            await launcher.wait()
            shutil.rmtree(run.layer, ignore_errors=True)
            raise StartError(why or run.log.read_text(errors="replace")[-500:])
        return cls(run, launcher, int(first))

    async def wait(self) -> int:
        code = await self._launcher.wait()
        shutil.rmtree(self._run.layer, ignore_errors=True)
        return code

    def signal(self, number: signal.Signals) -> None:
        if self._launcher.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def execute(self, words: Sequence[str], seconds: float) -> tuple[int, str]:
        """Run a command inside the container: its exit code and what it printed; 124 where it took too long."""
        user = [f"--setuid={self._run.inside['user']}", f"--setgid={self._run.inside['group']}"]
        enter = [_NSENTER, f"--target={self.pid}", "--mount", "--uts", "--ipc", "--net", "--pid", *user, "--"]
        runner = await asyncio.create_subprocess_exec(
            *(*enter, *words),
            env=dict(self._run.env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            out, _ = await asyncio.wait_for(runner.communicate(), seconds)
        except (asyncio.TimeoutError, asyncio.CancelledError) as ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(runner.pid, signal.SIGKILL)
            await runner.wait()
            if isinstance(ended, asyncio.CancelledError):
                raise
            return 124, f"command timed out after {seconds:g} s"
        code = runner.returncode or 0
        return (code if code >= 0 else 128 - code), out.decode(errors="replace")


async def _launch(spec: Path, log: Path) -> tuple[asyncio.subprocess.Process, str]:
    """What starts a container's first process and ends with it, and what it has said when the program begins."""
    heard, told = os.pipe()
    with log.open("ab") as file, os.fdopen(heard, "rb") as answer:
        try:
            launcher = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_INSIDE), str(spec), str(told)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=[told],
                start_new_session=True,
            )
        finally:
            os.close(told)
        said = await asyncio.get_running_loop().run_in_executor(None, answer.read)
    return launcher, said.decode()
