"""Tensors as a pickle of torch.save describes them, over bytes that are there: none has more elements than those."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from elaunch.checkpoint.encoding.pickles import Call

_STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
}


@dataclass(frozen=True, slots=True)
class Storage:
    """The bytes of one or more tensors, as a tensor of bytes, and the type that goes with them."""

    whole: Any
    dtype: torch.dtype


def storage_bytes(view: memoryview) -> Any:
    """A tensor of bytes over this memory; over a copy where it is not aligned."""
    if not len(view):
        return torch.empty(0, dtype=torch.uint8)
    whole = torch.frombuffer(view, dtype=torch.uint8)
    return whole if whole.data_ptr() % 16 == 0 else whole.clone()


def names() -> dict[tuple[str, str], Any]:
    """What stands for the names that describe tensors in a pickle. Tensors come to the CPU, whence they were saved."""
    made: dict[tuple[str, str], Any] = {("torch", name): dtype for name, dtype in _STORAGES.items()}
    made["torch.storage", "UntypedStorage"] = torch.uint8
    made["torch._utils", "_rebuild_tensor_v2"] = Call(_rebuild_v2)
    made["torch._utils", "_rebuild_tensor_v3"] = Call(_rebuild_v3)
    made["torch._utils", "_rebuild_parameter"] = Call(_rebuild_parameter)
    made["torch._tensor", "_rebuild_from_type_v2"] = Call(_rebuild_with_attributes)
    made["torch", "Tensor"] = torch.Tensor
    made["torch.nn.parameter", "Parameter"] = torch.nn.Parameter
    return made


def _rebuild_v2(
    storage: Any, offset: Any, size: Any, stride: Any, _grad: Any = None, _hooks: Any = None, views: Any = None
) -> Any:
    return _tensor(storage, storage.dtype, offset, size, stride, views)


def _rebuild_v3(
    storage: Any, offset: Any, size: Any, stride: Any, _grad: Any, _hooks: Any, dtype: Any, views: Any = None
) -> Any:
    return _tensor(storage, dtype, offset, size, stride, views)


def _rebuild_parameter(data: Any, requires_grad: Any = False, _hooks: Any = None) -> Any:
    return torch.nn.Parameter(_of_type(data, torch.Tensor), requires_grad is True)


def _rebuild_with_attributes(rebuild: Any, kind: Any, arguments: Any, _state: Any) -> Any:
    """A tensor that had attributes, which are left out."""
    if type(rebuild) is not Call or kind not in (torch.Tensor, torch.nn.Parameter):
        raise TypeError("a tensor of a class of its own")
    return _of_type(rebuild.make(*arguments), torch.Tensor)


def _tensor(storage: Any, dtype: Any, offset: Any, size: Any, stride: Any, views: Any) -> Any:
    whole = _of_type(storage, Storage).whole
    width = _of_type(dtype, torch.dtype).itemsize
    sizes, strides = _counts(size), _counts(stride)
    (start,) = _counts((offset,))
    elements = math.prod(sizes)
    if not elements:
        return torch.empty(sizes, dtype=dtype)
    end = start + 1 + sum((length - 1) * step for length, step in zip(sizes, strides, strict=True))
    if max(end, elements) * width > len(whole):
        raise ValueError(f"a tensor of shape {sizes} in {len(whole)} bytes")
    made = whole[: len(whole) // width * width].view(dtype).as_strided(sizes, strides, start)
    views = views if isinstance(views, Mapping) else {}
    made = torch._conj(made) if views.get("conj") is True else made
    made = torch._neg_view(made) if views.get("neg") is True else made
    return made.resolve_conj().resolve_neg()


def _counts(values: Any) -> tuple[int, ...]:
    if not isinstance(values, tuple) or any(type(value) is not int or not 0 <= value < 1 << 62 for value in values):
        raise ValueError("a shape, stride or offset that is none")
    return tuple(values)


def _of_type(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} in place of a {kind.__name__}")
    return value
