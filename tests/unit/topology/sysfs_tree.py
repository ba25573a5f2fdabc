"""A machine as a sysfs tree, from facts in a few lines.

``write_machine(root, [gpu("pci0000:15/0000:15:01.0/0000:19:00.0")], [nic("mlx5_0", "pci0000:15/...", "eth0")])``: a
path is the one below ``sys/devices``, from the host bridge down; the bridges on it are written too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elaunch.topology.cpus import parse_list

GEN5 = "32.0 GT/s PCIe"


@dataclass(frozen=True)
class Function:
    """A PCI function. ``numa`` None: no such file. ``physical``: the path of its physical function."""

    path: str
    class_code: int
    vendor: int
    device: int
    driver: str = ""
    numa: int | None = 0
    speed: str = GEN5
    width: int = 16
    physical: str = ""

    @property
    def address(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Netdev:
    """An interface; without a path a virtual one. ``speed`` in Mbit/s, as the kernel writes it."""

    name: str
    path: str = ""
    operstate: str = "up"
    speed: int | None = None
    mtu: int = 9000
    port: int = 0
    kind: int = 1
    master: str = ""
    slaves: tuple[str, ...] = ()
    lowers: tuple[str, ...] = ()
    port_name: str = ""
    bridge: bool = False


@dataclass(frozen=True)
class Nic:
    """A function and what it is to RDMA and to the network; ``rdma`` empty: a plain interface."""

    function: Function
    rdma: str = ""
    netdevs: tuple[Netdev, ...] = ()
    ports: int = 1
    state: str = "4: ACTIVE"
    phys_state: str = "5: LinkUp"
    rate: str = "400 Gb/sec (4X NDR)"
    link_layer: str = "Ethernet"


def gpu(path: str, numa: int | None = 0, *, vendor: int = 0x10DE, class_code: int = 0x030200) -> Function:
    return Function(path, class_code, vendor, 0x2330, "nvidia" if vendor == 0x10DE else "amdgpu", numa)


def nic(rdma: str, path: str, netdev: str = "", numa: int | None = 0, **told: object) -> Nic:
    """A port of a ConnectX-7; ``told`` are other fields of ``Nic``."""
    netdevs = (Netdev(netdev, path),) if netdev else ()
    card = Function(path, 0x020000, 0x15B3, 0x1021, "mlx5_core", numa)
    return replace(Nic(card, rdma, netdevs), **told)  # type: ignore[arg-type]


def ethernet(name: str, path: str, numa: int | None = 0, **told: object) -> Nic:
    """A card that the kernel's network stack drives, and no RDMA; ``told`` are other fields of ``Netdev``."""
    netdev = replace(Netdev(name, path, speed=25_000, mtu=1500), **told)  # type: ignore[arg-type]
    return Nic(Function(path, 0x020000, 0x8086, 0x159B, "ice", numa), netdevs=(netdev,))


def write_machine(
    root: Path,
    functions: Iterable[Function] = (),
    nics: Iterable[Nic] = (),
    netdevs: Iterable[Netdev] = (),
    nodes: Mapping[int, str] | Sequence[str] = ("0-3", "4-7"),
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write it below ``root``, which is returned. ``netdevs`` are virtual; ``files`` any others, content by path."""
    numbered = nodes.items() if isinstance(nodes, Mapping) else enumerate(nodes)
    cpus = dict(numbered)
    for number, told in cpus.items():
        write(root, f"sys/devices/system/node/node{number}/cpulist", told)
    for function in functions:
        write_function(root, function, cpus)
    for each in nics:
        write_nic(root, each, cpus)
    for netdev in netdevs:
        write_netdev(root, netdev)
    for path, content in (files or {}).items():
        write(root, path, content)
    return root


def write(root: Path, path: str, content: object) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{content}\n")


def link(root: Path, path: str, to: str) -> None:
    """A link at ``path`` to ``to``, both below ``root``, relative as the kernel's are."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_symlink():
        file.symlink_to(os.path.relpath(to, os.path.dirname(path)))


def write_function(root: Path, function: Function, cpus: Mapping[int, str]) -> None:
    parts = function.path.split("/")
    for count in range(1, len(parts)):
        above = Function("/".join(parts[:count]), 0x060400, 0x1000, 0xC030, "pcieport", function.numa)
        if not parts[count - 1].startswith("pci"):
            _write_one(root, above, cpus)
    _write_one(root, function, cpus)


def _write_one(root: Path, function: Function, cpus: Mapping[int, str]) -> None:
    path = f"sys/devices/{function.path}"
    link(root, f"sys/bus/pci/devices/{function.address}", path)
    told = f"PCI_CLASS={function.class_code:X}\nPCI_ID={function.vendor:04X}:{function.device:04X}"
    write(root, f"{path}/uevent", f"DRIVER={function.driver}\n{told}" if function.driver else told)
    write(root, f"{path}/class", f"0x{function.class_code:06x}")
    write(root, f"{path}/current_link_speed", function.speed)
    write(root, f"{path}/current_link_width", function.width)
    if function.numa is not None:
        write(root, f"{path}/numa_node", function.numa)
        every = ",".join(told for told in cpus.values() if parse_list(told))
        write(root, f"{path}/local_cpulist", cpus.get(function.numa, every))
    if function.driver:
        link(root, f"{path}/driver", f"sys/bus/pci/drivers/{function.driver}")
    if function.physical:
        link(root, f"{path}/physfn", f"sys/devices/{function.physical}")


def write_nic(root: Path, nic: Nic, cpus: Mapping[int, str]) -> None:
    write_function(root, nic.function, cpus)
    for netdev in nic.netdevs:
        write_netdev(root, netdev)
    if nic.rdma:
        folder = f"sys/devices/{nic.function.path}/infiniband/{nic.rdma}"
        link(root, f"sys/class/infiniband/{nic.rdma}", folder)
        write(root, f"{folder}/node_guid", "0200:0000:0000:0001")
        for number in range(1, nic.ports + 1):
            write_port(root, f"{folder}/ports/{number}", nic)


def write_port(root: Path, folder: str, nic: Nic) -> None:
    for name in ("state", "phys_state", "rate", "link_layer"):
        write(root, f"{folder}/{name}", getattr(nic, name))


def write_netdev(root: Path, netdev: Netdev) -> None:
    holder = f"sys/devices/{netdev.path or 'virtual'}"
    folder = f"{holder}/net/{netdev.name}"
    link(root, f"sys/class/net/{netdev.name}", folder)
    told = {"operstate": netdev.operstate, "mtu": netdev.mtu, "type": netdev.kind, "dev_port": netdev.port}
    told |= {"dev_id": "0x0", "carrier": int(netdev.operstate == "up"), "phys_port_name": netdev.port_name}
    for name, value in told.items():
        write(root, f"{folder}/{name}", value)
    if netdev.speed is not None:
        write(root, f"{folder}/speed", netdev.speed)
    if netdev.path:
        link(root, f"{folder}/device", holder)
    if netdev.master:
        link(root, f"{folder}/master", f"sys/devices/virtual/net/{netdev.master}")
    if netdev.slaves:
        write(root, f"{folder}/bonding/slaves", " ".join(netdev.slaves))
    for lower in netdev.lowers:
        link(root, f"{folder}/lower_{lower}", f"sys/class/net/{lower}")
    if netdev.bridge:
        write(root, f"{folder}/bridge/bridge_id", "8000.020000000001")


def switched(gpus: int, nics: int) -> tuple[list[Function], list[Nic]]:
    """A large server of two sockets: under each PCIe switch two GPUs and as many NICs as come to it."""
    functions, cards = [], []
    switches = max(1, gpus // 2)
    for number in range(max(gpus, nics)):
        switch, place = number % switches, number // switches
        bus, numa = 0x10 + 0x08 * switch, switch * 2 // switches
        above = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0/0000:{bus + 2:02x}"
        if number < gpus:
            functions.append(gpu(f"{above}:{place:02x}.0/0000:{bus + 3 + place:02x}:00.0", numa))
        if number < nics:
            path = f"{above}:{place + 8:02x}.0/0001:{bus + place:02x}:00.0"
            cards.append(nic(f"mlx5_{number}", path, f"ens{number}np0", numa))
    return functions, cards
