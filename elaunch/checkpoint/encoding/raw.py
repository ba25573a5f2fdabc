"""The memory of a tensor as Python sees memory. Without numpy, which a program may not have."""

from __future__ import annotations

import ctypes

import torch


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous tensor on the CPU, to read and to write into. The tensor must outlive the view."""
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")
