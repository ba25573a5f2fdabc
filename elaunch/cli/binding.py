"""What ranks are to be bound to, as the command line says it: ``--nic-policy``, ``--cpu-bind``, ``--topology``, ..."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from elaunch.agent.options import Binding
from elaunch.cli.parser import Values
from elaunch.cli.settings import checked
from elaunch.errors import ElaunchError, UsageError
from elaunch.topology import nicmap, pci
from elaunch.topology.binding import NIC_POLICIES, Wishes
from elaunch.topology.machine import Topology

_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,63}(:[0-9]{1,3})?")  # of a NIC, one of its ports, or an interface
_UUID = re.compile(r"[A-Za-z]{2,8}-[0-9A-Za-z-]{4,64}")
_NCCL_FILE = "NCCL_TOPO_FILE"
_NCCL_XML = "nccl-xml"


def resolve_binding(values: Values, slots: int, environ: Mapping[str, str]) -> tuple[Binding, tuple[str, ...]]:
    """The binding, and warnings. Raises UsageError."""
    if values["numa_binding"] is not None and values["cpu_bind"] != "none":
        raise values.error("cpu_bind", "--numa-binding says it too, in torch's way; give one of them")
    wishes = Wishes(
        nic_policy=_policy(values),
        nic_map=nicmap.read(values["nic_map"]) if values["nic_map"] else (),
        rails=_count(values, "rails"),
        nics_per_rank=_count(values, "nics_per_rank"),
        exclude=checked(values, "exclude_nic", parse_names),
        cpu_bind=values["cpu_bind"],
        device_map=checked(values, "device_map", parse_devices, slots),
        bandwidth=_bandwidth(values),
    )
    machine, warnings = _machine(values, environ)
    for_nccl = bool(values["topology"]) and machine is not None and machine.source == _NCCL_XML
    return Binding(wishes, machine, os.path.abspath(values["topology"]) if for_nccl else ""), warnings


def _policy(values: Values) -> str:
    text: str = values["nic_policy"].strip()
    if text not in NIC_POLICIES:
        if "=" not in text:
            raise values.error("nic_policy", "expected auto, local, all, or a map such as 0=mlx5_0,mlx5_1;1=mlx5_2")
        nicmap.parse_inline(text)
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


def _machine(values: Values, environ: Mapping[str, str]) -> tuple[Topology | None, tuple[str, ...]]:
    """What a file says of the machine. One that NCCL was to read costs a warning only, as NCCL has it."""
    named, path = values["topology"], values["topology"] or environ.get(_NCCL_FILE)
    if not path:
        return None, ()
    from elaunch.topology.files.reading import read

    try:
        return read(Path(path)), ()
    except ElaunchError as error:
        text = " ".join(str(error).split())
        if named:
            raise UsageError(f"--topology={path}: {text}") from None
        return None, (f"{_NCCL_FILE}={path} is not used to bind ranks: {text}",)
