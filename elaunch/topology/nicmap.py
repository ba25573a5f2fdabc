"""The operator's map of ranks to NICs: ``--nic-map FILE`` and the MAP of ``--nic-policy``.

A line of the file is ``KEY = NIC[,NIC...]``, ``#`` starts a comment. KEY is a local rank, the PCI address or UUID of a
device, or ``*`` for the ranks that are not named; NIC is a NIC (``mlx5_0``: all its ports), a port (``mlx5_0:1``) or an
interface (``eth0``). A rank's NICs are in its order of preference; those of ``*`` are what the other ranks choose
among, the nearest first. In ``--nic-policy`` the lines are parted by ``;``, and a list without a key is for all ranks.
"""

from __future__ import annotations

import os
import re
import select
import time

from elaunch.errors import UsageError
from elaunch.topology import pci

NicMap = tuple[tuple[str, tuple[str, ...]], ...]

LARGEST = 1 << 20
"""Bytes of a file; a larger one is no map."""

SECONDS = 10.0
"""For the map to come through a pipe."""

_UUID = re.compile(r"[A-Za-z]{2,5}-[0-9A-Za-z/-]{8,64}")
_NIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}(:[0-9]{1,3})?")


def read(path: str) -> NicMap:
    """The map in a file. Raises UsageError, with the line."""
    try:
        data = _content(path)
    except OSError as error:
        raise UsageError(f"--nic-map {path}: {error.strerror or error}") from error
    if len(data) > LARGEST:
        raise UsageError(f"--nic-map {path}: larger than 1 MiB, so no map of NICs")
    try:
        return parse(data.decode("utf-8-sig"), f"--nic-map {path}")
    except UnicodeDecodeError as error:
        raise UsageError(f"--nic-map {path}: no text (byte {error.start})") from error


def _content(path: str) -> bytes:
    """What a file or pipe holds, up to a byte too much: a pipe that nobody writes to is not waited for long."""
    data, deadline = b"", time.monotonic() + SECONDS
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        while len(data) <= LARGEST:
            if not select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise UsageError(f"--nic-map {path}: nothing is written to this pipe")
            chunk = file.read(LARGEST + 1 - len(data))
            if chunk == b"":
                break
            data += chunk or b""
    return data


def parse(text: str, where: str = "--nic-map") -> NicMap:
    """The map in the text of a file; ``where`` begins the message of an error. Raises UsageError, with the line."""
    lines = [(number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    found = _entries([(f"{where}, line {number}", line) for number, line in lines if line])
    if not found:
        raise UsageError(f"{where}: names no NIC; expected lines like 0 = mlx5_0,mlx5_1")
    return found


def parse_inline(text: str) -> NicMap:
    """The map in ``--nic-policy 0=mlx5_0,mlx5_1;1=mlx5_2``. Raises UsageError, with the place."""
    parts = [p.strip() for p in text.split(";")]
    if len(parts) == 1 and "=" not in text:
        return _entries([("--nic-policy", f"*={text}")])
    found = _entries([(f"--nic-policy, part {number}", part) for number, part in enumerate(parts, 1) if part])
    if not found:
        raise UsageError(f"--nic-policy {text}: expected auto, local, all or a map like 0=mlx5_0,mlx5_1;1=mlx5_2")
    return found


def _entries(lines: list[tuple[str, str]]) -> NicMap:
    found: dict[str, tuple[str, ...]] = {}
    said: dict[str, str] = {}
    for where, line in lines:
        key, separator, rest = line.partition("=")
        if not separator:
            raise UsageError(f"{where}: {line[:40]!r} has no '='; expected one like 0 = mlx5_0,mlx5_1")
        name = _key(key.strip(), where)
        if name in found:
            raise UsageError(f"{where}: {key.strip()} stands at {said[name]} as well; name its NICs once")
        found[name], said[name] = _nics(rest, where), where.rpartition(", ")[2]
    return tuple(found.items())


def _key(text: str, where: str) -> str:
    if text == "*" or _UUID.fullmatch(text):
        return text
    if text.isascii() and text.isdigit() and len(text) <= 6:
        return str(int(text))
    try:
        return pci.address(text)
    except ValueError:
        raise UsageError(
            f"{where}: {text[:40]!r} is no local rank, PCI address or UUID of a device, nor * for all"
        ) from None


def _nics(text: str, where: str) -> tuple[str, ...]:
    names = [n.strip() for n in text.split(",")]
    for place, name in enumerate(names):
        if not _NIC.fullmatch(name):
            raise UsageError(f"{where}: {name[:40]!r} is no name of a NIC (expected mlx5_0, mlx5_0:1 or eth0)")
        if name in names[:place]:
            raise UsageError(f"{where}: {name} is named twice")
    return tuple(names)
