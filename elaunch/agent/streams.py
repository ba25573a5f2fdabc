"""Where the ranks' output goes: the folders of a run, which stream is a file, which one is shown."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

from elaunch.errors import StartError, UsageError

_VALUE = re.compile(r"[0-3]")
_MAPPING = re.compile(r"\d+:[0-3](,\d+:[0-3])*")


class Std(IntFlag):
    """Standard streams, numbered as torchrun numbers them."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """One choice for all local ranks, or one for each; a local rank that is not named has none."""

    every: Std = Std.NONE
    by_local_rank: Mapping[int, Std] | None = None

    @classmethod
    def parse(cls, option: str, text: str) -> StreamChoice:
        """Parse ``3`` or ``0:1,10:3``. Raises UsageError naming the option."""
        if _VALUE.fullmatch(text):
            return cls(Std(int(text)))
        if not _MAPPING.fullmatch(text):
            raise UsageError(
                f"{option} {text!r}: expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), "
                "or LOCAL_RANK:VALUE,... such as 0:1,1:3"
            )
        pairs = (pair.split(":") for pair in text.split(","))
        return cls(by_local_rank={int(local_rank): Std(int(value)) for local_rank, value in pairs})

    def of(self, local_rank: int) -> Std:
        if self.by_local_rank is None:
            return self.every
        return self.by_local_rank.get(local_rank, Std.NONE)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the operator asked for. ``log_dir`` None: a temporary folder; ``/dev/null``: no files at all.

    ``shown`` are the local ranks whose streams may reach the console, None for all.
    """

    log_dir: str | None = None
    redirects: StreamChoice = StreamChoice()
    tee: StreamChoice = StreamChoice()
    shown: frozenset[int] | None = None
    stdout_filters: tuple[str, ...] = ()
    stderr_filters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankStreams:
    """One rank's streams: their files (None: the agent's own), and which of them are shown as they grow."""

    stdout: Path | None
    stderr: Path | None
    error_file: Path | None
    tail: Std


class LogFolder:
    """The folder of one agent's run: ``<log_dir>/<run_id>_<random>``, made at the first generation."""

    def __init__(self, run_id: str, options: StreamOptions) -> None:
        self._run_id = run_id.replace("/", "_")
        self._options = options
        self._base: Path | None = None
        self._folder: Path | None = None

    @property
    def path(self) -> Path | None:
        """None before the first generation, and where no files are wanted."""
        return self._folder

    def attempt(self, generation: int) -> Path | None:
        """The folder of a generation; None where no files are wanted."""
        return self._folder / f"attempt_{generation}" if self._folder else None

    def prepare(self, generation: int, local_world_size: int) -> dict[int, RankStreams]:
        """Make the folders of a generation; returns each local rank's streams. Raises StartError."""
        if self._options.log_dir == os.devnull:
            return {n: self._without_files(n) for n in range(local_world_size)}
        try:
            self._make()
            attempt = self.attempt(generation)
            assert attempt is not None
            return {n: self._streams(attempt, n) for n in range(local_world_size)}
        except OSError as error:
            raise StartError(f"cannot make the log folder: {error}; give another --log-dir") from error

    def remove_unused(self) -> None:
        """At the end of the job: take away a temporary folder in which nobody asked for a file."""
        options = self._options
        if self._base is None or options.redirects != StreamChoice() or options.tee != StreamChoice():
            return
        shutil.rmtree(self._base, ignore_errors=True)

    def _make(self) -> None:
        if self._folder is not None:
            return
        if self._options.log_dir is None:
            base = self._base = Path(tempfile.mkdtemp(prefix="elaunch_"))
        else:
            base = Path(self._options.log_dir)
            base.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self._run_id}_", dir=base))

    def _streams(self, attempt: Path, local_rank: int) -> RankStreams:
        folder = attempt / str(local_rank)
        folder.mkdir(parents=True)
        tee = self._options.tee.of(local_rank)
        filed = self._options.redirects.of(local_rank) | tee
        hidden = self._hidden(local_rank)
        console = Path(os.devnull) if hidden else None
        return RankStreams(
            stdout=folder / "stdout.log" if filed & Std.OUT else console,
            stderr=folder / "stderr.log" if filed & Std.ERR else console,
            error_file=folder / "error.json",
            tail=Std.NONE if hidden else tee,
        )

    def _without_files(self, local_rank: int) -> RankStreams:
        console = Path(os.devnull) if self._hidden(local_rank) else None
        return RankStreams(console, console, None, Std.NONE)

    def _hidden(self, local_rank: int) -> bool:
        return self._options.shown is not None and local_rank not in self._options.shown
