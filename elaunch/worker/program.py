"""What a program can tell elaunch, and ask it: steps, sections, notice to stop. Does nothing without elaunch."""

from __future__ import annotations

import itertools
import operator
import os
import sys
import threading
import time
from types import TracebackType

from elaunch.inject import points
from elaunch.progress_page import OpenSection
from elaunch.worker import progress
from elaunch.worker.spared import spare

_numbers = itertools.count(1)
_open: list[OpenSection] = []
_lock = threading.RLock()  # reentrant: a signal handler may open a section as well


def step(number: int) -> None:
    """Say that the program is at this step. Raises TypeError for what is no integer."""
    number = operator.index(number)
    page = progress.attach()
    if page is not None:
        page.step = number
        points.reached("step", number)


class section:
    """``with elaunch.section("checkpoint", timeout=600):`` the program may be in it for so many seconds.

    Sections may be nested, and opened by several threads: each one's deadline counts. Without a timeout only the name
    is told. Raises ValueError for a timeout that is not positive.
    """

    def __init__(self, name: str, timeout: float | None = None) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(f"elaunch.section({name!r}): timeout={timeout} must be more than 0 seconds")
        self._name = str(name)
        self._timeout = None if timeout is None else float(timeout)
        self._entered: list[OpenSection] = []

    def __enter__(self) -> section:
        entered = OpenSection(next(_numbers), self._name, self._timeout)
        self._entered.append(entered)
        _update(opened=entered)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _update(closed=self._entered.pop())


def should_stop(agree: bool = False) -> bool:
    """Whether the program has been given notice: it should save what it has and exit. elaunch is told that it asked.

    Notice reaches the ranks at moments of their own, between different steps perhaps. With ``agree`` every rank of the
    default process group must ask, as for any collective, and all get the same answer: true once one was given notice.
    """
    page = progress.attach()
    if page is not None and not page.listens:
        spare(page)
        page.listens = 1
    noticed = page is not None and bool(page.noticed)
    if agree:
        noticed = _any_rank(noticed)
    if noticed and page is not None:
        page.stopping = 1
    return noticed


def _any_rank(value: bool) -> bool:
    """Whether ``value`` is true on any rank; this one's where there is no process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return value
    torch = sys.modules["torch"]
    device = "cpu" if "gloo" in distributed.get_backend() else torch.accelerator.current_accelerator()
    flag = torch.tensor([int(value)], device=device)
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return bool(flag.item())


def time_left() -> float | None:
    """Seconds until the ranks are stopped, 0 where that is over; None without notice."""
    page = progress.attach()
    notice = page.notice() if page is not None and page.noticed else None
    return max(0.0, notice.deadline - time.monotonic()) if notice is not None else None


def _update(*, opened: OpenSection | None = None, closed: OpenSection | None = None) -> None:
    page = progress.attach()
    if page is None:
        return
    with _lock:
        if opened is not None:
            _open.append(opened)
        elif closed in _open:  # not so in a child forked inside of the section
            _open.remove(closed)
        page.write_sections(_open)


def _forget() -> None:
    """In a forked child: the sections are its parent's, and so may be the lock."""
    global _lock
    _lock = threading.RLock()
    _open.clear()


os.register_at_fork(after_in_child=_forget)
