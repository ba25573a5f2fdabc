"""A whole qualification, from the first job to the last: results go into a report that is kept on disk as it grows."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from elaunch.errors import ElaunchError, JoinTimeoutError
from elaunch.qualify import collecting, facts, faulting, figures, laboratory, launches, machines
from elaunch.qualify.cells import NOT_REACHED, Cell, Job, Result, not_run
from elaunch.qualify.matrix import cells
from elaunch.qualify.page import page
from elaunch.qualify.report import Report, read, written
from elaunch.qualify.running import Runner, Where

INTERRUPTED = "interrupted"
_OWN = ".checkpoints"  # below the output directory, while it runs: checkpoints
_REST = 20.0  # times as long as it takes to write the report it is not written anew


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done: ``shared`` is a directory that all hosts see, None where there is none."""

    mode: str
    where: Where
    output: Path
    only: tuple[str, ...] = ()
    spoil: str = ""
    shared: Path | None = None


class OutputError(ElaunchError):
    """The output directory cannot be written to, or not by us; the text says why, without its name."""


@contextmanager
def _writing() -> Iterator[None]:
    """What goes wrong here is the output directory's."""
    try:
        yield
    except OSError as error:
        raise _output_error(error) from None


def _output_error(error: OSError) -> OutputError:
    return OutputError(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else writes there meanwhile. Raises OutputError; a file system without locks is taken as it is."""
    with _writing():
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError("another qualification writes there") from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL, errno.ENOSYS):
                raise OutputError(str(error.strerror)) from None
        yield
    finally:
        os.close(handle)


class Session:
    """``told`` hears of each cell as it is known, ``at`` of what begins."""

    def __init__(
        self, asked: Asked, environ: Mapping[str, str], told: Callable[[Result], None], at: Callable[[str], None]
    ) -> None:
        self._asked, self._told, self._at = asked, told, at
        self._environ = environ
        where = asked.where
        self._cells = cells(asked.mode, asked.only, several=where.nodes > 1)
        self._begin = self._next = time.monotonic()
        named = {"ranks": where.ranks, "nodes": where.nodes, "hosts": list(where.names)}
        self.report = Report(asked.mode, named, time.time(), versions=facts.versions(), machine=facts.machine())

    def run(self) -> Report:
        """Run the matrix, and write both files. At KeyboardInterrupt what runs is ended, and the rest is not run.

        Raises OutputError where the output directory cannot be written to, has logs that are not of a qualification,
        or another qualification writes there; JoinTimeoutError where a host cannot be reached: then nothing is run.
        """
        output = self._asked.output
        with _alone(output):
            try:
                self._through()
            except OSError as error:  # as of a log that somebody has removed
                if str(error.filename or "").startswith(f"{output}{os.sep}"):
                    raise _output_error(error) from None
                raise
        return self.report

    def _through(self) -> None:
        asked, report = self._asked, self.report
        report.partial = "it is not finished"
        logs = _ours(asked.output)
        self._write(sure=True)  # by which the next one knows whose logs these are
        own = asked.output / _OWN  # not in the temporary directory, where it would stay if we are killed
        with _writing():
            for folder in (logs, own):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
        shared = asked.shared if asked.shared is not None or asked.where.hosts else own
        runner = Runner(asked.where, logs, uuid.uuid4().hex[:8])
        try:
            self._at("this machine")
            if not asked.where.hosts:
                report.topology = [facts.node(self._environ)]
            else:
                self._reach(runner)
            self._run(runner, shared)
            report.partial = ""
        except KeyboardInterrupt:
            report.partial = INTERRUPTED
        finally:
            try:
                runner.close()
            finally:
                shutil.rmtree(own, ignore_errors=True)
                self._rest()
                self._write(sure=True)

    def _reach(self, runner: Runner) -> None:
        """A host that is not there would fail each cell by itself, after a while. Raises JoinTimeoutError."""
        self._at("the hosts")
        try:
            launches.reach(runner)
        except JoinTimeoutError as error:
            self.report.partial = str(error)
            raise

    def _run(self, runner: Runner, shared: Path | None) -> None:
        asked = self._asked
        for cell in self._of(Job.LAUNCH):
            self._at(cell.name)
            begin = time.monotonic()
            result = launches.run(runner, cell, asked.spoil == cell.name)
            self._machines(runner)
            self._put([result], time.monotonic() - begin)
        if some := self._of(Job.TORCH):
            self._at(f"{len(some)} cell{'s' if len(some) != 1 else ''} of collectives and trainings")
            found, lines = collecting.run(runner, asked.mode, some, asked.only, asked.spoil)
            figures.fill(self.report, lines, asked.where.world)
            self._put(found)
        if some := self._of(Job.FAULTS):
            self._at("a training, for faults")
            self._put(faulting.run(runner, some, asked.spoil, shared, self._at))
            self._machines(runner)
        if some := [*self._of(Job.LAB), *self._of(Job.RAILS)]:
            begun = some, asked.mode, bool(asked.where.hosts), runner.folder, self._environ, asked.spoil
            self._put(laboratory.run(*begun, self._at, self.report.ports.append))

    def _machines(self, runner: Runner) -> None:
        """What the ranks have told of the nodes that they run on."""
        lines = [line for job in runner.jobs for line in job.lines()]
        self.report.topology = machines.machines(self.report.topology, lines)

    def _of(self, job: Job) -> Sequence[Cell]:
        return [cell for cell in self._cells if cell.job is job]

    def _put(self, results: Iterable[Result], seconds: float | None = None) -> None:
        for result in results:
            known = result if seconds is None else replace(result, seconds=round(seconds, 2))
            self.report.put([known])
            self._told(known)
            self._write()

    def _rest(self) -> None:
        """What nobody got to."""
        known = {result.name for result in self.report.cells}
        why = f"{NOT_REACHED}: {self.report.partial}"
        self.report.put(not_run(cell, why) for cell in self._cells if cell.name not in known)

    def _write(self, sure: bool = False) -> None:
        """Both files, each in one piece. Where that takes long, as of thousands of ranks, not for each cell."""
        begin = time.monotonic()
        if begin < self._next and not sure:
            return
        report, folder = self.report, self._asked.output
        report.seconds = round(begin - self._begin, 1)
        for name, text in (("report.json", written(report)), ("report.html", page(report))):
            beside = folder / f".{name}"
            with _writing():
                try:
                    beside.write_text(text, encoding="utf-8", errors="replace")
                    os.replace(beside, folder / name)
                except OSError:
                    with suppress(OSError):
                        beside.unlink()
                    raise
        now = time.monotonic()
        self._next = now + _REST * (now - begin)


def _ours(output: Path) -> Path:
    """The folder for logs, which is removed. Raises OutputError where it is somebody else's."""
    logs = output / "logs"
    if logs.exists():
        try:
            read((output / "report.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise OutputError(f"its {logs.name}/ is not of a qualification, and would be removed") from None
    return logs
