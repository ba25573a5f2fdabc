"""Operators' commands from the outside, as an operator gives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tests.e2e.harness import ROOT


@dataclass(frozen=True)
class Answer:
    """What one command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What --json printed."""
        return json.loads(self.out)


def elaunch(*arguments: str, **env: str) -> Answer:
    """Run `elaunch ARGUMENTS` to its end."""
    argv = [sys.executable, "-m", "elaunch", *arguments]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": path, **env}, capture_output=True, text=True, timeout=180
    )
    return Answer(done.returncode, done.stdout, done.stderr)
