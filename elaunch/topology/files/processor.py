"""The processor that NCCL wants to be told of: it reckons the way between sockets from its make and model."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64"}
_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Processor:
    """In NCCL's words: ``x86_64``, ``arm64`` or ``ppc64``; of x86_64 also what CPUID says."""

    arch: str
    vendor: str = ""
    family: int | None = None
    model: int | None = None


UNKNOWN = Processor("")
"""Says nothing: NCCL asks the processor that it runs on."""


def this_processor(cpuinfo: Path = _CPUINFO) -> Processor:
    """That of this host; what /proc does not tell is left out."""
    arch = _ARCHITECTURES.get(platform.machine().lower(), platform.machine())
    if arch != "x86_64":
        return Processor(arch)
    try:
        text = cpuinfo.read_text(errors="replace")
    except OSError:
        return Processor(arch)
    return Processor(arch, _field(text, "vendor_id"), _number(text, "cpu family"), _number(text, "model"))


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}[ \t]*:[ \t]*(\S+)[ \t]*$", text, re.MULTILINE)
    return found[1] if found else ""


def _number(text: str, name: str) -> int | None:
    value = _field(text, name)
    return int(value) if value.isdecimal() else None
