"""Which process is the rank: the first that claims the page that its agent made, and none forked from it."""

from __future__ import annotations

import fcntl
import os
import stat
import threading

from elaunch.progress_page import PAGE, SIZE, Page

_lock = threading.RLock()  # reentrant: a signal handler may ask as well
_tried = False
_page: Page | None = None


def claim() -> Page | None:
    """This process's page; None where it is no rank of elaunch, or another process of the rank was first.

    The claim is a lock that ends with the process, so a short-lived one (a script that asks torch for the number of
    devices, say) leaves the page to whoever comes next. Asked again, the answer is the same.
    """
    global _tried, _page
    if not _tried:
        with _lock:
            if not _tried:
                _page = _claim(os.environ.get(PAGE, ""))
                _tried = True
    return _page


def begin() -> None:
    """In a process that was forked to be a rank: it may claim its page, though its parent had imported this."""
    global _tried
    _tried = False


def _claim(path: str) -> Page | None:
    try:
        # The path is a descriptor of the agent's: if that is another file by now, it must not be opened.
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_size != SIZE:
            return None
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None  # no elaunch, or none that this process can see
    try:
        page = Page(fd)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, ValueError):
        os.close(fd)
        return None
    page.signal = page.silent = 0
    page.step = -1
    page.write_sections(())
    if inject := os.environ.get("ELAUNCH_INJECT"):  # only in a job that allows it
        from elaunch.inject import points

        points.begin(inject)
    return page


def _forget() -> None:
    """In a forked child: what it inherited is its parent's."""
    global _lock, _tried, _page
    _lock, _tried, _page = threading.RLock(), True, None


os.register_at_fork(after_in_child=_forget)
