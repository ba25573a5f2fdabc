"""Reading and writing in earnest is work; a few lines of a log are not."""

from __future__ import annotations

import os
from pathlib import Path

from elaunch.agent.traffic import LEAST, Traffic


def test_a_long_copy_is_seen_and_a_log_is_not(tmp_path: Path) -> None:
    traffic, me = Traffic(), os.getpid()
    before = traffic.look(me, 100.0)
    with (tmp_path / "log").open("w") as log:
        log.write("a line\n" * 100)
    assert traffic.look(me, 101.0) == before
    (tmp_path / "checkpoint").write_bytes(bytes(2 * LEAST))
    assert traffic.look(me, 102.0) == before + 1
    (tmp_path / "checkpoint").write_bytes(bytes(2 * LEAST))
    assert traffic.look(me, 202.0) == before + 1, "that was a hundred seconds' worth"


def test_another_process_begins_anew_and_a_dead_one_is_no_error() -> None:
    traffic = Traffic()
    first = traffic.look(os.getpid(), 1.0)
    assert traffic.look(1, 2.0) == first
    assert traffic.look(2**22 + 1, 3.0) == first
