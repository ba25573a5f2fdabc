"""The start of one rank, as JSON on the way to the spawner process, and its end, on the way back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elaunch.agent.program import Program

STORE = -1
"""Stands for a local rank in the ``Exit`` of the store's host."""

RUN_PATH = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


def command(program: Program) -> list[str]:
    """The command line of a plain start."""
    python = [program.interpreter, "-u"]
    lead = {
        "script": [*python, program.target],
        "module": [*python, "-m", program.target],
        "run_path": [*python, "-c", RUN_PATH, program.target],
        "command": [program.target],
    }[program.kind]
    return [*lead, *program.args]


@dataclass(frozen=True, slots=True)
class RankStart:
    """All that is needed to start one rank.

    ``env`` is complete. ``stdout`` and ``stderr`` are files, truncated at the start; None: the agent's own
    stream. ``cpus`` is the set of CPUs that the rank may use; None: all that the agent may use. ``memory`` is the NUMA
    node that its memory comes from while that has some; None: as the kernel does. ``ignored`` are signals that do
    nothing to it unless it handles them.
    """

    local_rank: int
    rank: int
    program: Program
    env: Mapping[str, str]
    stdout: Path | None = None
    stderr: Path | None = None
    cpus: tuple[int, ...] | None = None
    memory: int | None = None
    ignored: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "local_rank": self.local_rank,
            "rank": self.rank,
            "program": dataclasses.asdict(self.program),
            "env": dict(self.env),
            "stdout": str(self.stdout) if self.stdout else None,
            "stderr": str(self.stderr) if self.stderr else None,
            "cpus": self.cpus,
            "memory": self.memory,
            "ignored": self.ignored,
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
            memory=data["memory"],
            ignored=tuple(data["ignored"]),
        )


@dataclass(frozen=True, slots=True)
class Exit:
    """A rank has ended. ``exit_code`` is -n for signal n, ``time`` in seconds since the epoch.

    ``start`` is the number of the start that it belongs to. ``switched_off``: it came after the dead-man's switch
    had acted.
    """

    local_rank: int
    pid: int
    exit_code: int
    time: float
    start: int = 0
    switched_off: bool = False

    @classmethod
    def from_json(cls, data: dict[str, Any], *, switched_off: bool) -> Exit:
        return cls(data["local_rank"], data["pid"], data["exit_code"], data["time"], data["start"], switched_off)
