"""Captured machines of other people: what INDEX.tsv and TRUTH.tsv say of each is what is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from elaunch.topology.host.bus import Bus
from elaunch.topology.host.discovery import discover
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import LinkLayer, Port, PortState, Topology
from tests.unit.topology.captured import FOLDER, files, needs_captures, table, unpacked
from tests.unit.topology.sysfs_tree import Netdev, link, write_netdev

pytestmark = needs_captures
H100 = "h100_8gpu_12nic_RECONSTRUCTED.tar.gz"


def ports(topology: Topology) -> dict[str, Port]:
    return {port.id: port for port in topology.ports}


def hardware(topology: Topology) -> list[str]:
    return [port.id for port in topology.ports if not port.software]


@pytest.mark.parametrize("name", [path.name for path in files("sysfs", "*.tar.gz")])
def test_each_is_read_twice_alike_and_nothing_of_this_host_is_in_it(name: str, tmp_path: Path) -> None:
    topology = discover(unpacked(name, tmp_path))
    assert discover(tmp_path) == topology
    assert topology.source == "sysfs"
    assert topology.allowed_cpus is None
    assert {port.addresses for port in topology.ports} <= {None}
    row = next(row for row in table("INDEX.tsv") if row["file"] == f"sysfs/{name}")
    gpus = row["n_gpu"] if "n_gpu" in row else list(row.values())[5]
    assert not gpus.isdecimal() or len(topology.devices) == int(gpus)


def test_an_h100_server_with_ports_that_are_down(tmp_path: Path) -> None:
    topology = discover(unpacked(H100, tmp_path))
    found = ports(topology)
    assert list(found) == [f"mlx5_{number}:1" for number in range(12)]
    down = {name: port.phys_state for name, port in found.items() if port.state is not PortState.ACTIVE}
    assert down == {"mlx5_5:1": "Disabled", "mlx5_11:1": "Polling"}
    assert [port.rate for port in topology.ports if port.state is PortState.ACTIVE] == [
        *(400.0, 100.0, 100.0, 400.0, 400.0),
        *(400.0, 100.0, 100.0, 400.0, 400.0),
    ]
    assert [device.numa for device in topology.devices] == [0] * 4 + [1] * 4
    above = {function.address: function.parent for function in topology.functions}
    assert above[above[above["0000:19:00.0"]]] == above[above[above["0000:1a:00.0"]]] == "0000:15:01.0"
    speeds = {f.speed for f in topology.functions if f.address in {d.pci for d in topology.devices}}
    assert speeds == {32.0}


def test_its_interfaces_are_those_that_an_owner_of_such_a_server_lists(tmp_path: Path) -> None:
    lines = (FOLDER / "netdev/h200_roce_12port_rdma_to_netdev.txt").read_text().splitlines()
    listed = dict(re.findall(r"-> (mlx5_\d+) +-> (\w+)", "\n".join(lines)))
    assert len(listed) == 12
    root = unpacked(H100, tmp_path)
    bonded = [name for name, interface in listed.items() if interface == "bond0"]
    slaves = []
    for port in discover(root).ports:
        if port.nic in bonded:
            slaves.append(port.interfaces[0])
            at = next(root.glob(f"sys/devices/pci*/**/net/{port.interfaces[0]}")).relative_to(root)
            link(root, f"{at}/master", "sys/devices/virtual/net/bond0")
    write_netdev(root, Netdev("bond0", slaves=tuple(slaves)))
    topology = discover(root)
    assert {port.nic: port.interfaces[0] for port in topology.ports} == listed
    assert {port.nic for port in topology.ports if port.bond} == set(bonded) == {"mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8"}


def test_an_rdma_device_without_pci_is_software_and_a_xeon_phi_a_device(tmp_path: Path) -> None:
    topology = discover(unpacked("hwloc_32em64t_mlx4_scif.tar.gz", tmp_path))
    found = ports(topology)
    assert found["scif0:1"].software
    assert hardware(topology) == ["eth0", "eth1", "mlx4_0:1"]
    assert {"br0", "eth0.1015", "lo", "mic0"} < set(found)
    mlx4 = found["mlx4_0:1"]
    assert (mlx4.rate, mlx4.interfaces, mlx4.link_layer) == (56.0, ("ib0",), LinkLayer.INFINIBAND)
    roots = {function.address: function.root for function in topology.functions}
    assert roots[mlx4.pci] == roots[topology.devices[0].pci] == "pci0000:80"


def test_an_infiniband_port_with_its_interface(tmp_path: Path) -> None:
    topology = discover(unpacked("hwloc_40intel64_qib0.tar.gz", tmp_path))
    assert hardware(topology) == ["eth0", "eth1", "eth2", "eth3", "qib0:1"]
    qib = ports(topology)["qib0:1"]
    assert (qib.rate, qib.state, qib.phys_state, qib.interfaces) == (40.0, PortState.ACTIVE, "LinkUp", ("ib0",))
    assert len(topology.numa) == 4


def test_the_memory_of_gpus_is_no_place_for_processes(tmp_path: Path) -> None:
    topology = discover(unpacked("hwloc_power9_nvidia_gpu_numa.tar.gz", tmp_path))
    assert [node.number for node in topology.numa if node.cpus] == [0, 8]
    assert [node.number for node in topology.numa if not node.cpus] == [250, 251, 252, 253, 254, 255]
    assert [device.numa for device in topology.devices] == [0, 0, 0, 8, 8, 8]
    assert len(topology.notes) == 6


def test_a_domain_of_more_than_sixteen_bits(tmp_path: Path) -> None:
    topology = discover(unpacked("hwloc_pcidomain32bits.tar.gz", tmp_path))
    addresses = Bus(Tree(tmp_path), topology.numa).addresses()
    assert addresses[-2:] == ["10000:00:00.0", "10000:00:04.0"]
    assert ports(topology)["ens3"].pci == "0000:00:03.0"


def test_bridges_whose_bus_numbers_overlap(tmp_path: Path) -> None:
    topology = discover(unpacked("hwloc_40intel64_pci_conflicts.tar.gz", tmp_path))
    bus = Bus(Tree(tmp_path), topology.numa)
    assert [(a, bus.function(a).parent) for a in bus.addresses()] == [
        ("0000:00:00.0", ""),
        ("0000:00:03.0", ""),
        ("0000:01:00.0", "0000:00:03.0"),
    ]
    assert len(topology.numa) == 4


def test_a_state_that_no_port_has(tmp_path: Path) -> None:
    topology = discover(unpacked("procfs_class_infiniband_net.tar.gz", tmp_path))
    found = ports(topology)
    assert [name for name, port in found.items() if port.rdma] == ["hfi1_0:1", "mlx4_0:1", "mlx4_0:2", "mlx5_0:1"]
    assert found["hfi1_0:1"].link_layer is LinkLayer.OMNIPATH
    assert (found["mlx5_0:1"].state, found["mlx5_0:1"].phys_state) == (PortState.ACTIVE, "")
    assert topology.notes == ("mlx5_0:1 tells a phys_state '4: ACTIVE' that no port has: not known",)


def test_bonds_and_counters_that_are_no_numbers(tmp_path: Path) -> None:
    topology = discover(unpacked("node_exporter_class_infiniband_net.tar.gz", tmp_path))
    assert any(
        "N/A (no PMA)" in path.read_text() for path in tmp_path.glob("sys/class/infiniband/*/ports/*/counters/*")
    )
    found = ports(topology)
    assert [name for name, port in found.items() if port.rdma] == ["i40iw0:1", "mlx4_0:1", "mlx4_0:2"]
    assert found["dmz"].members == ("eth0", "eth4")
    assert found["int"].members == ("eth1", "eth5")
    assert "bonding_masters" not in found
