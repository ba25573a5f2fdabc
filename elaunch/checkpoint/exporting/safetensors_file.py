"""The header of a safetensors file: eight bytes of length, then JSON, then nothing but the tensors' bytes.

The format is at https://github.com/huggingface/safetensors. Its library wants all tensors in memory to write them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elaunch.checkpoint.records import dtypes
from elaunch.errors import UsageError

_ALIGNMENT = 8
_MOST_HEADER = 100_000_000  # bytes; its reader refuses more


@dataclass(frozen=True, slots=True)
class Plan:
    """What stands first in the file, and the names of the tensors in the order in which their bytes follow."""

    header: bytes
    order: Sequence[str]


def plan(tensors: Mapping[str, tuple[str, Sequence[int], int]], facts: Mapping[str, str]) -> Plan:
    """Lay out a file of tensors: name -> (torch's type, shape, bytes). Raises UsageError for what the format has not.

    Wide types stand first, so that each tensor is aligned to its type.
    """
    for name, (dtype, _, _) in tensors.items():
        if not dtypes.safetensors_name(dtype):
            raise UsageError(f"{name} is of type {dtype}, which safetensors does not have; export to a .pt file")
    order = sorted(tensors, key=lambda name: (-(dtypes.width(tensors[name][0]) or 0), name))
    header: dict[str, object] = {"__metadata__": dict(facts)}
    end = 0
    for name in order:
        dtype, shape, size = tensors[name]
        told = {"dtype": dtypes.safetensors_name(dtype), "shape": list(shape), "data_offsets": [end, end + size]}
        header[name], end = told, end + size
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    if "__metadata__" in tensors or len(text) > _MOST_HEADER:
        raise UsageError("the names of the tensors do not fit the safetensors format; export to a .pt file")
    return Plan(len(text).to_bytes(8, "little") + text, order)
