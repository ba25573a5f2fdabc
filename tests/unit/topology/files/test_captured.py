"""Every captured file: counts as the index gives them, what is special to some, and the same text in any state."""

from __future__ import annotations

from pathlib import Path

import pytest

from elaunch.topology.files.reading import read
from elaunch.topology.machine import LinkLayer, Topology
from tests.unit.topology import captured

pytestmark = captured.needs_captures

COUNTS_DIFFER = {
    "nccl_xml/aws_g5.48xl.xml": ("0", "0", "2"),  # addresses only: what is at them is left to the machine's sysfs
    "nccl_xml/aws_p5.48xl.xml": ("0", "0", "2"),  # the same
    "topo_m/ws_2gpu_nv2_numaNA.txt": ("2", "0", "0"),  # NUMA Affinity is N/A, the index counts the machine's one
    "topo_m/ws_2gpu_phb_numaNA.txt": ("2", "0", "0"),  # the same
    "topo_m/h800_1gpu_visible_5bond.txt": ("1", "5", "1"),  # a text names only the nodes that GPUs are near
    "topo_m/a100sxm_4gpu_nic_other_socket.txt": ("4", "1", "1"),  # the same
    "topo_m/v100_8gpu_dualport_old_header.txt": ("8", "2", "0"),  # an old text has no column of NUMA nodes
    "topo_m/p9like_4gpu_4mlx5_old_header.txt": ("4", "4", "0"),
    "topo_m/v100_4gpu_nic_sys_old_header.txt": ("4", "1", "0"),
    "topo_m/dgx1_v100_soc_legend.txt": ("8", "4", "0"),
}
HWLOC = {  # devices, RDMA ports, plain interfaces, NUMA nodes
    "aws_c5n.18xl_nogpu": (0, 1, 1, 2),
    "aws_g4dn.metal_8t4": (8, 1, 1, 2),
    "aws_g5.48xl": (8, 1, 1, 2),
    "aws_g6.48xl": (8, 1, 1, 2),
    "aws_p3dn.24xl": (8, 1, 1, 2),
    "aws_p4d.24xl": (8, 4, 4, 2),
    "aws_p5.48xl": (8, 32, 32, 2),
    "aws_p5en.48xl": (8, 16, 16, 2),
    "flux_chimera_mixed_gpus_no_ib": (2, 0, 3, 4),
    "flux_corona240_8mi": (8, 1, 2, 2),
    "flux_sierra2_4v100": (4, 4, 2, 6),
    "hwloc_16intel64_manyVFs": (0, 3, 3, 2),  # the index counts 18 functions; 12 of them no driver serves
    "hwloc_24em64t_4gpu": (3, 1, 2, 2),  # the index counts the console's ES1000 with the GPUs
    "hwloc_96em64t_8nic": (0, 0, 8, 4),  # the same: its only display is an ES1000
    "hwloc_fakepcilocalities": (0, 1, 4, 4),
    "hwloc_power8_gpudistances": (4, 0, 0, 2),
    "llnl_corona_4mi60_nps4": (4, 1, 2, 8),
    "llnl_corona_8mi50": (8, 1, 2, 2),
    "llnl_ea_minsky_4p100_2mlx5": (4, 2, 2, 2),
    "llnl_pascal_2p100_hfi": (2, 1, 2, 2),
    "llnl_tioga_8gcd_cxi": (8, 0, 5, 4),
}


def machine(name: str) -> Topology:
    return read(captured.FOLDER / name)


def rows(kind: str) -> list[dict[str, str]]:
    return [row for row in captured.table("INDEX.tsv") if row["file"].startswith(f"{kind}/")]


@pytest.mark.parametrize("row", rows("nccl_xml") + rows("topo_m"), ids=lambda row: row["file"])
def test_counts_are_those_of_the_index(row: dict[str, str]) -> None:
    found = machine(row["file"])
    cards = {port.pci or port.nic for port in found.ports if port.pci or found.source == "nvidia-smi"}
    told = (row["gpus"], row["nics"], row["numa"] if row["numa"] != "-" else str(len(found.numa)))
    expected = COUNTS_DIFFER.get(row["file"], told)
    assert (str(len(found.devices)), str(len(cards)), str(len(found.numa))) == expected


@pytest.mark.parametrize("path", captured.files("hwloc", "*.xml"), ids=lambda path: path.stem)
def test_counts_of_hwloc(path: Path) -> None:
    found = read(path)
    rdma = sum(port.rdma for port in found.ports)
    assert (len(found.devices), rdma, len(found.ports) - rdma, len(found.numa)) == HWLOC[path.stem]
    known = {function.address for function in found.functions}
    assert all(function.root and function.parent in {"", *known} for function in found.functions)
    assert all(device.pci in known for device in found.devices)


@pytest.mark.parametrize(
    "path", captured.files("nccl_xml") + captured.files("hwloc") + captured.files("topo_m"), ids=lambda path: path.name
)
def test_every_file_reads_the_same_each_time_and_prints(path: Path) -> None:
    found = read(path)
    assert read(path) == found
    assert repr(found).isprintable()
    assert [device.index for device in found.devices] == sorted({device.index for device in found.devices})
    assert len({port.id for port in found.ports}) == len(found.ports)


def test_two_ports_of_a_card_are_the_first_of_their_devices() -> None:
    found = machine("nccl_xml/oci_h100.xml")
    assert [port.id for port in found.ports][:4] == ["mlx5_0:1", "mlx5_1:1", "mlx5_3:1", "mlx5_4:1"]
    assert {port.rate for port in found.ports} == {180.0}
    assert {port.link_layer for port in found.ports} == {LinkLayer.ETHERNET}


def test_virtual_functions_behind_bridges_that_claim_little() -> None:
    found = machine("nccl_xml/ibm_vpc_gx3d-160x1792x8h100.xml")
    assert all(port.virtual_function for port in found.ports)
    bridges = [function for function in found.functions if (function.class_code or 0) >> 8 == 0x0604]
    assert {(bridge.speed, bridge.width) for bridge in bridges} == {(2.5, 1)}
    assert {function.width for function in found.functions if function not in bridges} == {0}
    assert {peer.count for device in found.devices for peer in device.peers} == {4, 5}


@pytest.mark.parametrize(
    ("name", "software", "other"),
    [
        ("rccl_4p1h_1", {"virbr0"}, {"eno1"}),
        ("rccl_4p3l", {"veth608058c"}, {"enp96s0f0"}),
        ("amd_mi300x_noRDMA", {"veth8789042"}, {"ens14np0"}),
        ("rccl_8p1h_2", {"vethe2d5378"}, {"ens2"}),
        ("rccl_8p_90a_1", set(), {"bond0"}),
        ("azure_ncv4", set(), {"eth0"}),
    ],
)
def test_interfaces_without_hardware_are_known(name: str, software: set[str], other: set[str]) -> None:
    ports = machine(f"nccl_xml/{name}.xml").ports
    assert {port.nic for port in ports if port.software} == software
    assert {port.nic for port in ports if not port.software} == other
    assert not any(port.rdma for port in ports)


def test_slingshot_by_its_maker_whatever_its_name() -> None:
    for name in ("nccl_xml/rccl_8p1h_3.xml", "nccl_xml/rccl_4p_940.xml"):
        assert {port.link_layer for port in machine(name).ports} == {LinkLayer.SLINGSHOT}
    tioga = machine("hwloc/llnl_tioga_8gcd_cxi.xml")
    assert {p.nic for p in tioga.ports if p.link_layer is LinkLayer.SLINGSHOT} == {"hsi0", "hsi1", "hsi2", "hsi3"}
    assert all(len(device.peers) == 7 for device in tioga.devices)


def test_nodes_that_are_a_gpus_memory_have_no_cpus() -> None:
    found = machine("hwloc/flux_sierra2_4v100.xml")
    assert [node.number for node in found.numa if not node.cpus] == [252, 253, 254, 255]
    assert {device.numa for device in found.devices} == {0, 8}


def test_numa_nodes_that_claim_the_same_cpus() -> None:
    for name in ("azure_ndv4_BUGGY_numa_swapped", "azure_ndv4_BUGGY_affinity"):
        assert machine(f"nccl_xml/{name}.xml").notes == ("NUMA nodes 0, 1, 2, 3 claim the same CPUs",)
    assert machine("nccl_xml/azure_ndv4.xml").notes == ()


def test_a_container_s_cpus_leave_a_gpu_with_none() -> None:
    found = machine("topo_m/hgx_4gpu_cgroup_cpuset.txt")
    assert [device.cpus == () for device in found.devices] == [False, True, True, True]
    assert [device.numa for device in found.devices] == [0, 1, 1, 1]


def test_a_cut_matrix_holds_the_distances_of_all_gpus() -> None:
    whole, cut = machine("topo_m/dgx_h100_12nic.txt"), machine("topo_m/dgx_h100_12nic_TRUNCATED.txt")
    assert [(told.device, told.level) for told in cut.levels] == [(told.device, told.level) for told in whole.levels]
    assert {port.nic for port in cut.ports} == {f"NIC{n}" for n in range(12)}
    assert cut.notes[1] == "the text has no row of NIC6, NIC7, NIC8, NIC9, NIC10, NIC11"


def test_columns_out_of_order_and_old_words() -> None:
    levels = {(told.device, told.port): told.level.name for told in machine("topo_m/dgx1_v100_soc_legend.txt").levels}
    assert [levels[("GPU0", f"mlx5_{n}:1")] for n in range(4)] == ["PIX", "PHB", "SYS", "SYS"]
    assert [levels[("GPU7", f"mlx5_{n}:1")] for n in range(4)] == ["SYS", "SYS", "PHB", "PIX"]


def test_nics_of_names_in_capitals_and_bonds() -> None:
    assert [port.nic for port in machine("topo_m/dgx_spark_gb10.txt").ports] == [
        "roceP2p1s0f0",
        "roceP2p1s0f1",
        "rocep1s0f0",
        "rocep1s0f1",
    ]
    (level,) = [told for told in machine("topo_m/h800_1gpu_visible_5bond.txt").levels if told.level.name == "PXB"]
    assert (level.device, level.port) == ("GPU0", "mlx5_bond_3:1")


def test_every_derived_nic_is_there() -> None:
    for row in captured.table("DERIVED_nccl_paths.tsv"):
        found = machine(f"nccl_xml/{row['file']}")
        names = {port.nic for port in found.ports}
        assert set(filter(None, row["candidates_at_best_level"].split(","))) <= names, row
        assert found.devices[int(row["gpu"])].id == row["gpu_busid"], row


def test_a_captured_tree_is_read_from_its_archive_and_from_its_folder(tmp_path: Path) -> None:
    packed = machine("sysfs/hwloc_pcidomain32bits.tar.gz")
    assert packed.source == "sysfs"
    assert packed.ports
    folder = captured.unpacked("hwloc_pcidomain32bits.tar.gz", tmp_path / "machine")
    assert read(folder) == packed
    assert read(folder / "sys") == packed
    assert read(tmp_path) == packed


def test_of_the_archived_server_all_devices_and_ports_are_found() -> None:
    found = machine("sysfs/h100_8gpu_12nic_RECONSTRUCTED.tar.gz")
    assert (len(found.devices), sum(port.rdma for port in found.ports), len(found.numa)) == (8, 12, 2)
