"""What ranks are to be bound to, as the command line says it: ``--nic-policy``, ``--cpu-bind``, ``--topology``, ..."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from elaunch.agent.options import Binding
from elaunch.cli.parser import Values
from elaunch.cli.settings import checked
from elaunch.errors import ElaunchError, UsageError
from elaunch.topology import pci
from elaunch.topology.binding import Wishes
from elaunch.topology.machine import Topology

NicMap = tuple[tuple[str, tuple[str, ...]], ...]

_POLICIES = ("auto", "local", "all")
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,63}(:[0-9]{1,3})?")  # of a NIC, one of its ports, or an interface
_UUID = re.compile(r"[A-Za-z]{2,8}-[0-9A-Za-z-]{4,64}")
_LARGEST_MAP = 1 << 20  # bytes
_NCCL_FILE = "NCCL_TOPO_FILE"
_NCCL_XML = "nccl-xml"


def resolve_binding(values: Values, slots: int, environ: Mapping[str, str]) -> tuple[Binding, tuple[str, ...]]:
    """The binding, and warnings. Raises UsageError."""
    if values["numa_binding"] is not None and values["cpu_bind"] != "none":
        raise values.error("cpu_bind", "--numa-binding says it too, in torch's way; give one of them")
    wishes = Wishes(
        nic_policy=checked(values, "nic_policy", parse_policy, slots),
        nic_map=checked(values, "nic_map", read_map, slots) if values["nic_map"] else (),
        rails=_count(values, "rails"),
        nics_per_rank=_count(values, "nics_per_rank"),
        exclude=checked(values, "exclude_nic", parse_names),
        cpu_bind=values["cpu_bind"],
        device_map=checked(values, "device_map", parse_devices, slots),
        bandwidth=_bandwidth(values),
    )
    machine, file, warnings = _machine(values, environ)
    named = bool(values["topology"])
    return Binding(wishes, machine, file if machine and machine.source == _NCCL_XML else "", named), warnings


def parse_policy(text: str, slots: int) -> str:
    """``auto``, ``local``, ``all`` or a map of local ranks. Raises ValueError."""
    if text in _POLICIES:
        return text
    entries = [entry for entry in text.split(";") if entry.strip()]
    if "=" not in text or not entries:
        raise ValueError("expected auto, local, all, or a map such as 0=mlx5_0,mlx5_1;1=mlx5_2")
    parsed = parse_map(entries, slots)
    if strange := [key for key, _ in parsed if not key.isdecimal()]:
        raise ValueError(f"{strange[0]!r} is no local rank (a --nic-map takes devices too)")
    return ";".join(f"{key}={','.join(names)}" for key, names in parsed)


def parse_map(entries: list[str], slots: int) -> NicMap:
    """``KEY=NAME,...`` each; a key is a local rank, a PCI address or a UUID. Raises ValueError."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        key, equals, names = (part.strip() for part in entry.partition("="))
        if not equals or not names:
            raise ValueError(f"{entry.strip()[:40]!r}: expected RANK-OR-DEVICE=NIC,...")
        key = _key(key, slots)
        if key in found:
            raise ValueError(f"{key} stands there twice")
        found[key] = parse_names(tuple(names.split(",")))
    return tuple(found.items())


def _key(text: str, slots: int) -> str:
    if text.isdecimal():
        if int(text) >= slots:
            raise ValueError(f"there is no local rank {int(text)}: this node starts {slots}")
        return str(int(text))
    return _device(text)


def read_map(path: str, slots: int) -> NicMap:
    """A file of lines, ``#`` begins a comment. Raises ValueError."""
    text = _read(path)
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    found = parse_map([line for line in lines if line], slots)
    if not found:
        raise ValueError("the file is empty; expected lines RANK-OR-DEVICE = NIC,...")
    return found


def _read(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(_LARGEST_MAP + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("is no text") from None
    if len(text) > _LARGEST_MAP:
        raise ValueError("is too large for a map of NICs")
    return text


def parse_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of NICs, ports or interfaces. Raises ValueError."""
    stripped = tuple(name.strip() for name in names)
    for name in stripped:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is no name of a NIC (expected one like mlx5_0, mlx5_0:1 or eth0)")
    return tuple(dict.fromkeys(stripped))


def parse_devices(names: tuple[str, ...], slots: int) -> tuple[str, ...]:
    """Devices by local rank: an index, a PCI address or a UUID each. Raises ValueError."""
    devices = tuple(name.strip() if name.strip().isdecimal() else _device(name.strip()) for name in names)
    if devices and len(devices) != slots:
        raise ValueError(f"{len(devices)} devices for {slots} local ranks")
    if twice := [device for n, device in enumerate(devices) if device in devices[:n]]:
        raise ValueError(f"{twice[0]} stands there twice")
    return devices


def _device(text: str) -> str:
    if _UUID.fullmatch(text) and not text.startswith("MIG-"):
        return text
    try:
        return pci.address(text)
    except ValueError:
        expected = "expected a number, a PCI address like 0000:3b:00.0 or a UUID like GPU-1a2b..."
        raise ValueError(f"{text[:40]!r} is no device ({expected})") from None


def _count(values: Values, dest: str) -> int | None:
    count: int | None = values[dest]
    if count is not None and not 1 <= count <= 1024:
        raise values.error(dest, "expected 1 or more")
    return count


def _bandwidth(values: Values) -> float | None:
    asked: float | None = values["nic_bandwidth"]
    if asked is not None and asked <= 0:
        raise values.error("nic_bandwidth", "expected Gbit/s, more than 0")
    return asked


def _machine(values: Values, environ: Mapping[str, str]) -> tuple[Topology | None, str, tuple[str, ...]]:
    """What a file says of the machine, and which. One that NCCL was to read costs a warning only, as NCCL has it."""
    named, path = values["topology"], values["topology"] or environ.get(_NCCL_FILE)
    if not path:
        return None, "", ()
    from elaunch.topology.files.reading import read

    try:
        return read(Path(path)), path, ()
    except ElaunchError as error:
        text = " ".join(str(error).split())
        if named:
            raise UsageError(f"--topology={path}: {text}") from None
        return None, "", (f"{_NCCL_FILE}={path} is not used to bind ranks: {text}",)
