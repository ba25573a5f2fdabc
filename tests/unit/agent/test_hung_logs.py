"""A log folder on a file system that hangs: the agent does not hang with it, and a job that runs already goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from elaunch.agent import exit_reports, preparation
from elaunch.agent.aside import aside
from elaunch.agent.options import LaunchOptions, LogOptions, RendezvousConf, Streams
from elaunch.agent.preparation import LaunchPreparation
from elaunch.agent.program import Program
from elaunch.agent.streams import Attempt, LogFolder
from elaunch.controller.commands import Start
from elaunch.errors import StartError


class Hanging(LogFolder):
    """Whose file system hangs once it is told to, but for the temporary folder."""

    hung = False
    looks = 0
    back = threading.Event()

    def make(self, restart_count: int, local_world_size: int, *, elsewhere: bool = False) -> Attempt:
        if self.hung and not elsewhere:
            self.back.wait()
        return super().make(restart_count, local_world_size, elsewhere=elsewhere)

    def trouble(self) -> str:
        self.looks += 1
        if self.hung:
            self.back.wait()
        return ""


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchPreparation]:
    async def impatient(work: Any, seconds: float) -> Any:
        """Only what hangs is to be given up."""
        hangs = made.folder.hung and not work.keywords["elsewhere"]
        return await aside(work, 0.2 if hangs else 60.0)

    monkeypatch.setattr(preparation, "aside", impatient)
    monkeypatch.setattr(exit_reports, "TROUBLE_SECONDS", 0.2)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    logs = LogOptions(str(tmp_path / "logs"), (Streams.BOTH,))
    program = Program("script", "train.py", (), "python")
    options = LaunchOptions(program, 1, 1, 1, "job", "c10d", (), True, RendezvousConf(), logs)
    made = LaunchPreparation(options, {})
    made.folder = Hanging("job", logs)
    yield made
    Hanging.back.set()
    Hanging.back = threading.Event()
    made.pages.close()


def start(generation: int) -> Start:
    return Start(generation, 0, 0, 1, 0, 1, 0, 1, "127.0.0.1", 1, False, "test")


async def out(made: LaunchPreparation, generation: int) -> str:
    """Where a rank's output goes."""
    (rank,), output = await made.ranks(start(generation))
    await output.close()
    return str(rank.stdout)


def test_the_next_generation_goes_elsewhere(prepared: LaunchPreparation, tmp_path: Path) -> None:
    async def play() -> tuple[str, str]:
        first = await out(prepared, 1)
        prepared.folder.hung = True
        return first, await asyncio.wait_for(out(prepared, 2), 10)

    with structlog.testing.capture_logs() as said:
        first, second = asyncio.run(play())
    assert first.startswith(f"{tmp_path}/logs/job_")
    assert second.startswith(f"{tmp_path}/elaunch_")
    (line,) = (line for line in said if line["log_level"] == "warning")
    assert (line["event"], line["folder"]) == ("log_folder_lost", first.partition("/attempt_")[0])
    assert line["reason"] == "its file system does not answer"
    assert second.startswith(line["instead"])


def test_the_first_generation_is_refused(prepared: LaunchPreparation) -> None:
    prepared.folder.hung = True
    with pytest.raises(StartError, match="does not answer; give another --log-dir"):
        asyncio.run(asyncio.wait_for(prepared.ranks(start(1)), 10))


def test_ranks_that_fail_together_are_looked_at_once(
    prepared: LaunchPreparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told of the last of them decides, with the others', what has happened: it must not come late."""
    monkeypatch.setattr(exit_reports, "TROUBLE_SECONDS", 60.0)

    async def play() -> None:
        await out(prepared, 1)
        for _ in range(8):
            await prepared.look()

    asyncio.run(play())
    assert prepared.folder.looks == 1


def test_a_failure_is_told_without_what_is_on_it(prepared: LaunchPreparation) -> None:
    async def play() -> None:
        await out(prepared, 1)
        prepared.folder.hung = True
        await asyncio.wait_for(prepared.look(), 10)

    asyncio.run(play())
    end = exit_reports.Exit(0, 5, 3, 1.0, 1)
    assert "does not answer" in prepared.describe(end, start(1)).message
