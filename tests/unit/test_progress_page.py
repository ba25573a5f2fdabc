"""The page of a rank: what is written is read, and nothing that stands in it can hurt its reader."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.beat_record import Beat
from elaunch.progress import GroupProgress
from elaunch.progress_page import SIZE, Notice, OpenSection, Page

GROUPS = st.builds(
    GroupProgress,
    name=st.text(max_size=40),
    size=st.integers(0, 2**32 - 1),
    started=st.integers(0, 2**64 - 1),
    finished=st.integers(0, 2**64 - 1),
    collective=st.text(max_size=40),
    ranks=st.lists(st.integers(0, 2**20), unique=True, max_size=20).map(tuple),
)


class Both:
    """A page as its rank and as its agent see it."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("test")
        self.written = Page.make(self.fd)
        self.read = Page(self.fd)

    def close(self) -> None:
        self.written.close()
        self.read.close()
        os.close(self.fd)


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Both]:
    made = Both()
    yield made
    made.close()


def printable(text: str) -> str:
    return text.encode(errors="replace")[:255].decode(errors="replace")


@settings(deadline=None)
@given(groups=st.lists(GROUPS, max_size=8), where=st.text(max_size=100), seconds=st.floats(0, 1e9))
def test_a_beat_is_read_as_it_was_written(
    shared: Both, groups: list[GroupProgress], where: str, seconds: float
) -> None:
    beat = Beat(1, 2, seconds, seconds / 2, where, tuple(groups))
    shared.written.write_beat(beat)
    found = shared.read.beat()
    assert found is not None
    assert found.where == printable(where)
    assert [(g.size, g.started, g.finished, g.ranks) for g in found.groups] == [
        (g.size, g.started, g.finished, g.ranks) for g in groups
    ]
    assert [g.name for g in found.groups] == [printable(g.name) for g in groups]
    assert (found.own_seconds, found.waited_seconds) == (seconds, seconds / 2)


def test_an_empty_page_tells_nothing(both: Both) -> None:
    page = both.read
    assert (page.beat(), page.sections(), page.notice(), page.step, page.signal) == (None, (), None, -1, 0)


def test_sections_steps_and_notices_pass_between_the_processes(both: Both) -> None:
    sections = (OpenSection(1, "epoch"), OpenSection(2, "checkpoint", 600.0))
    both.written.write_sections(sections)
    both.written.step = 2**40
    both.read.write_notice(Notice(12.5, "drain"))
    assert both.read.sections() == sections
    assert both.read.step == 2**40
    assert both.written.notice() == Notice(12.5, "drain")
    assert both.written.noticed
    both.written.stopping = 1
    both.read.write_notice(None)
    assert (both.written.notice(), both.written.noticed, both.written.stopping) == (None, 0, 0)


def test_what_does_not_fit_is_left_out(both: Both) -> None:
    groups = tuple(GroupProgress(f"group {n}", 8, n, n, "x" * 200, tuple(range(0, 80, 7))) for n in range(1000))
    both.written.write_beat(Beat(7, where="y" * 1000, groups=groups))
    found = both.read.beat()
    assert found is not None
    assert 50 < len(found.groups) < 1000
    assert found.groups == groups[: len(found.groups)]
    sections = [OpenSection(n, "z" * 255) for n in range(1000)]
    both.written.write_sections(sections)
    assert both.read.sections()[0] == sections[0]


def test_a_half_written_record_leaves_the_one_before(both: Both) -> None:
    """As where the rank is killed in the middle of a write: after each byte of it."""
    both.written.write_beat(Beat(1, where="first"))
    before = os.pread(both.fd, SIZE, 0)
    both.written.write_beat(Beat(2, where="second"))
    after = os.pread(both.fd, SIZE, 0)
    changed = [n for n in range(SIZE) if before[n] != after[n]]
    for count in range(len(changed)):
        os.pwrite(both.fd, before, 0)
        for n in changed[:count]:
            os.pwrite(both.fd, after[n : n + 1], n)
        found = both.read.beat()
        assert found is not None
        assert (found.beats, found.where) == (1, "first")


@pytest.mark.parametrize("seed", range(20))
def test_garbage_is_survived(both: Both, seed: int) -> None:
    chance = random.Random(seed)
    both.written.write_beat(Beat(3, where="train.py:1 in f", groups=(GroupProgress("0", 2, 1, 0, "", (1, 2)),)))
    both.written.write_sections([OpenSection(1, "s", 1.0)])
    both.written.write_notice(Notice(1.0, "r"))
    whole = os.pread(both.fd, SIZE, 0)
    for _ in range(200):
        first = chance.randrange(SIZE)
        noise = chance.randbytes(chance.choice((1, 8, 4096)))[: SIZE - first]
        os.pwrite(both.fd, noise, first)
        both.read.beat()
        both.read.sections()
        both.read.notice()
        Page(both.fd).close() if os.pread(both.fd, 8, 0) == whole[:8] else None
    os.pwrite(both.fd, chance.randbytes(SIZE), 0)
    assert both.read.beat() is None


def test_valid_checksums_over_nonsense_are_survived(both: Both) -> None:
    """A program that wants to hurt its agent can write those too."""
    chance = random.Random(5)
    for _ in range(2000):
        both.written._beat.write(chance.randbytes(chance.randrange(200)))
        both.read.beat()
        both.written._sections.write(chance.randbytes(chance.randrange(200)))
        both.read.sections()


@pytest.mark.parametrize(("size", "head"), [(SIZE, b"something"), (SIZE + 1, b"elaunch\x01"), (0, b"")])
def test_another_file_is_no_page(size: int, head: bytes) -> None:
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, size)
        os.pwrite(fd, head[:size], 0)
        with pytest.raises(ValueError, match="no page of elaunch"):
            Page(fd)
    finally:
        os.close(fd)
