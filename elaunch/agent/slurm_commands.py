"""A scheduler's own commands, each with a time that it may take: the scheduler's controller may be away."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a command said, and whether it did what it was asked for; ``text`` says why not."""

    done: bool
    text: str


def ask(words: Sequence[str], *, given: str = "", seconds: float = SECONDS) -> Said:
    """Run a command with ``given`` at its standard input. It never raises: what went wrong is what it said."""
    try:
        run = subprocess.run(words, input=given, capture_output=True, text=True, timeout=seconds, check=False)
    except FileNotFoundError:
        return Said(False, f"{words[0]} is not installed here")
    except subprocess.TimeoutExpired:
        return Said(False, f"{words[0]} did not answer within {seconds:.0f} s")
    except OSError as error:
        return Said(False, f"{words[0]}: {error.strerror}")
    if run.returncode:
        return Said(False, " ".join((run.stderr or run.stdout).split()) or f"{words[0]} ended with {run.returncode}")
    return Said(True, run.stdout)
