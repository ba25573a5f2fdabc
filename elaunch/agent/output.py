"""What the ranks of a generation print, on the agent's console and in the files of the filters."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import structlog

from elaunch.agent.console import shown
from elaunch.agent.logs_specs import Destination
from elaunch.agent.options import LogOptions
from elaunch.agent.tail import Sink, Tailer
from elaunch.errors import StartError


class Output:
    """What shows the ranks' output, and copies the lines that the filters name, for one generation."""

    def __init__(
        self,
        to: Destination,
        prefixes: Mapping[int, str],
        options: LogOptions,
    ) -> None:
        self._files: list[TextIO] = []
        out, err = [Sink(shown(sys.stdout, 1))], [Sink(shown(sys.stderr, 2))]
        if to.filtered_stdout is not None and options.duplicate_stdout:
            out.append(Sink(self._open(to.filtered_stdout), options.duplicate_stdout))
        if to.filtered_stderr is not None and options.duplicate_stderr:
            err.append(Sink(self._open(to.filtered_stderr), options.duplicate_stderr))
        self._tailer = Tailer(to.streams, prefixes, out, err)
        self._tailer.start()

    def _open(self, path: Path) -> TextIO:
        try:
            self._files.append(path.open("w", errors="replace"))
        except OSError as error:
            raise StartError(f"cannot write {path}: {error}") from error
        return self._files[-1]

    async def close(self) -> None:
        """Show the rest of what was written."""
        if not await self._tailer.stop():
            structlog.get_logger().warning("output_not_shown", reason="the console did not take the ranks' output")
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()
