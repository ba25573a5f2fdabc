"""Captured sysfs trees in tar archives, unpacked into a temporary folder: nothing outside it, nothing endless."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from elaunch.errors import TopologyError
from elaunch.topology.files.wording import quoted

LARGEST = 128 << 20
"""Bytes, unpacked; a whole /sys of a large machine holds some 20 MiB."""
MOST_ENTRIES = 200_000

_USTAR_AT = 257
_PACKERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, ValueError)


def is_archive(path: Path) -> bool:
    """Whether the content begins as a tar archive does, or as what tar archives are compressed with."""
    with path.open("rb") as file:
        head = file.read(_USTAR_AT + 5)
    return head[_USTAR_AT:] == b"ustar" or head.startswith(tuple(magic for magic, _ in _PACKERS))


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A temporary folder with what is in the archive, until the block ends.

    Only folders, files and links that lead to something inside are made. Raises TopologyError for a damaged archive,
    for a name that leads out of the folder and for one beyond the bounds.
    """
    with tempfile.TemporaryDirectory(prefix="elaunch-topology-") as name:
        folder = Path(os.path.realpath(name))
        with path.open("rb") as raw, _unpacker(raw) as plain:
            try:
                with tarfile.open(fileobj=_Bounded(plain), mode="r|") as archive:
                    _extract(archive, folder)
            except _DAMAGE as error:
                raise TopologyError("found a damaged archive; expected a tar archive of a sysfs tree") from error
        yield folder


def _unpacker(raw: IO[bytes]) -> IO[bytes]:
    head = raw.read(8)
    raw.seek(0)
    for magic, opened in _PACKERS:
        if head.startswith(magic):
            return cast("IO[bytes]", opened(raw))
    return raw


class _Bounded(io.RawIOBase):
    """Reads no more than ``LARGEST`` bytes: neither a member's size nor a header's is taken on trust."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._left = LARGEST

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        except OSError as error:
            if error.errno is not None:
                raise
            raise tarfile.ReadError("cannot be decompressed") from error  # bz2 says so, and gzip of a bad checksum
        self._left -= len(data)
        if self._left < 0:
            raise TopologyError(f"found over {LARGEST >> 20} MiB in the archive; expected a sysfs tree")
        return data


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    links: list[tuple[Path, str]] = []
    for count, member in enumerate(archive, start=1):
        if count > MOST_ENTRIES:
            raise TopologyError(f"found over {MOST_ENTRIES} entries in the archive; expected a sysfs tree")
        place = _place(folder, member.name)
        if member.issym():
            links.append((place, member.linkname))
        elif member.isdir():
            place.mkdir(parents=True, exist_ok=True)
        elif member.islnk():
            _copy(_place(folder, member.linkname), place)
        elif member.isfile() and (content := archive.extractfile(member)) is not None:
            _write(place, content)
    _link(links, folder)


def _place(folder: Path, name: str) -> Path:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise TopologyError(f"found the name {quoted(name)} in the archive; expected names inside it")
    return folder.joinpath(*parts)


def _write(place: Path, content: IO[bytes]) -> None:
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            shutil.copyfileobj(content, file)


def _copy(original: Path, place: Path) -> None:
    if original.is_file():
        with original.open("rb") as content:
            _write(place, content)


def _link(links: list[tuple[Path, str]], folder: Path) -> None:
    """Make the links last, so that no file is ever written through one, and take away those that lead out."""
    made = []
    for place, target in links:
        if not os.path.lexists(place) and "\0" not in target:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
            made.append(place)
    for place in made:
        if not Path(os.path.realpath(place)).is_relative_to(folder):
            place.unlink()
