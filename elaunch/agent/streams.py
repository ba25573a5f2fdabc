"""Where the ranks' output goes: the folders of a run, which stream is a file, which one is shown."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from elaunch.agent.options import LogOptions, Streams
from elaunch.errors import StartError

_ROOM = 4096  # bytes that must fit into the folder
_LONGEST_NAME = 200  # bytes of a job's name in that of its folder; a file system takes 255 in all


@dataclass(frozen=True, slots=True)
class RankStreams:
    """One rank's streams: their files (None: the agent's own), and which of them are shown as they grow."""

    stdout: Path | None
    stderr: Path | None
    error_file: Path | None
    tail: Streams


@dataclass(frozen=True, slots=True)
class Attempt:
    """The folders of one generation. ``base`` is what the run's own ``folder`` is in; None where there are no files."""

    streams: dict[int, RankStreams]
    base: Path | None = None
    folder: Path | None = None
    path: Path | None = None


class LogFolder:
    """The folder of one agent's run: ``<log_dir>/<run_id>_<random>``, made at the first generation.

    In it is a folder for each generation: ``attempt_<n>`` after n restarts, as with torchrun, and ``attempt_<n>.2``, .3
    for those that follow without a restart being charged, because nodes came or left. None is ever used twice.

    A temporary one in which nobody asked for a file is made in ``scratch``, and goes with it. A folder that has
    vanished is made anew. ``make`` and ``trouble`` may be called in a thread: they change nothing of this object.
    """

    def __init__(self, run_id: str, options: LogOptions, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self._run_id = run_id.replace("/", "_").encode()[:_LONGEST_NAME].decode(errors="ignore")
        self._options = options
        self._now = Attempt({})
        self._evidence: Path | None = None

    @property
    def path(self) -> Path | None:
        """None before the first generation, and where no files are wanted."""
        return self._now.folder

    @property
    def attempt(self) -> Path | None:
        """The folder of the newest generation; None where no files are wanted."""
        return self._now.path

    def evidence(self, generation: int) -> list[Callable[[], Path]]:
        """What makes the folder for the evidence of a generation: below the log folder, which is one agent's own.

        Where nobody gave one, or it cannot be written, a temporary folder that stays. They raise OSError.
        """
        name = Path("evidence") / str(generation)
        folder = self._now.folder if self._options.directory is not None else None
        return [*([lambda: folder / name] if folder is not None else []), lambda: self._temporary() / str(generation)]

    def _temporary(self) -> Path:
        if self._evidence is None or not self._evidence.exists():
            self._evidence = Path(tempfile.mkdtemp(prefix=f"elaunch_evidence_{self._run_id}_"))
        return self._evidence

    def prepare(self, restart_count: int, local_world_size: int) -> dict[int, RankStreams]:
        """Make the folders of a generation; returns each local rank's streams. Raises StartError."""
        try:
            return self.take(self.make(restart_count, local_world_size))
        except OSError as error:
            raise cannot_make(error) from error

    def make(self, restart_count: int, local_world_size: int, *, elsewhere: bool = False) -> Attempt:
        """Make the folders of a generation, ``elsewhere``: in a temporary folder. Raises OSError."""
        if self._options.directory == os.devnull:
            return self.without_files(local_world_size)
        base, folder = self._base_and_folder(elsewhere)
        path = _make_attempt(folder, restart_count)
        streams = {n: self._streams(path, n) for n in range(local_world_size)}
        _try_to_write(path)
        return Attempt(streams, base, folder, path)

    def without_files(self, local_world_size: int) -> Attempt:
        """Where no files are wanted, or none can be made: what is not hidden goes to the console."""
        return Attempt({n: self._without_files(n) for n in range(local_world_size)})

    def take(self, made: Attempt, why: str = "") -> dict[int, RankStreams]:
        """The newest generation is in these folders; its streams. ``why`` it is in no folder of the one before."""
        log, lost, before = structlog.get_logger(), self._now.folder, self._now.base
        if lost is not None and made.folder != lost:
            told = str(made.folder) if made.folder is not None else "none: what the ranks print goes to the console"
            log.warning("log_folder_lost", folder=str(lost), reason=why or "it is gone", instead=told)
        elif self._options.directory is None and made.base not in (None, before) and made.base.parent != self._scratch:
            log.info("log_files", folder=str(made.base))
        self._now = made
        return made.streams

    def trouble(self) -> str:
        """What is wrong with the folder of the newest generation, "" if nothing; it may take long."""
        path = self._now.path
        if path is None:
            return ""
        try:
            _try_to_write(path)
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        return ""

    def remove_unused(self) -> None:
        """At the end of the job: take away a temporary folder in which nobody asked for a file."""
        if self._options.directory is None and self._now.base is not None and not self._asked():
            shutil.rmtree(self._now.base, ignore_errors=True)

    def _asked(self) -> bool:
        return any(self._options.redirects) or any(self._options.tee)

    def _base_and_folder(self, elsewhere: bool) -> tuple[Path, Path]:
        base, folder = self._now.base, self._now.folder
        if base is not None and folder is not None and not elsewhere and folder.exists():
            return base, folder
        if self._options.directory is None or elsewhere:
            scratch = self._scratch if self._scratch is not None and self._scratch.exists() else None
            base = Path(tempfile.mkdtemp(prefix="elaunch_", dir=None if self._asked() else scratch))
        else:
            base = Path(self._options.directory)
            base.mkdir(parents=True, exist_ok=True)
        return base, Path(tempfile.mkdtemp(prefix=f"{self._run_id}_", dir=base))

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


def cannot_make(error: object) -> StartError:
    """What to tell of a log folder that cannot be made."""
    return StartError(f"cannot make the log folder: {error}; give another --log-dir")


def _make_attempt(folder: Path, restart_count: int) -> Path:
    first = folder / f"attempt_{restart_count}"
    later = (first.with_name(f"{first.name}.{n}") for n in itertools.count(2))
    for path in itertools.chain([first], later):
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable")


def _try_to_write(folder: Path) -> None:
    """Raises OSError, with the folder's name, where it has vanished or has no room. Free space alone does not tell."""
    try:
        fd, name = tempfile.mkstemp(prefix=".room-", dir=folder)
        try:
            os.write(fd, bytes(_ROOM))
        finally:
            os.close(fd)
            os.unlink(name)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error
