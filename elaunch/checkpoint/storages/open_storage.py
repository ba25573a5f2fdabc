"""From the name of a checkpoint directory, as a person gives it, to the storage that it is on."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from elaunch.checkpoint.storages.objects import Objects
from elaunch.checkpoint.storages.posix import Posix
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import UsageError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def open_storage(url: str | os.PathLike[str]) -> Storage:
    """The storage of a path, a ``file://`` URL, or any other URL that fsspec knows; nothing is touched there.

    Raises UsageError for what is none of these, or whose fsspec package is not installed.
    """
    text = os.fspath(url)
    if not text or "\0" in text:
        raise UsageError(f"{text!r} is no name of a checkpoint directory")
    found = _URL.fullmatch(text)
    if found is None:
        return Posix(Path(text).absolute())
    scheme, rest = found.groups()
    host, slash, path = rest.partition("/")
    if scheme.lower() != "file":
        return _objects(text)
    if host not in ("", "localhost") or not slash:
        raise UsageError(f"{text}: expected file:///PATH, a path on this host")
    return Posix(Path("/" + unquote(path)))


def _objects(url: str) -> Objects:
    import fsspec  # rarely needed, and slow to load

    try:
        fs, root = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise UsageError(f"{url}: {error}") from error
    return Objects(fs, root.rstrip("/"), url.rstrip("/"))


def parent_of(url: str | os.PathLike[str]) -> tuple[str, str]:
    """What stands above a directory, and its name there: a checkpoint is read through the directory that it is in."""
    text = os.fspath(url)
    if _URL.fullmatch(text) is None:
        path = Path(os.path.abspath(text))
        return str(path.parent), path.name
    above, _, name = text.rstrip("/").rpartition("/")
    return above + "/", name
