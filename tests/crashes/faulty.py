"""Below the storage: what a process does to files under one directory, counted, and disturbed at a chosen operation.

``os`` itself is changed, so that pathlib and shutil are seen as well; only in processes that end after it.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BY_PATH = ("mkdir", "rmdir", "unlink", "rename", "link", "open", "listdir", "stat")
_BY_FD = ("write", "fsync", "preadv")
CHANGING = frozenset({"mkdir", "rmdir", "unlink", "rename", "link", "create", "write", "fsync"})
NEEDING_SPACE = frozenset({"mkdir", "link", "create", "write"})


@dataclass
class Disk:
    """``act`` is called before each operation with its kind, its path and what would do half of it, ``after`` is
    called after it with its kind, path, arguments and result.
    """

    root: Path
    act: Callable[[str, str, Callable[[], None]], None] = lambda kind, path, half: None
    after: Callable[[str, str, tuple[Any, ...], Any], None] = lambda kind, path, args, result: None
    done: list[tuple[str, str]] = field(default_factory=list)

    @contextlib.contextmanager
    def watched(self) -> Iterator[Disk]:
        saved = {name: getattr(os, name) for name in (*_BY_PATH, *_BY_FD)}
        opened = io.open
        for name in _BY_PATH:
            setattr(os, name, self._by_path(name, saved[name]))
        for name in _BY_FD:
            setattr(os, name, self._by_fd(name, saved[name]))
        io.open = self._opening(opened)  # type: ignore[assignment]
        try:
            yield self
        finally:
            io.open = opened
            for name, real in saved.items():
                setattr(os, name, real)

    def _note(self, kind: str, path: str, half: Callable[[], None]) -> None:
        self.done.append((kind, path))
        self.act(kind, path, half)

    def _by_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            full = self._full(path, kwargs.get("dir_fd"))
            if full is None:
                return real(path, *args, **kwargs)
            kind = "create" if name == "open" and args and args[0] & os.O_CREAT else name
            self._note(kind, full, lambda: None)
            result = real(path, *args, **kwargs)
            self.after(kind, full, args, result)
            return result

        return call

    def _by_fd(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(fd: int, *args: Any) -> Any:
            full = self._full(_where(fd), None)
            if full is None:
                return real(fd, *args)
            half = (lambda: real(fd, args[0][: len(args[0]) // 2])) if name == "write" else (lambda: None)
            self._note(name, full, half)
            result = real(fd, *args)
            self.after(name, full, args, result)
            return result

        return call

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            full = self._full(path, None) if isinstance(path, str | os.PathLike) else None
            if full is not None:
                self._note("open", full, lambda: None)
            return real(path, *args, **kwargs)

        return call

    def _full(self, path: Any, dir_fd: int | None) -> str | None:
        if isinstance(path, int):
            path = _where(path)
        full = os.path.join(_where(dir_fd) if dir_fd is not None else "", os.fspath(path))
        return full if full.startswith(str(self.root)) else None


def _where(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def at(number: int, action: Callable[[str], None]) -> Callable[[str, str, Callable[[], None]], None]:
    """Act at the operation of this number, counted from 0; a write is half done before."""
    left = [number]

    def act(kind: str, path: str, half: Callable[[], None]) -> None:
        left[0] -= 1
        if left[0] == -1:
            half()
            action(path)

    return act


def from_then(
    number: int, kinds: frozenset[str], action: Callable[[str], None]
) -> Callable[[str, str, Callable[[], None]], None]:
    """Act at each operation of these kinds from this number on."""
    left = [number]

    def act(kind: str, path: str, half: Callable[[], None]) -> None:
        left[0] -= 1
        if left[0] < 0 and kind in kinds:
            half()
            action(path)

    return act


def fail(code: int) -> Callable[[str], None]:
    def action(path: str) -> None:
        raise OSError(code, os.strerror(code), path)

    return action


def die(path: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze(path: str) -> None:
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # to this thread: so that it does not run on meanwhile


def first(kind: str, part: str, action: Callable[[str], None]) -> Callable[[str, str, Callable[[], None]], None]:
    """Act at the first operation of this kind whose path has this part; a write is half done before."""
    left = [True]

    def act(done: str, path: str, half: Callable[[], None]) -> None:
        if left[0] and done == kind and part in path:
            left[0] = False
            half()
            action(path)

    return act
