"""The job into which faults are injected, one after the other: what came of each is judged."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGUSR1

from elaunch.errors import ElaunchError, NoSuchJobError
from elaunch.inject.expecting import EXPECTED, Settings, expected
from elaunch.inject.fault import Fault
from elaunch.lab.jobs import Watched
from elaunch.qualify import progress
from elaunch.qualify.cells import Cell, Outcome, Result, failed, not_run, passed
from elaunch.qualify.courses import ENDED, course
from elaunch.qualify.judging import SLACK, Course, judge
from elaunch.qualify.lines import Line, of
from elaunch.qualify.matrix import HANG, ONCE, SAVES
from elaunch.qualify.running import PRELOAD, EndedError, Runner, RunningJob

PROGRAM = ("-m", "elaunch.qualify.programs.surviving")
SETTINGS = Settings(hang=HANG)
OPTIONS = (
    *("--allow-injection", "--max-restarts=1000", "--quarantine-faults=0", "--crash-loop=0", "--suspect-after=0"),
    *(f"--hang-timeout={HANG:g}", "--straggler-factor=100"),
)
_STARTS = 120.0  # seconds for a generation to come to a step, on a machine that is busy
_AGAIN = Fault("kill", rank=1, at="save")
"""After it some steps are surely done again, as the cells about progress need: a save has begun, and never ends."""


def run(
    runner: Runner, cells: Sequence[Cell], spoil: str, shared: Path | None, tell: Callable[[str], None]
) -> Iterator[Result]:
    """The results of the faults and of the progress over them, each as soon as it is known."""
    with _checkpoints(shared, runner.tag) as folder:
        yield from _results(runner, cells, spoil, folder, tell)


@contextmanager
def _checkpoints(shared: Path | None, tag: str) -> Iterator[Path | None]:
    """A directory for checkpoints in ``shared``, which is not ours: what else is there stays as it is."""
    if shared is None:
        yield None
        return
    folder = shared / f"elaunch-qualify-{tag}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _results(
    runner: Runner, cells: Sequence[Cell], spoil: str, folder: Path | None, tell: Callable[[str], None]
) -> Iterator[Result]:
    wanted = [cell for cell in cells if cell.fault is not None]
    if folder is not None and len(wanted) < len(cells) and not any(cell.fault == _AGAIN for cell in wanted):
        wanted.append(Cell("faults/kill/save", "", cells[0].job, _AGAIN))
    told: set[str] = set()
    job = runner.start("faults", *OPTIONS, PRELOAD, *PROGRAM, str(folder or "-"), OMP_NUM_THREADS="1")
    try:
        with closing(Watched(job.name, [job.endpoint])) as watched:
            session = _Session(runner, job, watched, folder is not None)
            session.working(1)
            for cell in wanted:
                tell(cell.name)
                told.add(cell.name)
                try:
                    result = session.result(cell, spoil == cell.name)
                except (ElaunchError, EndedError, TimeoutError) as error:
                    if cell in cells:
                        yield failed(cell, _sentence(error))
                    raise
                if cell in cells:
                    yield result
                if result.outcome is Outcome.FAILED:
                    session.begin_anew()
            watched.command("signal", signal=int(SIGUSR1))
            code = job.wait(60.0)
    except (ElaunchError, EndedError, TimeoutError) as error:
        left = [cell for cell in wanted if cell in cells and cell.name not in told]
        if left and not told:
            yield failed(left.pop(0), f"the job did not come to work: {_sentence(error)}")
        yield from (not_run(cell, f"the job broke off before: {_sentence(error)}") for cell in left)
        code = -1
    finally:
        job.end()
    tell("progress")
    yield from _progress(cells, job.lines(), folder, code, spoil)


class _Session:
    """One job, one fault at a time."""

    def __init__(self, runner: Runner, job: RunningJob, watched: Watched, saves: bool) -> None:
        self._runner, self._job, self._watched, self._saves = runner, job, watched, saves

    def working(self, generation: int) -> None:
        """Wait until a rank of it, or of a later one, has told a loss; with checkpoints until there is one."""

        def works(lines: list[Line]) -> bool:
            return any(one["generation"] >= generation for one in of(lines, "loss"))

        self._job.until(f"a step of generation {generation}", works, _STARTS)

    def result(self, cell: Cell, spoiled: bool) -> Result:
        fault = cell.fault
        assert fault is not None
        if why := self._impossible(fault):
            return not_run(cell, why)
        fault = self._aimed(fault)
        before = self._generation()
        begin = time.monotonic()
        seen = self._watched.events()
        last = seen[-1].seq if seen else 0
        code = text = lapsed = ""
        worked: float | None = None
        if fault.at in SAVES:
            self._watched.until("a checkpoint", lambda job: job.events("checkpoint_committed"), _STARTS)
        if not spoiled:
            self._watched.inject(fault)
        if fault.at in ONCE:  # the next generation comes there
            self._watched.command("restart")
            self._watched.running(before + 1, _STARTS)
            before += 1
        bound = expected(fault, SETTINGS).within(SETTINGS) + SLACK
        try:
            if spoiled:
                bound = 3.0
            if expected(fault, SETTINGS).generation == "next":
                self._watched.until("the next generation", lambda job: self._generation() > before, bound + _STARTS / 2)
                seen_plan = self._watched.look().plan
                if seen_plan is not None:
                    code, text = seen_plan.reason.code, seen_plan.reason.text
                self.working(before + 1)
                self._watched.until("its work", lambda job: self._told("job_working", last, before + 1), 20.0)
            else:
                self._watched.until("its end", lambda job: self._told(ENDED, last, 0), bound + fault.seconds)
                worked = self._goes_on()
        except TimeoutError as error:
            lapsed = str(error).splitlines()[0]
        after = self._generation()
        lines = [line for line in self._watched.events() if line.seq > last]
        found: Course = course(
            fault, lines, before, after, code, text, hosts=(fault.node,) if fault.node else self._hosts()
        )
        lost = progress.lost_steps(self._job.lines(), before, after) if self._saves and after != before else None
        found = replace(found, lost_steps=lost, lapsed=lapsed, worked=worked if after == before else found.worked)
        return replace(judge(cell, fault, found, SETTINGS), seconds=round(time.monotonic() - begin, 2))

    def _goes_on(self) -> float:
        """Wait for one more step; the wall-clock seconds at which it was seen. Raises TimeoutError, EndedError."""
        done = len(of(self._job.lines(), "loss"))
        self._job.until("one more step", lambda lines: len(of(lines, "loss")) > done, _STARTS)
        return time.time()

    def _aimed(self, fault: Fault) -> Fault:
        if fault.what.target != "node":
            return replace(fault, rank=min(fault.rank, self._runner.where.world - 1))
        seen = self._watched.look()
        leads = seen.leader.node_id if seen.leader is not None else ""
        others = [node for node in seen.nodes if node.node_id != leads]  # the first one leads, and has the job's etcd
        if not others:
            raise NoSuchJobError(f"{fault.kind}: the job has no node but the one that leads")
        last = others[-1]
        return replace(fault, node=last.host, seconds=math.ceil(EXPECTED[fault.kind].within(SETTINGS)) + 1.0)

    def begin_anew(self) -> None:
        """After a fault that did not come out as it should: whatever it has left is gone with the generation."""
        before = self._generation()
        self._watched.command("restart")
        self.working(before + 1)

    def _impossible(self, fault: Fault) -> str:
        if fault.at in SAVES and not self._saves:
            return "needs a directory that all hosts share: --shared DIR"
        return ""

    def _generation(self) -> int:
        state = self._watched.look().state
        return state.generation if state is not None else 0

    def _told(self, code: str, after: int, generation: int) -> bool:
        return any(line.seq > after and line.generation >= generation for line in self._watched.events(code))

    def _hosts(self) -> tuple[str, ...]:
        return tuple(node.host for node in self._watched.look().nodes)


def _progress(cells: Sequence[Cell], lines: list[Line], folder: Path | None, code: int, spoil: str) -> Iterator[Result]:
    for cell in cells:
        if cell.fault is not None:
            continue
        if folder is None:
            yield not_run(cell, "needs a directory that all hosts share: --shared DIR")
            continue
        told = _spoiled(lines) if spoil == cell.name else lines
        if cell.name == "checkpoint/identical":
            count, wrong = progress.identical(told)
            if code and not wrong:
                wrong = f"the job did not end well: {code}"
            if not count and not wrong:
                wrong = "no step was done a second time"
            said = f"{count} steps were done again"
        else:
            count, wrong = progress.undisturbed(told)
            if not count and not wrong:
                wrong = f"the undisturbed run has no step in common with the job, which ended with {code}"
            said = f"{count} steps compared"
        yield failed(cell, wrong) if wrong else passed(cell, reason=said)


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _spoiled(lines: list[Line]) -> list[Line]:
    return [{**one, "loss": one["loss"] + one["generation"]} if one["kind"] == "loss" else one for one in lines]
