"""What a rank runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["script", "module", "command", "run_path"]


@dataclass(frozen=True, slots=True)
class Program:
    """The user's program: ``target`` is a path, a module's name or a command, by ``kind``.

    ``args`` are its own. ``interpreter`` is the Python that runs it, without a meaning for a command.
    """

    kind: Kind
    target: str
    args: tuple[str, ...]
    interpreter: str
