"""What a job is to be like for a scheduler: a TOML file, and what is given beside it, which wins."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from elaunch.errors import UsageError


def wished(command: str, given: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """The values of ``names`` that ``--file`` or the command line of ``elaunch COMMAND`` has. Raises UsageError."""
    values = _read(command, given.file) if given.file else {}
    program = given.program[1:] if given.program[:1] == ["--"] else given.program
    asked = {name: getattr(given, name) for name in names if name != "program"}
    values |= {name: value for name, value in asked.items() if value is not None}
    return values | ({"program": program} if program else {})


def _read(command: str, path: str) -> dict[str, Any]:
    where = f"{command}: --file={path}"
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        raise UsageError(f"{where}: Python 3.11 is the first that reads TOML; give options") from None
    try:
        return tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{where}: is no TOML: {error}; texts stand in quotes") from None
