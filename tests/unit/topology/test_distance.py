"""How far ports are, by NCCL's rules, on machines of our own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elaunch.topology.distance import Distances
from elaunch.topology.level import Level
from elaunch.topology.machine import Device, PortState, ToldLevel, Topology
from tests.unit.topology import machines
from tests.unit.topology.machines import Machine

PLX, PEX_GEN5 = (0x10B5, 0x8764), (0x1000, 0xC030)


def level_of(machine: Machine, gpu: int = 0, nic: int = 0) -> Level:
    return Distances(machine.topology()).level(machine.devices[gpu], machine.ports[nic])


def nearest(topology: Topology, device: Device) -> list[str]:
    return [p.nic for p in Distances(topology).tiers(device, topology.ports)[0]]


def test_one_switch_is_pix() -> None:
    machine = Machine()
    switch = machine.switch(0)
    switch.gpu()
    switch.nic()
    assert level_of(machine) is Level.PIX


@pytest.mark.parametrize(("vendor", "expected"), [(PLX, Level.PXB), (PEX_GEN5, Level.PIX)])
def test_two_levels_are_pxb_unless_they_are_one_broadcom_switch(vendor: tuple[int, int], expected: Level) -> None:
    machine = Machine()
    top = machine.switch(0, vendor=vendor)
    top.switch(vendor=vendor).gpu()
    top.switch(vendor=vendor).nic()
    assert level_of(machine) is expected


def test_a_port_above_the_switch_of_the_device_is_pxb() -> None:
    machine = Machine()
    top = machine.switch(0)
    top.switch().gpu()
    top.nic()
    assert level_of(machine) is Level.PXB


def test_two_root_ports_of_one_host_bridge_are_phb() -> None:
    machine = Machine()
    machine.gpu(machine.root_port(0, "pci0000:aa"), 0)
    machine.nic(machine.root_port(0, "pci0000:aa"), 0)
    assert level_of(machine) is Level.PHB


def test_another_host_bridge_of_the_same_numa_node_is_node() -> None:
    machine = Machine()
    machine.gpu(machine.root_port(0), 0)
    machine.nic(machine.root_port(0), 0)
    assert level_of(machine) is Level.NODE


def test_another_numa_node_is_sys() -> None:
    machine = Machine()
    machine.gpu(machine.root_port(0), 0)
    machine.nic(machine.root_port(1), 1)
    assert level_of(machine) is Level.SYS


def test_two_functions_of_one_card_are_loc() -> None:
    machine = Machine()
    device = machine.gpu(machine.root_port(0), 0)
    port = machine.nic(machine.root_port(0), 0)
    beside = replace(port, pci=device.pci[:-1] + "1")
    assert Distances(machine.topology()).level(device, beside) is Level.LOC


def test_a_source_that_knows_only_numa_nodes_tells_phb() -> None:
    machine = Machine()
    device, port = machine.gpu(machine.root_port(0), 0), machine.nic(machine.root_port(0), 0)
    flat = replace(machine.topology(), functions=())
    assert Distances(flat).level(device, port) is Level.PHB


def test_an_unknown_numa_node_is_unknown_only_where_there_are_several() -> None:
    machine = Machine()
    device, port = machine.gpu(machine.root_port(0), 0), machine.interface("eth0")
    assert Distances(machine.topology()).level(device, port) is Level.UNKNOWN
    alone = replace(machine.topology(), numa=machine.topology().numa[:1])
    assert Distances(alone).level(device, port) is Level.PHB


def test_what_the_source_tells_comes_first() -> None:
    machine = Machine()
    device, port = machine.gpu(machine.root_port(0), 0), machine.nic(machine.root_port(1), 1)
    told = replace(machine.topology(), levels=(ToldLevel(device.id, port.id, Level.PXB),))
    assert Distances(told).level(device, port) is Level.PXB


def test_the_way_is_as_wide_as_its_narrowest_link() -> None:
    machine = Machine()
    switch = machine.switch(0)
    device, port = switch.gpu(), switch.nic()
    assert Distances(machine.topology()).bandwidth(device, port) == 48.0  # 32 GT/s x16, of which NCCL counts 48 GB/s
    narrow = _with_link(machine.topology(), port.pci, 16.0, 8)
    assert Distances(narrow).bandwidth(device, port) == 12.0
    assert Distances(machine.topology()).bandwidth(device, replace(port, rate=100.0)) == 12.5


@pytest.mark.parametrize(("speed", "width"), [(2.5, 1), (0.0, 16), (32.0, 0), (None, None)])
def test_links_that_cannot_be_true_are_left_out(speed: float | None, width: int | None) -> None:
    machine = Machine()
    switch = machine.switch(0)
    device, port = switch.gpu(), switch.nic()
    assert Distances(_with_link(machine.topology(), port.pci, speed, width)).bandwidth(device, port) == 48.0


def test_a_port_that_is_down_counts_with_the_rate_of_its_like() -> None:
    topology = machines.changed(machines.pairs(), "mlx5_0", state=PortState.DOWN, rate=10.0)
    down = next(p for p in topology.ports if p.nic == "mlx5_0")
    assert Distances(topology).bandwidth(topology.devices[0], down) == 48.0


def test_nearest_keeps_ties_and_puts_bandwidth_first() -> None:
    topology = machines.pairs()
    first = topology.devices[0]
    assert nearest(topology, first) == ["mlx5_0", "mlx5_1"]
    slow = machines.changed(topology, "mlx5_0", rate=200.0)
    assert nearest(slow, first) == ["mlx5_1"]


def test_equal_distance_and_different_speed_takes_the_faster() -> None:
    machine = Machine(nodes=1)
    device = machine.gpu(machine.root_port(0), 0)
    machine.nic(machine.root_port(0), 0, rate=100.0)
    machine.nic(machine.root_port(0), 0, rate=400.0)
    assert nearest(machine.topology(), device) == ["mlx5_1"]


def test_a_faster_port_of_the_other_socket_is_not_nearer() -> None:
    """Between NUMA nodes no more gets through than between two slow ports."""
    machine = Machine()
    device = machine.gpu(machine.root_port(0), 0)
    machine.nic(machine.root_port(0), 0, rate=200.0)
    machine.nic(machine.root_port(1), 1, rate=400.0)
    assert nearest(machine.topology(), device) == ["mlx5_0"]


def test_nothing_is_nearest_of_nothing() -> None:
    topology = machines.no_nic()
    assert Distances(topology).tiers(topology.devices[0], ()) == []


def test_a_tree_that_bites_its_tail_ends() -> None:
    machine = Machine()
    device, port = machine.gpu(machine.root_port(0), 0), machine.nic(machine.root_port(0), 0)
    parent = {f.address: f for f in machine.functions}[device.pci].parent
    looped = tuple(replace(f, parent=device.pci, root="") if f.address == parent else f for f in machine.functions)
    topology = replace(machine.topology(), functions=looped)
    assert Distances(topology).level(device, port) in Level


def _with_link(topology: Topology, address: str, speed: float | None, width: int | None) -> Topology:
    functions = tuple(replace(f, speed=speed, width=width) if f.address == address else f for f in topology.functions)
    return replace(topology, functions=functions)
