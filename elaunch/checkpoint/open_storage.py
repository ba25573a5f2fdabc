"""From the name of a checkpoint directory, as a person gives it, to the storage that it is on."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from elaunch.checkpoint.posix import Posix
from elaunch.checkpoint.storage import Storage
from elaunch.errors import UsageError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def open_storage(url: str | os.PathLike[str]) -> Storage:
    """The storage of a path or a ``file://`` URL; nothing is touched there. Raises UsageError for any other URL."""
    text = os.fspath(url)
    if not text or "\0" in text:
        raise UsageError(f"{text!r} is no name of a checkpoint directory")
    found = _URL.fullmatch(text)
    if found is None:
        return Posix(Path(text).absolute())
    scheme, rest = found.groups()
    host, slash, path = rest.partition("/")
    if scheme.lower() != "file":
        raise UsageError(f"{text}: checkpoints on {scheme}:// are not supported; give a path, or file:///PATH")
    if host not in ("", "localhost") or not slash:
        raise UsageError(f"{text}: expected file:///PATH, a path on this host")
    return Posix(Path("/" + unquote(path)))


def parent_of(url: str | os.PathLike[str]) -> tuple[str, str]:
    """What stands above a directory, and its name there: a checkpoint is read through the directory that it is in."""
    text = os.fspath(url)
    if _URL.fullmatch(text) is None:
        path = Path(os.path.abspath(text))
        return str(path.parent), path.name
    above, _, name = text.rstrip("/").rpartition("/")
    return above + "/", name
