"""Digests of states, to find out whether all ranks hold the same one: what is stored once must be equal everywhere.

Stock torch.distributed.checkpoint, given one key on all ranks, keeps one rank's value and drops the others in silence.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import xxhash
from torch.distributed.tensor import DTensor


def digest(value: Any) -> bytes:
    """16 bytes that are equal for equal trees of stored values (see tree.py), whatever the order of their dicts' keys.

    They are XXH3, for a state may be large, and training waits. Tensors count with their bytes; of one that is spread
    over ranks only what all ranks know counts.
    """
    made = xxhash.xxh3_128()
    _feed(made, value)
    return made.digest()


def differing(digests_by_rank: Sequence[Mapping[str, bytes]]) -> list[tuple[str, int, int]]:
    """The names whose digests are not the same on all ranks, each with the first two ranks that differ."""
    names = sorted({name for digests in digests_by_rank for name in digests})
    found = []
    for name in names:
        values = [digests.get(name) for digests in digests_by_rank]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            found.append((name, 0, other))
    return found


def difference(name: str, rank_a: int, rank_b: int, lacking: int | None = None, because: str = "") -> str:
    """One entry of :func:`differing` as a sentence for a person.

    ``lacking`` is the one of the two that has no such state, ``because`` what the object itself knows of the cause.
    """
    if lacking is not None:
        has = rank_a if lacking == rank_b else rank_b
        return f"rank {has} has a state {name!r} and rank {lacking} has none; give all ranks a state of the same names"
    if because:
        return f"state {name!r} differs between ranks {rank_a} and {rank_b}: {because}"
    advice = "make it equal on all ranks"
    if not name.endswith((".param_groups", ".state")):  # of optimizers, see there
        advice += f", or declare it PerRank({name})"
    return f"state {name!r} differs between ranks {rank_a} and {rank_b}, and only one would be kept; {advice}"


def _feed(made: Any, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        _feed_tensor(made, value)
    elif isinstance(value, Mapping):
        made.update(b"d%d:" % len(value))
        for key, item in _by_key(value):
            made.update(key)
            _feed(made, item)
    elif isinstance(value, list | tuple):
        made.update(b"%c%d:" % (b"l" if isinstance(value, list) else b"t", len(value)))
        for item in value:
            _feed(made, item)
    elif isinstance(value, set | frozenset):
        made.update(b"s%d:" % len(value) + b"".join(sorted(map(digest, value))))
    else:
        text = _scalar(value)
        made.update(b"%s:%d:" % (type(value).__name__.encode(), len(text)) + text)


def _by_key(value: Mapping[Any, Any]) -> list[tuple[bytes, Any]]:
    return sorted(((digest(key), item) for key, item in value.items()), key=lambda entry: entry[0])


def _scalar(value: Any) -> bytes:
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, complex):
        return struct.pack("<dd", value.real, value.imag)
    return bytes(value) if isinstance(value, bytes | bytearray) else repr(value).encode("utf-8", "surrogatepass")


def _feed_tensor(made: Any, tensor: Any) -> None:
    made.update(f"T{tensor.dtype}{tuple(tensor.shape)}:".encode())
    if isinstance(tensor, DTensor):
        made.update(repr(tensor.placements).encode())
        if not all(placement.is_replicate() for placement in tensor.placements):
            return
        tensor = tensor.to_local()
    here = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if size := here.numel() * here.element_size():
        made.update((ctypes.c_char * size).from_address(here.data_ptr()))
