"""Where the ranks' output goes: the folders of a run, which stream is a file, which one is shown."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import structlog

from elaunch.agent.options import LogOptions, Streams
from elaunch.errors import StartError

_LONGEST_NAME = 200  # bytes of a job's name in that of its folder; a file system takes 255 in all


@dataclass(frozen=True, slots=True)
class RankStreams:
    """One rank's streams: their files (None: the agent's own), and which of them are shown as they grow."""

    stdout: Path | None
    stderr: Path | None
    error_file: Path | None
    tail: Streams


class LogFolder:
    """The folder of one agent's run: ``<log_dir>/<run_id>_<random>``, made at the first generation.

    In it is a folder for each generation: ``attempt_<n>`` after n restarts, as with torchrun, and ``attempt_<n>.2``, .3
    for those that follow without a restart being charged, because nodes came or left. None is ever used twice.

    A temporary one in which nobody asked for a file is made in ``scratch``, and goes with it.
    """

    def __init__(self, run_id: str, options: LogOptions, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self._run_id = run_id.replace("/", "_").encode()[:_LONGEST_NAME].decode(errors="ignore")
        self._options = options
        self._base: Path | None = None
        self._folder: Path | None = None
        self._attempt: Path | None = None
        self._evidence: Path | None = None

    @property
    def path(self) -> Path | None:
        """None before the first generation, and where no files are wanted."""
        return self._folder

    @property
    def attempt(self) -> Path | None:
        """The folder of the newest generation; None where no files are wanted."""
        return self._attempt

    def evidence(self, generation: int) -> Path:
        """Where the evidence of a generation goes: below the log folder, which is one agent's own.

        Where nobody gave one, to a temporary folder that stays. Raises OSError.
        """
        if self._options.directory not in (None, os.devnull) and self._folder is not None:
            return self._folder / "evidence" / str(generation)
        if self._evidence is None:
            self._evidence = Path(tempfile.mkdtemp(prefix=f"elaunch_evidence_{self._run_id}_"))
        return self._evidence / str(generation)

    def prepare(self, restart_count: int, local_world_size: int) -> dict[int, RankStreams]:
        """Make the folders of a generation; returns each local rank's streams. Raises StartError."""
        if self._options.directory == os.devnull:
            return {n: self._without_files(n) for n in range(local_world_size)}
        try:
            attempt = self._attempt = self._make_attempt(restart_count)
            return {n: self._streams(attempt, n) for n in range(local_world_size)}
        except OSError as error:
            raise StartError(f"cannot make the log folder: {error}; give another --log-dir") from error

    def remove_unused(self) -> None:
        """At the end of the job: take away a temporary folder in which nobody asked for a file."""
        if self._base is not None and not self._asked():
            shutil.rmtree(self._base, ignore_errors=True)

    def _asked(self) -> bool:
        return any(self._options.redirects) or any(self._options.tee)

    def _make_attempt(self, restart_count: int) -> Path:
        first = self._make() / f"attempt_{restart_count}"
        later = (first.with_name(f"{first.name}.{n}") for n in itertools.count(2))
        for path in itertools.chain([first], later):
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
        raise AssertionError("unreachable")

    def _make(self) -> Path:
        if self._folder is not None:
            return self._folder
        if self._options.directory is None:
            scratch = None if self._asked() else self._scratch
            base = self._base = Path(tempfile.mkdtemp(prefix="elaunch_", dir=scratch))
            if scratch is None:
                structlog.get_logger().info("log_files", folder=str(base))
        else:
            base = Path(self._options.directory)
            base.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self._run_id}_", dir=base))
        return self._folder

    def _streams(self, attempt: Path, local_rank: int) -> RankStreams:
        folder = attempt / str(local_rank)
        folder.mkdir()
        tee = _of(self._options.tee, local_rank)
        filed = _of(self._options.redirects, local_rank) | tee
        hidden = self._hidden(local_rank)
        console = Path(os.devnull) if hidden else None
        return RankStreams(
            stdout=folder / "stdout.log" if filed & Streams.OUT else console,
            stderr=folder / "stderr.log" if filed & Streams.ERR else console,
            error_file=folder / "error.json",
            tail=Streams.NONE if hidden else tee,
        )

    def _without_files(self, local_rank: int) -> RankStreams:
        console = Path(os.devnull) if self._hidden(local_rank) else None
        return RankStreams(console, console, None, Streams.NONE)

    def _hidden(self, local_rank: int) -> bool:
        return self._options.shown is not None and local_rank not in self._options.shown


def _of(choice: tuple[Streams, ...], local_rank: int) -> Streams:
    return choice[local_rank] if local_rank < len(choice) else Streams.NONE
