"""The index at the end of a data file: where the bytes of each tensor begin, so that they can be read without the rest.

DCP's metadata says where an item begins; the tensor's bytes begin some 700 bytes further on, behind what torch.save
puts before them. The index is a table of (item's offset, data's offset), both unsigned of 64 bits, little endian, then
the number of its rows and a magic word. Stock DCP never looks there.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from elaunch.checkpoint.records.blocks import BlockFile
from elaunch.errors import DamagedCheckpointError

_ROW = struct.Struct("<QQ")
_END = struct.Struct("<Q8s")
_MAGIC = b"elaunch1"
END_BYTES = _END.size


def encode(data_offsets: Mapping[int, int]) -> bytes:
    """The bytes that are appended to a file."""
    rows = b"".join(_ROW.pack(offset, data) for offset, data in sorted(data_offsets.items()))
    return rows + _END.pack(len(data_offsets), _MAGIC)


def length(end: bytes) -> int:
    """Bytes of the whole index, from the last ``END_BYTES`` of a file. Raises ValueError where there is no index."""
    if len(end) != _END.size:
        raise ValueError(f"has no more than {len(end)} bytes")
    rows, magic = _END.unpack(end)
    if magic != _MAGIC:
        raise ValueError(f"ends in {end[-8:]!r}, not in an index")
    return int(rows) * _ROW.size + _END.size


def read(file: BlockFile, where: str) -> dict[int, int]:
    """The index of an open file, whatever else of it is checked. Raises DamagedCheckpointError and OSError."""
    try:
        end = min(file.size, END_BYTES)
        whole = min(file.size, length(bytes(file.read(file.size - end, end, surely=True))))
        return decode(bytes(file.read(file.size - whole, whole, surely=True)))
    except ValueError as error:
        raise DamagedCheckpointError(f"{where}: has no index ({error})") from error


def decode(data: bytes) -> dict[int, int]:
    """item's offset -> offset of its tensor's bytes. Raises ValueError where it does not hold together."""
    if length(data[-_END.size :]) != len(data):
        raise ValueError(f"an index of {len(data)} bytes that says {length(data[-_END.size :])}")
    return dict(_ROW.iter_unpack(data[: -_END.size]))
