"""Small machines of our own, written down as facts: what the tests of choices and distances are made on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from elaunch.topology import pci
from elaunch.topology import rails as rail_numbers
from elaunch.topology.cpus import cpu_set
from elaunch.topology.machine import (
    Device,
    LinkLayer,
    NumaNode,
    PciFunction,
    Port,
    PortState,
    Topology,
)
from elaunch.topology.role import Role
from elaunch.topology.roles import roles

GPU_CLASS, NIC_CLASS, BRIDGE_CLASS = 0x0302, 0x0207, 0x0604
CX7, CX6 = (0x15B3, 0x1021), (0x15B3, 0x101D)


@dataclass
class Machine:
    """A machine that grows by a line for each part; ``topology()`` is what a perfect source would tell of it."""

    nodes: int = 2
    cpus_per_node: int = 16
    devices: list[Device] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    functions: list[PciFunction] = field(default_factory=list)
    _bus: int = 0x10

    def switch(self, numa: int, *, vendor: tuple[int, int] = (0x11F8, 0x4000)) -> Switch:
        """A PCI switch below a root port of its own host bridge on NUMA node ``numa``."""
        root = f"pci0000:{self._bus:02x}"
        port = self._bridge("", root, numa)
        return Switch(self, self._bridge(port, "", numa, vendor), numa)

    def root_port(self, numa: int, root: str = "") -> str:
        """The address of a root port, on a host bridge of its own or on ``root``."""
        return self._bridge("", root or f"pci0000:{self._bus:02x}", numa)

    def gpu(self, parent: str, numa: int, /, **facts: object) -> Device:
        """The next device, below the bridge ``parent``."""
        index = len(self.devices)
        address = self._leaf(parent, numa, (0x10DE, 0x2330), GPU_CLASS)
        device = Device(address, index, address, f"GPU-{index:08d}", "NVIDIA", "H100", numa)
        self.devices.append(replace(device, **facts))  # type: ignore[arg-type]
        return self.devices[-1]

    def nic(self, parent: str, numa: int, /, *, ports: int = 1, model: tuple[int, int] = CX7, **facts: object) -> Port:
        """A card with one or two ports, each a PCI function and an RDMA device of its own; the first is returned."""
        first = self._leaf(parent, numa, model, NIC_CLASS)
        made: list[Port] = []
        for number in range(ports):
            address = first[:-1] + str(number)
            if number:
                self.functions.append(replace(self.functions[-1], address=address))
            name = f"mlx5_{sum(p.rdma for p in self.ports)}"
            port = Port(
                name,
                pci=address,
                numa=numa,
                interfaces=(f"ib{len(self.ports)}",),
                link_layer=LinkLayer.INFINIBAND,
                rate=400.0,
                state=PortState.ACTIVE,
                phys_state="LinkUp",
            )
            self.ports.append(replace(port, **facts))  # type: ignore[arg-type]
            made.append(self.ports[-1])
        return made[0]

    def interface(self, name: str, parent: str = "", numa: int | None = None, **facts: object) -> Port:
        """A network interface without RDMA."""
        address = self._leaf(parent, numa, (0x8086, 0x1521), 0x0200) if parent else ""
        port = Port(
            name, rdma=False, pci=address, numa=numa, interfaces=(name,), link_layer=LinkLayer.ETHERNET, rate=10.0
        )
        self.ports.append(replace(port, state=PortState.ACTIVE, **facts))  # type: ignore[arg-type]
        return self.ports[-1]

    def topology(self) -> Topology:
        per = self.cpus_per_node
        return Topology(
            source="sysfs",
            devices=tuple(self.devices),
            ports=tuple(sorted(self.ports, key=lambda p: (pci.order(p.pci) if p.pci else (1 << 40,), p.nic))),
            functions=tuple(self.functions),
            numa=tuple(NumaNode(n, cpu_set(range(n * per, (n + 1) * per))) for n in range(self.nodes)),
        )

    def _bridge(self, parent: str, root: str, numa: int, model: tuple[int, int] = (0x8086, 0x2030)) -> str:
        return self._leaf(parent, numa, model, BRIDGE_CLASS, root)

    def _leaf(self, parent: str, numa: int | None, model: tuple[int, int], kind: int, root: str = "") -> str:
        address = f"0000:{self._bus:02x}:00.0"
        self._bus += 1
        made = PciFunction(address, parent, root, numa, kind, *model, speed=32.0, width=16)
        self.functions.append(made)
        return address


@dataclass
class Switch:
    """A PCI switch, each device on a downstream port of its own."""

    machine: Machine
    upstream: str
    numa: int

    def gpu(self, **facts: object) -> Device:
        return self.machine.gpu(self.downstream(), self.numa, **facts)

    def nic(self, **facts: object) -> Port:
        return self.machine.nic(self.downstream(), self.numa, **facts)  # type: ignore[arg-type]

    def downstream(self) -> str:
        return self.machine._bridge(self.upstream, "", self.numa)

    def switch(self, *, vendor: tuple[int, int] = (0x11F8, 0x4000)) -> Switch:
        """A second level below this one."""
        below = self.machine._bridge(self.downstream(), "", self.numa, vendor)
        return Switch(self.machine, below, self.numa)


def dgx_like() -> Topology:
    """Eight devices on eight switches with a port each, and two storage cards with two ports: as a DGX H100."""
    machine = Machine()
    for numa in (0, 1):
        for place in range(4):
            switch = machine.switch(numa)
            switch.gpu()
            switch.nic()
            if place == 0:
                machine.nic(machine.root_port(numa), numa, ports=2)
    return machine.topology()


def pairs(count: int = 2) -> Topology:
    """Switches that two devices and two NICs share: as a DGX A100 or a virtual machine of it."""
    machine = Machine()
    for n in range(count):
        switch = machine.switch(n * 2 // count)
        for _ in range(2):
            switch.gpu()
        for _ in range(2):
            switch.nic()
    return machine.topology()


def far_nics() -> Topology:
    """Devices on node 0, every NIC on node 1."""
    machine = Machine()
    for _ in range(2):
        machine.gpu(machine.root_port(0), 0)
        machine.nic(machine.root_port(1), 1)
    return machine.topology()


def fewer_nics(devices: int = 4) -> Topology:
    """One NIC for all devices of one switch."""
    machine = Machine(nodes=1)
    switch = machine.switch(0)
    for _ in range(devices):
        switch.gpu()
    switch.nic()
    return machine.topology()


def more_nics() -> Topology:
    """Two devices that share a switch with four NICs: as a p5en."""
    machine = Machine(nodes=1)
    switch = machine.switch(0)
    for _ in range(2):
        switch.gpu()
    for _ in range(4):
        switch.nic()
    return machine.topology()


def no_nic() -> Topology:
    machine = Machine(nodes=1)
    machine.gpu(machine.root_port(0), 0)
    return machine.topology()


def virtual_machine() -> Topology:
    """One virtual NUMA node, no NUMA told of PCI, links that cannot be true, paravirtual Ethernet only."""
    machine = Machine(nodes=1)
    for _ in range(2):
        machine.gpu(machine.root_port(0, "pci0000:00"), 0, numa=None)
    machine.interface("eth0", rate=None)
    told = machine.topology()
    return replace(
        told, functions=tuple(replace(f, numa=None, speed=2.5, width=1 if f.parent else 0) for f in told.functions)
    )


def cpu_only() -> Topology:
    machine = Machine()
    machine.interface("eth0", machine.root_port(0), 0)
    return machine.topology()


def changed(topology: Topology, which: str, /, **facts: object) -> Topology:
    """``topology`` with other facts of one port."""
    ports = tuple(replace(p, **facts) if p.nic == which else p for p in topology.ports)  # type: ignore[arg-type]
    assert ports != topology.ports, which
    return replace(topology, ports=ports)


def rails(topology: Topology, wanted: int | None = None) -> dict[str, int]:
    """The rail of each compute port, by its id."""
    return rail_numbers.number([r.port for r in roles(topology) if r.role is Role.COMPUTE], wanted)
