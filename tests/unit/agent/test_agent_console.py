"""What the agent says where nobody reads for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from elaunch.agent.console import Console


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        os.close(fd)


def _fill(write: int) -> int:
    """As a flood of what ranks print does; the number of bytes."""
    os.set_blocking(write, False)
    filled = 0
    try:
        while True:
            filled += os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
        return filled


def test_a_line_that_found_no_room_comes_before_the_next(pipe: tuple[int, int]) -> None:
    read, write = pipe
    filled = _fill(write)
    Console(write, patience=0.01).write("the first error\n")
    left = filled
    while left:
        left -= len(os.read(read, left))
    Console(write, patience=0.01).write("the report\n")
    assert os.read(read, 1000) == b"the first error\nthe report\n"


def test_what_is_kept_is_bounded_and_its_beginning(pipe: tuple[int, int]) -> None:
    read, write = pipe
    filled = _fill(write)
    console = Console(write, patience=0.01)
    console.write("the first error\n")
    for _ in range(400):
        console.write("y" * 1000 + "\n")
    assert sum(map(len, Console._held.values())) <= 1 << 18
    while filled:
        filled -= len(os.read(read, filled))
    console.write("")
    assert os.read(read, 16) == b"the first error\n"
    Console._held.clear()
