"""Reading a sysfs tree, this host's or a captured one: bounded, and never out of it."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

MOST = 65_536
"""Bytes of one file. No attribute read here is as long; what is, is damage, and not known."""

_PAGE = 4096
_NUMBER = re.compile(r"-?[0-9]{1,20}|0[xX][0-9a-fA-F]{1,16}")
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Tree:
    """The folder that holds ``sys``, and perhaps ``proc`` and ``dev``. Paths are relative to it.

    Whatever cannot be read is not known: None, or empty. Links are followed by their text, not by the kernel, so that
    an absolute one in a captured tree does not lead to this host's files.
    """

    __slots__ = ("_root", "real")

    def __init__(self, root: Path) -> None:
        path = os.path.realpath(root)
        self.real = path == os.path.sep
        self._root = "" if self.real else path

    def text(self, path: str) -> str | None:
        """What a file holds, without the white space around it."""
        try:
            file = os.open(f"{self._root}/{path}", _FLAGS)
        except (OSError, ValueError):
            return None
        try:
            raw = chunk = os.read(file, MOST + 1)
            # The kernel gives a page at most for one read of a long list.
            while len(chunk) == _PAGE and len(raw) <= MOST:
                chunk = os.read(file, MOST)
                raw += chunk
        except OSError:
            return None  # an attribute that has no value now, as speed of an interface that is down
        finally:
            os.close(file)
        return decoded(raw) if len(raw) <= MOST else None

    def number(self, path: str) -> int | None:
        """A file's number, decimal or with ``0x``."""
        told = self.text(path)
        if not told or not _NUMBER.fullmatch(told):
            return None
        return int(told, 16 if told[1:2] in ("x", "X") else 10)

    def target(self, path: str) -> str | None:
        """Where a link leads, as a path in this tree, whether anything is there or not. None: no link."""
        try:
            to = os.readlink(f"{self._root}/{path}")
        except (OSError, ValueError):
            return None
        if not to.isprintable():
            return None
        return posixpath.normpath(posixpath.join("/", posixpath.dirname(path), to))[1:]

    def names(self, path: str) -> list[str]:
        """What a folder holds, in order."""
        try:
            return sorted(name for name in os.listdir(f"{self._root}/{path}") if name.isprintable())
        except (OSError, ValueError):
            return []

    def has(self, path: str) -> bool:
        return os.path.lexists(f"{self._root}/{path}")


def decoded(raw: bytes) -> str | None:
    """Without control characters, or not at all: what is printed to a terminal later must not steer it."""
    try:
        told = raw.decode().strip()
    except UnicodeDecodeError:
        return None
    return told if told.isprintable() or told.replace("\n", "").replace("\t", "").isprintable() else None
