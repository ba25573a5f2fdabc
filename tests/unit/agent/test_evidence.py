"""Evidence is bounded in time, whatever hangs, and nobody's question spoils another's."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from elaunch.agent.evidence import Evidence, collect
from elaunch.agent.sight import RankFiles, Sight
from elaunch.agent.witness import Witness
from elaunch.progress import RankProgress
from elaunch.progress_page import Page


@contextmanager
def shared() -> Iterator[tuple[Sight, RankFiles]]:
    """What one rank shares with its agent."""
    files = RankFiles.make(0)
    page = Page.make(files.page)
    try:
        yield Sight(0, 0, page, files.page, os.getpid()), files
    finally:
        page.close()
        files.close()


def progress(*, attached: bool) -> RankProgress:
    return RankProgress(0, 0, os.getpid(), "S", attached=attached)


class Hanging(Witness):
    """What it printed is on a file system that does not answer."""

    hung = threading.Event()

    def errors(self) -> str:
        self.hung.wait()
        return ""


class Slow(Witness):
    """A loaded machine: each look takes long."""

    looks = 0

    def look(self) -> bool:
        type(self).looks += 1
        time.sleep(0.05)
        return False


def collected(witness: Callable[[Sight, RankFiles], Witness], folder: Path, within: float) -> Evidence:
    async def collecting(one: Witness) -> Evidence:
        return await asyncio.wait_for(collect([lambda: folder], [one], within), 20)

    with shared() as (sight, files):
        return asyncio.run(collecting(witness(sight, files)))


def test_output_on_a_file_system_that_hangs_keeps_nobody_waiting(tmp_path: Path) -> None:
    try:
        found = collected(lambda sight, files: Hanging(progress(attached=False), sight, files), tmp_path / "e", 0.5)
    finally:
        Hanging.hung.set()
    assert found.folder == ""
    assert "cannot be written in time" in found.text


def test_what_the_log_folder_does_not_take_is_saved_elsewhere(tmp_path: Path) -> None:
    """A folder that is gone for good, say, since its file system is."""
    (tmp_path / "file").touch()
    folders = [lambda: tmp_path / "file" / "evidence", lambda: tmp_path / "else"]

    async def collecting(one: Witness) -> Evidence:
        return await collect(folders, [one], 60.0)

    with shared() as (sight, files):
        found = asyncio.run(collecting(Witness(progress(attached=False), sight, files)))
    assert found.folder == str(tmp_path / "else")
    assert f"{tmp_path}/file" in found.text
    assert (tmp_path / "else" / "summary.txt").exists()


def test_what_a_rank_printed_is_saved(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    log.write_text("oh no\n")
    found = collected(lambda sight, files: Witness(progress(attached=False), sight, files, log), tmp_path / "e", 20.0)
    assert Path(found.folder, "rank0.stderr.txt").read_text() == "oh no\n"


def test_a_machine_that_is_slow_to_look_looks_less_often_not_longer(tmp_path: Path) -> None:
    collected(lambda sight, files: Slow(progress(attached=True), sight, files), tmp_path / "e", 1.0)
    assert 0 < Slow.looks <= 10, "of 0.3 s, at 0.05 s each"


def test_two_who_ask_side_by_side_both_see_the_answer() -> None:
    with shared() as (sight, files):
        first, second = (Witness(progress(attached=True), sight, files) for _ in range(2))
        first.ask()
        second.ask()
        assert not first.look()
        sight.page.answered = sight.page.asked
        assert first.look()
        assert second.look()
        assert (first.how, second.how) == ("thread", "thread")


def test_of_a_rank_that_tells_nothing_of_itself_its_age_is_known() -> None:
    with shared() as (sight, _):
        ages = [seen.progress_age for now in (100.0, 104.5) if (seen := sight.look(now)) is not None]
    assert ages == [0.0, 4.5]
