"""Read one value of a checkpoint that torch.save wrote, without running what it may hold, in bounded memory.

It is what torch.load(weights_only=True) is for. That one, though, makes as much memory as a file of a hundred bytes
tells it to, and a zip archive may say one thing to it and another to whoever looks first. So the archive is read here:
a pickle (pickles.py), and tensors that look at the bytes that they were read from.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch

from elaunch.checkpoint.encoding import tensors
from elaunch.checkpoint.encoding.pickles import Call, Machine, check_size, make_set
from elaunch.checkpoint.encoding.tensors import Storage, storage_bytes
from elaunch.checkpoint.encoding.unpickling import dtypes
from elaunch.checkpoint.storages.failures import line
from elaunch.errors import DamagedCheckpointError

_MOST_RECORDS = 100_000
_LOCAL_HEADER = 30  # bytes, before the name and what is "extra"
_SHARED = 16  # a value may count as this many parts for each byte of its pickle, for it may hold one thing twice


def load_value(data: bytearray | memoryview, where: str) -> Any:
    """The value; its tensors share the memory of ``data``.

    Raises DamagedCheckpointError for anything that is not one, or that asks for more than it holds.
    """
    try:
        return _Value(data).load()
    except Exception as error:
        raise DamagedCheckpointError(f"{where}: cannot be read ({line(error)})") from error


class _Value:
    def __init__(self, data: bytearray | memoryview) -> None:
        self._data = data
        with zipfile.ZipFile(_File(data)) as archive:
            records = archive.infolist()
        if len(records) > _MOST_RECORDS or sum(record.file_size for record in records) > len(data):
            raise ValueError(f"an archive of {len(data)} bytes that says it holds more")
        if any(record.compress_type != zipfile.ZIP_STORED or record.flag_bits & 1 for record in records):
            raise ValueError("a compressed or encrypted record")
        self._records = {record.filename.partition("/")[2]: record for record in records}
        self._storages: dict[str, Any] = {}

    def load(self) -> Any:
        if bytes(self._record("byteorder", b"little")) != b"little":
            raise ValueError("written on a machine of another byte order")
        pickled = bytes(self._record("data.pkl"))
        value = _Machine(pickled, self._storage).load()
        check_size(value, _SHARED * len(pickled) + 1024)
        return value

    def _storage(self, said: Any) -> Storage:
        kind, dtype, key, *_ = said
        if kind != "storage" or not isinstance(dtype, torch.dtype) or type(key) is not str:
            raise ValueError("something from elsewhere that is no storage of a tensor")
        if key not in self._storages:
            self._storages[key] = storage_bytes(self._record(f"data/{key}"))
        return Storage(self._storages[key], dtype)

    def _record(self, name: str, default: bytes | None = None) -> memoryview:
        record = self._records.get(name)
        if record is None and default is not None:
            return memoryview(default)
        if record is None:
            raise ValueError(f"an archive without {name[:100]!r}")
        at = record.header_offset
        lengths = self._data[at + 26 : at + _LOCAL_HEADER]
        start = at + _LOCAL_HEADER + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        view = memoryview(self._data)[start : start + record.file_size]
        if len(view) != record.file_size:
            raise ValueError(f"{name} reaches beyond the end")
        if record.CRC not in (0, zlib.crc32(view)):
            raise ValueError(f"the sum of {name} does not fit")
        return view


class _Machine(Machine):
    def __init__(self, data: bytes, storage: Callable[[Any], Storage]) -> None:
        super().__init__(data, _NAMES)
        self.persistent_load = storage


class _File(io.RawIOBase):
    """A file over bytes in memory, which are not copied for it."""

    def __init__(self, data: bytearray | memoryview) -> None:
        self._view = memoryview(data)
        self._at = 0

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}[whence]
        if start + offset < 0:
            raise OSError("a place before the beginning")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = None if size is None or size < 0 else self._at + size
        data = bytes(self._view[self._at : end])
        self._at += len(data)
        return data


def _bytes(text: Any = "", encoding: Any = "latin1") -> bytes:
    """How a pickle of protocol 2 has bytes: as a string of their numbers."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError("bytes that are no string in latin1")
    return text.encode("latin1")


def _bytearray(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    return bytearray(_bytes(data, encoding) if type(data) is str else _typed(data, bytes))


def _complex(real: Any, imaginary: Any) -> complex:
    return complex(_typed(real, float), _typed(imaginary, float))


def _size(items: Any = ()) -> torch.Size:
    return torch.Size(_typed(items, tuple))


def _device(kind: Any, index: Any = None) -> torch.device:
    return torch.device(_typed(kind, str)) if index is None else torch.device(_typed(kind, str), _typed(index, int))


def _ordered(items: Any = ()) -> OrderedDict[Any, Any]:
    if items != ():
        raise ValueError("an OrderedDict from elsewhere")
    return OrderedDict()


def _counter(items: Any = None) -> Counter[Any]:
    return Counter(_typed(items if items is not None else {}, dict))


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} in place of a {kind.__name__}")
    return value


def _names() -> Mapping[tuple[str, str], Any]:
    return {
        **dtypes(),
        **tensors.names(),
        ("_codecs", "encode"): Call(_bytes),
        ("builtins", "bytes"): Call(_bytes),
        ("builtins", "bytearray"): Call(_bytearray),
        ("builtins", "set"): Call(make_set),
        ("builtins", "complex"): Call(_complex),
        ("torch", "Size"): Call(_size),
        ("torch", "device"): Call(_device),
        ("collections", "OrderedDict"): Call(_ordered),
        ("collections", "Counter"): Call(_counter),
    }


_NAMES = _names()
