"""``elaunch --version``: the versions that matter for a bug report. Nothing of what is named is imported."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distributions, version
from importlib.util import find_spec
from pathlib import Path

from elaunch import __version__
from elaunch.errors import UsageError
from elaunch.rendezvous.binary import find_etcd
from elaunch.worker.versions import driver

_PACKAGES = ("torch", "grpcio", "protobuf", "aiohttp", "structlog", "fsspec")
_BUILD = re.compile(r"^(cuda|hip)\b[^=\n]*= *'([^']+)'", re.MULTILINE)
_ABSENT = "not installed"


def show() -> None:
    """On standard output: elaunch's own in the first line."""
    lines = versions()
    width = max(len(name) for name, _ in lines)
    sys.stdout.write("".join(f"{name:{width if n else 0}} {value}\n" for n, (name, value) in enumerate(lines)))


def versions() -> list[tuple[str, str]]:
    """Names and versions, elaunch first."""
    return [("elaunch", __version__), *_facts()]


def _facts() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES[:1]:
        yield name, _of(name) + _build()
    yield "python", f"{platform.python_version()} ({sys.executable})"
    for name in _PACKAGES[1:]:
        yield name, _of(name)
    yield "etcd", _etcd()
    yield "nccl", ", ".join(_nccl()) or "none beside torch's own"
    yield "driver", driver() or "none"
    yield "kernel", f"{os.uname().sysname} {os.uname().release} {os.uname().machine}"
    yield "libc", " ".join(platform.libc_ver()).strip() or "unknown"


def _of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return _ABSENT


def _build() -> str:
    """What torch was built for: its own file says it."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    try:
        text = Path(spec.origin).with_name("version.py").read_text()
    except OSError:
        return ""
    return "".join(f" ({name} {value})" for name, value in _BUILD.findall(text))


def _etcd() -> str:
    try:
        found = find_etcd()
    except UsageError:
        return _ABSENT
    return f"{found.version} ({found.path})"


def _nccl() -> list[str]:
    """Packages that bring NCCL along, as the CUDA builds of torch ask for."""
    named = [(str(one.metadata["Name"] or ""), one.version) for one in distributions()]
    return sorted(f"{number} ({name})" for name, number in named if name.startswith("nvidia-nccl"))
