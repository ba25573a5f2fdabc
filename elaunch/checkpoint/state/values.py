"""Which values besides tensors a checkpoint takes: those that can be read back without running anybody's code.

| given | stored | comes back as |
|---|---|---|
| None, bool, int, float, complex, str, bytes, bytearray, torch.dtype, torch.device, torch.Size | itself | itself |
| IntEnum, StrEnum and other subclasses of int, float, str | the number or string | int, float, str |
| a numpy scalar | the number | int, float, complex, bool |
| a numpy array of numbers | a tensor over the same memory | a numpy array |
| frozenset, io.BytesIO | set, bytes | itself |

Everything else is refused when saving, not when it is too late. What a value was is told by its *kind*: "" is a value
that comes back by itself.
"""

from __future__ import annotations

import enum
import io
import sys
from typing import Any

import torch

from elaunch.checkpoint.state.saved import Path, said
from elaunch.errors import StateError

NDARRAY, FROZENSET, BYTES_IO, BYTES = "ndarray", "frozenset", "BytesIO", "bytes"
_ITSELF = frozenset({type(None), bool, float, complex, bytes, bytearray, torch.dtype, torch.device, torch.Size, str})
_BASES = (int, float, str)
_LARGEST_INT = 2000  # bits: what pickle writes for a longer one is not read back under weights_only


def simple(value: Any, path: Path) -> tuple[Any, str]:
    """The stored form and the kind of a value that is neither a tensor nor a dict, list or tuple.

    Args:
        path: where it stands, for an error.

    Raises:
        StateError: it could not be read back safely.
    """
    if type(value) is bytes and not value:
        return bytearray(), BYTES  # what pickle writes for b"" is not read back under weights_only
    if type(value) in _ITSELF:
        return value, ""
    if type(value) is int:
        return _integer(value, path), ""
    if type(value) in (set, frozenset):
        members = {member(item, path) for item in value}
        return members, FROZENSET if type(value) is frozenset else ""
    if isinstance(value, io.BytesIO):
        return bytearray(value.getvalue()), BYTES_IO
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _array(value, numpy, path), NDARRAY
    if numpy is not None and isinstance(value, numpy.generic):
        return _scalar(value, path), ""
    for base in _BASES:
        if isinstance(value, base):
            return simple(base.__str__(value) if base is str else base(value), path)
    raise _refused(value, path)


def member(value: Any, path: Path) -> Any:
    """A member of a set, or a key of a dict: scalars, and tuples of them.

    Raises:
        StateError: it is anything else.
    """
    if type(value) is tuple:
        return tuple(member(item, path) for item in value)
    stored, kind = simple(value, path)
    if kind or isinstance(stored, set | bytearray):
        raise _refused(value, path)
    return stored


def original(stored: Any, kind: str) -> Any:
    """What :func:`simple` was given."""
    if kind == NDARRAY:
        return stored.numpy()
    if kind == FROZENSET:
        return frozenset(stored)
    if kind == BYTES:
        return bytes(stored)
    return io.BytesIO(stored) if kind == BYTES_IO else stored


def _integer(value: int, path: Path) -> int:
    if value.bit_length() > _LARGEST_INT:
        bits = value.bit_length()
        raise StateError(f"state {said(path)} is an integer of {bits} bits; up to {_LARGEST_INT} can be read back")
    return value


def _array(value: Any, numpy: Any, path: Path) -> Any:
    array = value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
    array = array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy()
    try:
        return torch.from_numpy(numpy.asarray(array))
    except TypeError:
        raise _refused(value, path, f" of {value.dtype}") from None


def _scalar(value: Any, path: Path) -> Any:
    plain = value.item()
    if type(plain) not in (bool, int, float, complex, str, bytes):
        raise _refused(value, path)
    return plain


def _refused(value: Any, path: Path, detail: str = "") -> StateError:
    kind = type(value)
    wanted = "numbers, strings, tensors and dicts or lists of them"
    if isinstance(value, enum.Enum):
        wanted = "its .value"
    elif callable(getattr(value, "state_dict", None)):
        wanted = "its state_dict(), or give the object itself a name among the objects of the checkpoint"
    return StateError(
        f"state {said(path)} holds a {kind.__module__}.{kind.__qualname__}{detail}, which cannot be read back without "
        f"running code from the checkpoint; store {wanted}"
    )
