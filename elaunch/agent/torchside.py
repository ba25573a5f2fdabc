"""Questions that only torch can answer, asked of a process that imports it: one line of JSON each way.

The agent itself never imports torch, and so never waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from elaunch.errors import UsageError

_IMPORT_SECONDS = 600.0
_END_SECONDS = 1.0
_LONGEST_LINE = 1 << 24


class TorchSide:
    """A process of ``elaunch.worker`` that answers. It ends when the agent does, by the end of its input."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def answer(self, question: Any = None, *, seconds: float = _IMPORT_SECONDS) -> Any:
        """What it says to ``question``, or unasked where that is None. Raises UsageError: what it says of a failure."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            if question is not None:
                self._process.stdin.write(json.dumps(question).encode() + b"\n")
                await asyncio.wait_for(self._process.stdin.drain(), seconds)
            line = await asyncio.wait_for(self._process.stdout.readline(), seconds)
        except asyncio.TimeoutError:
            raise UsageError(f"the process that asks torch did not answer in {seconds:.0f} s") from None
        except OSError:
            line = b""
        try:
            reply = json.loads(line)
        except ValueError:
            raise UsageError("the process that asks torch has died") from None
        if "error" in reply:
            raise UsageError(reply["error"])
        return reply["ok"]


@contextlib.asynccontextmanager
async def torch_side(module: str, *args: str, spare: list[int]) -> AsyncIterator[TorchSide]:
    """Start a module of ``elaunch.worker``; its pid is in ``spare`` while it may run."""
    # By its path: "-m" would look for everything that it imports in the working directory first.
    program = Path(__file__).parents[1] / "worker" / f"{module}.py"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        *args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST_LINE,
        start_new_session=True,
    )
    spare.append(process.pid)
    try:
        yield TorchSide(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()
        spare.remove(process.pid)
