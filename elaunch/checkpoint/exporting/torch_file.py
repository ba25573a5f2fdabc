"""A file of torch.save, of which first all but the tensors' bytes is written, and those one after the other.

torch itself writes the file, with a hole for each tensor. Where the holes are is told by the file: it is a zip archive
that stores tensor N uncompressed as ``data/N``, numbered in the order in which pickle comes to them. What torch would
have written with them, their CRCs, is filled in as well.
"""

from __future__ import annotations

import io
import mmap
import pickle
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

import torch
from torch.serialization import skip_data

T = TypeVar("T")
_LOCAL, _CENTRAL = 30, 46  # bytes of the headers' fixed parts
_CRC_IN_CENTRAL = 16
_DESCRIPTOR = b"PK\x07\x08"
_ALIGNMENT = 64


class Placeholders:
    """Tensors that take no memory. Each has a storage of its own, as torch.save tells tensors apart by that."""

    def __init__(self, size: int, number: int) -> None:
        # Pages that cannot be written to are never made.
        self._map = mmap.mmap(-1, size + (number + 1) * _ALIGNMENT, prot=mmap.PROT_READ, flags=_PRIVATE)
        self._end = 0
        self._keys: dict[int, str] = {}
        self._made: list[torch.Tensor] = []

    def make(self, key: str, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        """A tensor that stands for ``key``."""
        elements = torch.Size(shape).numel()
        if not elements:
            return torch.empty(shape, dtype=dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that it cannot be written to
            made = torch.frombuffer(self._map, dtype=dtype, count=elements, offset=self._end).view(shape)
        self._end += -(-elements * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self._keys[id(made)] = key
        self._made.append(made)
        return made

    def order(self, tree: Any) -> list[str]:
        """The keys in the order in which pickle comes to their tensors, empty ones by an empty key."""
        order: list[str] = []

        class _Order(pickle.Pickler):
            def persistent_id(_, value: Any) -> str | None:
                if not isinstance(value, torch.Tensor):
                    return None
                order.append(self._keys.get(id(value), ""))
                return "tensor"

        _Order(io.BytesIO(), protocol=2).dump(tree)
        return order


_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


@dataclass(frozen=True, slots=True)
class Hole:
    """Where the bytes of a tensor belong: ``central`` is where the archive's directory tells of it."""

    offset: int
    size: int
    central: int

    def fill(self, file: BinaryIO, pieces: Iterable[memoryview]) -> None:
        """Write the bytes and their CRC. Raises ValueError where they are not as many as they should be."""
        file.seek(self.offset)
        crc = written = 0
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
            written += len(piece)
            file.write(piece)
        if written != self.size:
            raise ValueError(f"{written} bytes for a hole of {self.size}")
        if file.read(len(_DESCRIPTOR)) == _DESCRIPTOR:
            file.write(struct.pack("<I", crc))
        file.seek(self.central + _CRC_IN_CENTRAL)
        file.write(struct.pack("<I", crc))


class _Heard:
    """A file that keeps the error it has raised: torch goes on to another one of its own, which says nothing."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        return self._hear(lambda: self._file.write(data))

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._hear(lambda: self._file.seek(offset, whence))

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._hear(self._file.flush)

    def _hear(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except OSError as error:
            self.error = self.error or error
            raise


def write_skeleton(tree: Any, file: BinaryIO) -> list[Hole]:
    """Write everything but the tensors' bytes; the holes in the order of their numbers. Raises OSError."""
    heard = _Heard(file)
    try:
        with skip_data():
            torch.save(tree, heard)
    except RuntimeError:
        if heard.error is not None:
            raise heard.error from None
        raise
    holes = {}
    with zipfile.ZipFile(file) as archive:
        for info, central in zip(archive.infolist(), _central(file, archive), strict=True):
            _, _, number = info.filename.rpartition("/data/")
            if number.isdecimal():
                holes[int(number)] = Hole(_data(file, info.header_offset), info.file_size, central)
    return [holes[number] for number in range(len(holes))]


def _central(file: BinaryIO, archive: zipfile.ZipFile) -> Iterator[int]:
    """Where each entry of the directory begins."""
    at: int = archive.start_dir
    for _ in archive.infolist():
        yield at
        at += _CENTRAL + sum(struct.unpack("<HHH", _at(file, at + 28, 6)))


def _data(file: BinaryIO, header: int) -> int:
    name, extra = struct.unpack("<HH", _at(file, header + 26, 4))
    return header + _LOCAL + int(name) + int(extra)


def _at(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)
