"""Versions of what a rank computes and communicates with, as far as they can be had without starting a device."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

_NVIDIA = Path("/proc/driver/nvidia/version")
_AMD = Path("/sys/module/amdgpu/version")


@lru_cache(maxsize=8)
def versions(backend: str) -> dict[str, str]:
    """``driver``, ``runtime`` and ``libraries``; "" for what is not known."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    version = torch.version
    runtime = f"CUDA {version.cuda}" if version.cuda else f"ROCm {version.hip}" if version.hip else ""
    libraries = [f"torch {torch.__version__}"]
    if "nccl" in backend and (nccl := _nccl()):
        libraries.append(f"NCCL {nccl}")
    return {"driver": driver(), "runtime": runtime, "libraries": ", ".join(libraries)}


def _nccl() -> str:
    c10d = sys.modules.get("torch._C._distributed_c10d")
    torch = sys.modules["torch"]
    if not hasattr(c10d, "ProcessGroupNCCL") or not torch.cuda.is_available():
        return ""
    return ".".join(map(str, torch.cuda.nccl.version()))


def driver() -> str:
    """The kernel's, "" for none.

    NVIDIA's file begins with ``NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  ...``.
    """
    try:
        words = _NVIDIA.read_text().split("\n", 1)[0].split()
        return next((f"NVIDIA {word}" for word in words if word[:1].isdigit() and word.count(".")), "")
    except OSError:
        pass
    try:
        return f"amdgpu {_AMD.read_text().strip()}"
    except OSError:
        return ""
