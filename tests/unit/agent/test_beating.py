"""The beat that a kubelet's probes read, on a disk that is full for a while."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from elaunch.agent import beating
from elaunch.agent.beating import Beat
from elaunch.rendezvous.waiting import cancelled
from elaunch.schedulers.probe_file import VARIABLE, ProbeFile, probe


def test_a_disk_that_was_full_is_no_reason_to_beat_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the kubelet ends a node that trains, half a minute later."""
    path = str(tmp_path / "beat")
    monkeypatch.setattr(beating, "SECONDS", 0.01)
    real, tries = os.pwrite, 0

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)

    async def run() -> None:
        task = asyncio.create_task(Beat(ProbeFile(path)).run())
        deadline = asyncio.get_running_loop().time() + 10
        while not probe("live", {VARIABLE: path})[0]:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.01)
        await cancelled(task)

    with capture_logs() as logs:
        asyncio.run(run())
    assert [line["event"] for line in logs] == ["no_probe_file"]
