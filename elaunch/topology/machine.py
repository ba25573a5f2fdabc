"""One machine as a source tells of it: devices, ports, the PCI tree between them, NUMA nodes. Values only.

Whatever a source does not tell is None, or empty where that cannot be mistaken. PCI addresses are canonical
(``pci.address``); they, UUIDs and names are what things are known by, an index never is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from elaunch.topology.cpus import CpuSet
from elaunch.topology.level import Level


class LinkLayer(str, enum.Enum):
    """What a port speaks, which decides what library drives it and by what names."""

    INFINIBAND = "InfiniBand"
    ETHERNET = "Ethernet"
    EFA = "EFA"
    SLINGSHOT = "Slingshot"
    OMNIPATH = "Omni-Path"
    UNKNOWN = "unknown"


class PortState(str, enum.Enum):
    """Whether a port can carry traffic. INIT: the link is up, and its subnet manager has not configured it."""

    ACTIVE = "active"
    INIT = "init"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PciFunction:
    """A device or a bridge of the PCI tree.

    ``parent`` is the address of the bridge above it, empty directly below the host bridge. ``root`` names the host
    bridge (``pci0000:15``), empty where the source knows only the NUMA node. ``speed`` in GT/s per lane, ``width`` in
    lanes, both as claimed: virtual machines lie, and 0 or 2.5 GT/s x1 stand for "not known" there. ``physical`` is the
    address of the physical function behind an SR-IOV virtual one.
    """

    address: str
    parent: str = ""
    root: str = ""
    numa: int | None = None
    class_code: int | None = None
    vendor: int | None = None
    device: int | None = None
    speed: float | None = None
    width: int | None = None
    physical: str = ""


@dataclass(frozen=True, slots=True)
class Peer:
    """A direct link of a device to another: ``kind`` is ``nvlink``, ``xgmi`` or ``c2c``, ``count`` the lanes bonded."""

    device: str
    kind: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator.

    ``id`` is its PCI address; where a source has none, what that calls it (``GPU0``). ``index`` is its place in the
    driver's order on this machine, for people and for the libraries that know no better. ``vendor`` is its maker's name
    (``pci_ids.maker``), or four hexadecimal digits. ``cpus`` are those near it as the source says, None: those of its
    NUMA node.
    """

    id: str
    index: int
    pci: str = ""
    uuid: str = ""
    vendor: str = ""
    model: str = ""
    numa: int | None = None
    cpus: CpuSet | None = None
    peers: tuple[Peer, ...] = ()


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a NIC.

    ``nic`` is the RDMA device (``mlx5_0``), or the interface itself where it has none (``eth0``: ``rdma`` is False).
    ``interfaces`` are its network interfaces, IPoIB's and a bond's master included. ``rate`` in Gbit/s.
    ``phys_state`` is the kernel's word (``LinkUp``, ``Polling``, ``Disabled``). ``addresses`` are its IP addresses
    without prefix lengths, None: not known (a captured machine). ``software``: nothing of hardware behind it (veth,
    bridge, tunnel, loopback). ``bond``: the bond that it is a member of; ``members``: the interfaces of a bond.
    ``gdr``: whether a device's memory can be reached directly, as an NCCL file says.
    """

    nic: str
    number: int = 1
    rdma: bool = True
    pci: str = ""
    numa: int | None = None
    interfaces: tuple[str, ...] = ()
    link_layer: LinkLayer = LinkLayer.UNKNOWN
    rate: float | None = None
    state: PortState = PortState.UNKNOWN
    phys_state: str = ""
    addresses: tuple[str, ...] | None = None
    mtu: int | None = None
    guid: str = ""
    driver: str = ""
    virtual_function: bool = False
    software: bool = False
    bond: str = ""
    members: tuple[str, ...] = ()
    gdr: bool | None = None

    @property
    def id(self) -> str:
        """``mlx5_0:1`` of an RDMA device, ``eth0`` of an interface: what it is known by on this machine."""
        return f"{self.nic}:{self.number}" if self.rdma else self.nic

    @property
    def up(self) -> bool:
        """Whether it can carry traffic, as far as is known."""
        return self.state not in (PortState.DOWN, PortState.INIT)


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node and its CPUs. A node without CPUs may be a device's memory: no place for a process."""

    number: int
    cpus: CpuSet = ()


@dataclass(frozen=True, slots=True)
class ToldLevel:
    """A distance that the source states instead of a tree to derive it from: by ``Device.id`` and ``Port.id``."""

    device: str
    port: str
    level: Level


@dataclass(frozen=True, slots=True)
class Topology:
    """A machine.

    ``source`` is the format it came from: ``sysfs``, ``nccl-xml``, ``hwloc-xml``, ``nvidia-smi``. Devices stand in the
    driver's order, ports in the order of PCI address, name and number. ``allowed_cpus`` are those that this process may
    use (its cgroup's and its affinity), None: not known. ``notes`` say, a sentence each, what the source tells that
    cannot be true or was left aside.
    """

    source: str
    devices: tuple[Device, ...] = ()
    ports: tuple[Port, ...] = ()
    functions: tuple[PciFunction, ...] = ()
    numa: tuple[NumaNode, ...] = ()
    allowed_cpus: CpuSet | None = None
    levels: tuple[ToldLevel, ...] = ()
    notes: tuple[str, ...] = ()
