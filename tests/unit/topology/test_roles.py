"""What ports are for, on machines of our own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elaunch.topology.machine import LinkLayer, PciFunction, PortState, Topology
from elaunch.topology.role import Role
from elaunch.topology.roles import roles
from tests.unit.topology import machines
from tests.unit.topology.machines import CX6, Machine

ETHERNET = {"link_layer": LinkLayer.ETHERNET}


def by_name(topology: Topology) -> dict[str, tuple[str, str]]:
    found = roles(topology)
    assert all(r.text.startswith(r.port.id) for r in found)
    return {r.port.nic: (r.role.value, r.code) for r in found}


def compute(topology: Topology) -> list[str]:
    return [r.port.nic for r in roles(topology) if r.role is Role.COMPUTE]


def test_ports_far_from_every_device_are_storage_where_others_are_near() -> None:
    found = by_name(machines.dgx_like())
    assert [n for n, role in found.items() if role == ("storage", "far")] == ["mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8"]
    assert len(compute(machines.dgx_like())) == 8


def test_a_port_on_a_socket_without_devices_is_management() -> None:
    machine = Machine()
    switch = machine.switch(0)
    switch.gpu()
    switch.nic()
    machine.nic(machine.root_port(1), 1)
    assert by_name(machine.topology())["mlx5_1"] == ("management", "no_device_on_node")


def test_devices_without_a_near_port_keep_those_of_their_socket() -> None:
    machine = Machine()
    switch = machine.switch(0)
    switch.gpu()
    switch.nic()
    machine.gpu(machine.root_port(1), 1)
    machine.nic(machine.root_port(1), 1)
    assert compute(machine.topology()) == ["mlx5_0", "mlx5_1"]


def test_the_link_layer_decides_where_all_are_equally_far() -> None:
    machine = Machine(nodes=1)
    for _ in range(4):
        machine.gpu(machine.root_port(0), 0)
    machine.nic(machine.root_port(0), 0, **ETHERNET)
    for _ in range(4):
        machine.nic(machine.root_port(0), 0)
    found = by_name(machine.topology())
    assert found["mlx5_0"] == ("storage", "link_layer")
    assert compute(machine.topology()) == ["mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"]


def test_a_slower_adapter_of_another_model_is_storage_and_one_of_the_same_model_is_not() -> None:
    machine = Machine()
    switch = machine.switch(0)
    switch.gpu()
    switch.nic()
    switch.nic(rate=100.0)
    switch.nic(rate=100.0, model=CX6, ports=2)
    found = by_name(machine.topology())
    assert found["mlx5_1"] == ("compute", "compute")
    assert found["mlx5_2"] == found["mlx5_3"] == ("storage", "slower")


def test_a_port_keeps_its_role_when_it_is_down() -> None:
    topology = machines.dgx_like()
    for nic in ("mlx5_0", "mlx5_1"):
        down = machines.changed(topology, nic, state=PortState.DOWN, rate=10.0, phys_state="Disabled")
        assert by_name(down) == by_name(topology)


def test_a_bond_beside_plain_ports_is_not_compute() -> None:
    machine = Machine(nodes=1)
    switch = machine.switch(0)
    switch.gpu()
    switch.nic()
    bond = machine.nic(machine.root_port(0), 0, **ETHERNET)
    topology = machines.changed(
        machine.topology(), bond.nic, nic="mlx5_bond_0", bond="bond0", members=("eth1", "eth2"), interfaces=("bond0",)
    )
    assert by_name(topology)["mlx5_bond_0"] == ("management", "bond")


def test_bonds_are_compute_where_nothing_else_is() -> None:
    machine = Machine()
    for _ in range(2):
        switch = machine.switch(0)
        switch.gpu()
        name = f"mlx5_bond_{len(machine.ports)}"
        switch.nic(nic=name, bond="bond0", members=("a", "b"), **ETHERNET)
    assert compute(machine.topology()) == ["mlx5_bond_0", "mlx5_bond_1"]


def test_bonds_are_compute_where_they_are_more_than_what_is_plain() -> None:
    """Each rail a bond, and one card for management."""
    machine = Machine()
    for number in range(4):
        switch = machine.switch(number // 2)
        switch.gpu()
        name = f"mlx5_bond_{number}"
        switch.nic(nic=name, bond=f"bond{number}", members=("a", "b"), **ETHERNET)
    machine.nic(machine.root_port(0), 0, nic="mlx5_9", **ETHERNET)
    found = by_name(machine.topology())
    assert found["mlx5_9"] == ("storage", "far")
    assert compute(machine.topology()) == [f"mlx5_bond_{n}" for n in range(4)]


def test_slower_adapters_are_compute_where_they_carry_more_together() -> None:
    machine = Machine(nodes=1)
    for _ in range(4):
        switch = machine.switch(0)
        switch.gpu()
        switch.nic(rate=200.0, model=CX6)
    switch.nic(rate=400.0)
    assert len(compute(machine.topology())) == 5


def test_a_bond_of_interfaces_carries_and_its_members_do_not() -> None:
    machine = Machine()
    machine.gpu(machine.root_port(0), 0)
    machine.interface("eth0", machine.root_port(0), 0, bond="bond0")
    machine.interface("eth1", machine.root_port(0), 0, bond="bond0")
    machine.interface("bond0", members=("eth0", "eth1"), rate=20.0)
    found = by_name(machine.topology())
    assert found["eth0"] == found["eth1"] == ("management", "bond_member")
    assert found["bond0"] == ("compute", "compute")


def test_what_has_no_hardware_behind_it_is_never_compute() -> None:
    machine = Machine()
    machine.gpu(machine.root_port(0), 0)
    machine.interface("docker0", software=True)
    machine.nic(machine.root_port(0), 0, nic="rxe0", software=True)
    assert set(by_name(machine.topology()).values()) == {("software", "software")}


def test_interfaces_are_compute_where_there_is_no_rdma() -> None:
    machine = Machine()
    machine.gpu(machine.root_port(0), 0)
    machine.interface("eth0")
    assert compute(machine.topology()) == ["eth0"]


@pytest.mark.parametrize(("below", "expected"), [(("10.0.0.1",), ["eth0"]), (None, ["eth0"]), ((), ["eth0", "eth0.7"])])
def test_a_vlan_is_the_same_wire_where_the_interface_below_can_be_used(
    below: tuple[str, ...] | None, expected: list[str]
) -> None:
    machine = Machine()
    machine.gpu(machine.root_port(0), 0)
    machine.interface("eth0", addresses=below)
    machine.interface("eth0.7", addresses=("10.7.0.1",))
    assert compute(machine.topology()) == expected


def test_interfaces_without_rdma_are_management_beside_rdma() -> None:
    machine = Machine()
    switch = machine.switch(0)
    switch.gpu()
    switch.nic()
    machine.interface("eno1", machine.root_port(0), 0)
    assert by_name(machine.topology())["eno1"] == ("management", "no_rdma")


def test_wireless_is_never_compute() -> None:
    machine = Machine()
    machine.interface("wlp5s0", machine.root_port(0), 0)
    assert by_name(machine.topology())["wlp5s0"] == ("management", "wireless")


def test_virtual_functions_beside_their_physical_one_are_the_same_wire() -> None:
    machine = Machine()
    switch = machine.switch(0)
    switch.gpu()
    physical = switch.nic()
    virtual = switch.nic(virtual_function=True)
    assert compute(machine.topology()) == ["mlx5_0", "mlx5_1"]  # in a container: nobody knows whose it is
    functions = tuple(_with_physical(f, virtual.pci, physical.pci) for f in machine.functions)
    assert compute(replace(machine.topology(), functions=functions)) == ["mlx5_0"]


def _with_physical(function: PciFunction, address: str, physical: str) -> PciFunction:
    return replace(function, physical=physical) if function.address == address else function


def test_two_ports_on_each_switch_and_storage_far_away() -> None:
    """As published of the H100 of one cloud: 16 compute ports, mlx5_2 and mlx5_11 NODE to every device."""
    machine = Machine()
    for numa in (0, 1):
        for place in range(4):
            switch = machine.switch(numa)
            switch.gpu()
            switch.nic(ports=2, **ETHERNET)
            if place == 0:
                machine.nic(machine.root_port(numa), numa, **ETHERNET)
    found = by_name(machine.topology())
    assert [n for n, role in found.items() if role[0] == "storage"] == ["mlx5_2", "mlx5_11"]
    assert len(compute(machine.topology())) == 16


def test_two_ports_on_sockets_without_devices() -> None:
    """As published of the A100 of one cloud: mlx5_0 and mlx5_13 are on NUMA nodes that have no device."""
    machine = Machine(nodes=8)
    machine.nic(machine.root_port(0), 0, **ETHERNET)
    for numa in (1, 3, 5, 7):
        switch = machine.switch(numa)
        for _ in range(2):
            switch.gpu()
        for _ in range(2):
            switch.nic(ports=2, **ETHERNET)
        if numa == 5:
            machine.nic(machine.root_port(6), 6, **ETHERNET)
    found = by_name(machine.topology())
    assert [n for n, role in found.items() if role == ("management", "no_device_on_node")] == ["mlx5_0", "mlx5_13"]
    assert len(compute(machine.topology())) == 16
