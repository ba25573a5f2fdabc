"""What the operator asked to run, and the start of one rank of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["script", "module", "command", "run_path"]

RUN_PATH = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


@dataclass(frozen=True, slots=True)
class Program:
    """A program as it was typed: ``target`` is a file, a module's name or a command, by ``kind``."""

    kind: Kind
    target: str
    args: tuple[str, ...] = ()
    interpreter: str = sys.executable

    def command(self) -> list[str]:
        """The command line of a plain start."""
        python = [self.interpreter, "-u"]
        lead = {
            "script": [*python, self.target],
            "module": [*python, "-m", self.target],
            "run_path": [*python, "-c", RUN_PATH, self.target],
            "command": [self.target],
        }[self.kind]
        return [*lead, *self.args]


@dataclass(frozen=True, slots=True)
class RankStart:
    """All that is needed to start one rank.

    ``env`` is complete. ``stdout`` and ``stderr`` are files, truncated at the start; None: the agent's own
    stream. ``cpus`` is the set of CPUs that the rank may use; None: all that the agent may use.
    """

    local_rank: int
    rank: int
    program: Program
    env: Mapping[str, str]
    stdout: Path | None = None
    stderr: Path | None = None
    cpus: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        program = {name: getattr(self.program, name) for name in ("kind", "target", "args", "interpreter")}
        return {
            "local_rank": self.local_rank,
            "rank": self.rank,
            "program": program,
            "env": dict(self.env),
            "stdout": str(self.stdout) if self.stdout else None,
            "stderr": str(self.stderr) if self.stderr else None,
            "cpus": self.cpus,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RankStart:
        program = Program(**{**data["program"], "args": tuple(data["program"]["args"])})
        return cls(
            local_rank=data["local_rank"],
            rank=data["rank"],
            program=program,
            env=data["env"],
            stdout=Path(data["stdout"]) if data["stdout"] else None,
            stderr=Path(data["stderr"]) if data["stderr"] else None,
            cpus=tuple(data["cpus"]) if data["cpus"] is not None else None,
        )
