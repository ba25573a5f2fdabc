"""A person hears once that the log folder is in trouble."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from pathlib import Path

import pytest
import structlog

from elaunch.agent import log_watch
from elaunch.agent.options import LogOptions
from elaunch.agent.streams import LogFolder


class Counting(LogFolder):
    """Tells when it was looked at."""

    looked: queue.Queue[str]

    def trouble(self) -> str:
        found = super().trouble()
        self.looked.put(found)
        return found


def test_a_folder_that_vanishes_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_watch, "_LOOK_SECONDS", 0.001)
    folder = Counting("job", LogOptions(str(tmp_path / "logs")))

    folder.looked = queue.Queue()

    async def looks(count: int) -> None:
        for _ in range(count):
            await asyncio.to_thread(folder.looked.get, timeout=20)

    async def watched() -> None:
        async with log_watch.watching(folder):
            folder.prepare(0, 1)
            await looks(3)
            assert said == []
            (tmp_path / "logs").rename(tmp_path / "gone")  # in one step: a look has its own file in there
            await looks(5)

    with structlog.testing.capture_logs() as said:
        asyncio.run(watched())
    (line,) = said
    assert (line["event"], line["log_level"]) == ("log_folder", "warning")
    assert line["reason"] == f"{folder.attempt}: No such file or directory"


class Hanging(LogFolder):
    """Its file system hangs until it is told otherwise."""

    looks = 0
    back = threading.Event()

    def trouble(self) -> str:
        self.looks += 1
        self.back.wait()
        return ""


def test_a_file_system_that_hangs_is_told_once_and_takes_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_watch, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(log_watch, "_PATIENCE", 0.01)
    folder = Hanging("job", LogOptions(str(tmp_path / "logs")))

    async def watched() -> None:
        async with log_watch.watching(folder):
            deadline = time.monotonic() + 60
            while not said:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)  # some twenty looks, were each begun

    try:
        with structlog.testing.capture_logs() as said:
            asyncio.run(watched())
    finally:
        Hanging.back.set()
    assert folder.looks == 1
    (line,) = said
    assert "does not answer" in line["reason"]
