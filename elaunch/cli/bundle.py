"""A ``.tar.gz`` of named texts that is the same for the same contents: sorted, without owners or times."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path


def write_bundle(path: Path, folder: str, contents: Mapping[str, bytes]) -> None:
    """Write it for its owner alone, whole or not at all; what ``path`` was, a link say, is replaced. Raises OSError."""
    fd, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            _pack(packed, folder, contents)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def _pack(packed: gzip.GzipFile, folder: str, contents: Mapping[str, bytes]) -> None:
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(contents):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(contents[name]), 0o644, 0
            archive.addfile(entry, io.BytesIO(contents[name]))
