"""The rank's thread and forks of the program: however many fork at once, the thread looks on afterwards."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Iterator

import pytest

from elaunch.worker import progress


class Watch:
    """One that has only its lock."""

    def __init__(self) -> None:
        self.looking = _thread.allocate_lock()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    watch = Watch()
    monkeypatch.setattr(progress, "_watch", watch)
    yield watch
    assert not progress._forking


def test_two_threads_that_fork_at_once_leave_the_look_free(watch: Watch) -> None:
    """What the second one does not get it must not take away from the first."""
    progress._before_fork()
    assert watch.looking.locked()

    def fork() -> None:
        progress._before_fork()
        progress._after_fork()

    other = threading.Thread(target=fork)
    other.start()
    other.join()
    assert watch.looking.locked(), "still held up by the first"
    progress._after_fork()
    assert not watch.looking.locked()


def test_a_fork_that_came_in_the_middle_of_a_look_does_not_end_it(watch: Watch) -> None:
    watch.looking.acquire()
    progress._before_fork()
    progress._after_fork()
    assert watch.looking.locked()
