"""A crew of processes for tests that need many worlds: tests/programs/crew.py, from the outside."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds for one piece of work


class Crew:
    """Processes that are there for as long as the ``with`` block."""

    def __enter__(self) -> Crew:
        program = [sys.executable, "-m", "tests.programs.crew"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            program, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._answer() == "ready"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()

    def do(self, call: str, world: int, argument: Any) -> list[Any]:
        """What ``module:function`` returned on each rank of a world, called with rank, world and the argument."""
        assert self._process.stdin is not None
        order = {"call": call, "world": world, "argument": argument}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        answers = self._answer()
        wrong = [f"rank {rank}: {one['error']}" for rank, one in enumerate(answers) if "error" in one]
        assert not wrong, "\n".join(wrong)
        return [one["value"] for one in answers]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        assert ready, f"no answer in {PATIENCE} seconds"
        line = self._process.stdout.readline()
        assert line, "the crew has gone"
        return json.loads(line)
