"""Log folders and tailing: which stream is a file, which is shown, and that all of it is."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
from pathlib import Path

import pytest

from elaunch.agent.options import LogOptions, Streams
from elaunch.agent.streams import LogFolder, RankStreams
from elaunch.agent.tail import Sink, Tailer
from elaunch.errors import StartError

BOTH, OUT, ERR, NONE = Streams.BOTH, Streams.OUT, Streams.ERR, Streams.NONE
NULL = Path(os.devnull)


def test_every_generation_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = LogFolder("a/job", LogOptions(str(tmp_path / "logs"), (BOTH, NONE), (NONE, OUT)))
    first = folder.prepare(0, 2)
    folder.prepare(1, 2)
    second = folder.prepare(1, 2)
    run = folder.path
    assert run is not None
    assert run.name.startswith("a_job_")
    assert first[0] == RankStreams(
        run / "attempt_0/0/stdout.log", run / "attempt_0/0/stderr.log", run / "attempt_0/0/error.json", NONE
    )
    assert second[1] == RankStreams(run / "attempt_1.2/1/stdout.log", None, run / "attempt_1.2/1/error.json", OUT)
    assert sorted(path.name for path in run.iterdir()) == ["attempt_0", "attempt_1", "attempt_1.2"]
    assert folder.attempt == run / "attempt_1.2"
    folder.remove_unused()
    assert run.exists()


def test_a_filter_hides_the_console_and_keeps_the_file(tmp_path: Path) -> None:
    options = LogOptions(str(tmp_path), (NONE, OUT, NONE), (NONE, ERR, ERR), shown=frozenset({2}))
    streams = LogFolder("job", options).prepare(1, 3)
    assert (streams[0].stdout, streams[0].stderr) == (NULL, NULL)
    assert streams[1].stdout is not None
    assert streams[1].stdout.name == "stdout.log"
    assert streams[1].tail == NONE
    assert (streams[2].stdout, streams[2].tail) == (None, ERR)


def test_without_files(tmp_path: Path) -> None:
    folder = LogFolder("job", LogOptions(os.devnull, (BOTH,), (BOTH,), shown=frozenset({0})))
    streams = folder.prepare(1, 2)
    assert streams == {0: RankStreams(None, None, None, NONE), 1: RankStreams(NULL, NULL, None, NONE)}
    assert (folder.path, folder.attempt) == (None, None)


def test_a_temporary_folder_goes_unless_it_was_asked_for() -> None:
    unused = LogFolder("job", LogOptions())
    unused.prepare(1, 1)
    used = LogFolder("job", LogOptions(redirects=(OUT,)))
    used.prepare(1, 1)
    assert unused.path is not None
    assert used.path is not None
    for folder in (unused, used):
        folder.remove_unused()
    assert (unused.path.parent.exists(), used.path.parent.exists()) == (False, True)
    for path in sorted(used.path.parent.rglob("*"), reverse=True):
        path.rmdir()
    used.path.parent.rmdir()


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="give another --log-dir"):
        LogFolder("job", LogOptions(str(tmp_path / "file"))).prepare(1, 1)


class Tailing:
    """A tailer of one stream of two local ranks."""

    def __init__(self, folder: Path, *filters: str) -> None:
        self.files = {n: folder / f"{n}.log" for n in range(2)}
        self.out, self.filtered = io.StringIO(), io.StringIO()
        streams = {n: RankStreams(path, None, None, OUT) for n, path in self.files.items()}
        sinks = [Sink(self.out), *([Sink(self.filtered, filters)] if filters else [])]
        self.tailer = Tailer(streams, {0: "[a0]:", 1: "[a1]:"}, sinks, [])
        self.tailer.start()

    def stop(self) -> list[str]:
        assert asyncio.run(self.tailer.stop())
        return self.out.getvalue().split("\n")


def test_all_lines_are_shown_whole(tmp_path: Path) -> None:
    tailing = Tailing(tmp_path)
    with tailing.files[0].open("wb", buffering=0) as file:
        for part in (b"one\ntw", b"o\r\nth\xc3", b"\xa9\xff\n", b"10%\r20%\r", b"\nlast"):
            file.write(part)
    lines = tailing.stop()
    assert lines == ["[a0]:one", "[a0]:two", "[a0]:th\xe9\ufffd", "[a0]:10%", "[a0]:20%", "[a0]:last", ""]


def test_what_was_written_just_before_the_end_is_shown(tmp_path: Path) -> None:
    tailing = Tailing(tmp_path)
    expected = {n: [f"[a{n}]:{n} {i}" for i in range(20_000)] for n in range(2)}
    for n, path in tailing.files.items():
        path.write_text("".join(f"{n} {i}\n" for i in range(20_000)))
    lines = tailing.stop()
    for n in range(2):
        assert [line for line in lines if line.startswith(f"[a{n}]")] == expected[n]


def test_filters_choose_lines(tmp_path: Path) -> None:
    tailing = Tailing(tmp_path, "loss", "acc")
    tailing.files[1].write_text("loss=1\nother\nacc, 5\n")
    assert len(tailing.stop()) == 4
    assert tailing.filtered.getvalue() == "[a1]:loss=1\n[a1]:acc, 5\n"


def test_a_line_without_end_is_passed_on_in_pieces(tmp_path: Path) -> None:
    tailing = Tailing(tmp_path)
    tailing.files[0].write_text("x" * 3_000_000)
    lines = tailing.stop()
    assert sum(line.count("x") for line in lines) == 3_000_000
    assert max(map(len, lines)) < 2_000_000


def test_a_folder_that_has_vanished_is_made_anew(tmp_path: Path) -> None:
    folder = LogFolder("job", LogOptions(str(tmp_path / "logs"), (BOTH,)))
    first = folder.prepare(0, 1)[0].stdout
    assert first is not None
    shutil.rmtree(tmp_path / "logs")
    assert folder.trouble() == f"{first.parent.parent}: No such file or directory"
    second = folder.prepare(1, 1)[0].stdout
    assert second is not None
    assert second.parent.is_dir()
    assert folder.trouble() == ""


def test_a_temporary_folder_outlives_the_scratch_that_it_was_to_be_in(tmp_path: Path) -> None:
    """As when /tmp is cleaned under a running job."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folder = LogFolder("job", LogOptions(), scratch)
    folder.prepare(0, 1)
    shutil.rmtree(scratch)
    folder.prepare(1, 1)
    assert folder.attempt is not None
    assert folder.attempt.is_dir()
    folder.remove_unused()
    assert not folder.attempt.exists()
