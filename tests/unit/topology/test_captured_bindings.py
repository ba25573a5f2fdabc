"""What captured machines are bound to, above all the odd ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from elaunch.errors import NoRouteError
from elaunch.topology.binding import NodeBinding, Wishes
from elaunch.topology.digest import differences, digest
from elaunch.topology.files.reading import read
from elaunch.topology.machine import Topology
from elaunch.topology.policy import bind
from elaunch.topology.remarks import by_rank
from tests.unit.topology import captured

pytestmark = captured.needs_captures

EVERYTHING = [
    *captured.files("nccl_xml", "*.xml"),
    *captured.files("hwloc", "*.xml"),
    *captured.files("topo_m", "*.txt"),
    *captured.files("sysfs", "*.tar.gz"),
]


def bound(topology: Topology, wishes: Wishes) -> NodeBinding | str:
    try:
        return bind(topology, max(1, len(topology.devices)), wishes)
    except NoRouteError as error:
        return str(error)


def of(file: str, **wishes: object) -> NodeBinding:
    topology = read(captured.FOLDER / file)
    return bind(topology, len(topology.devices), Wishes(**wishes))  # type: ignore[arg-type]


def codes(binding: NodeBinding) -> dict[str, str]:
    return {r.port.nic: r.code for r in binding.refused}


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda p: p.name)
def test_every_capture_is_bound_the_same_each_time(path: Path) -> None:
    one = read(path)
    other = one if path.suffix == ".gz" else read(path)
    for policy in ("auto", "local", "all"):
        wishes = Wishes(nic_policy=policy, cpu_bind="core")
        first = bound(one, wishes)
        assert first == bound(other, wishes)
        if isinstance(first, str):
            assert "\n" not in first
        else:
            used = {p.id for r in first.ranks for p in r.ports}
            assert used | {r.port.id for r in first.refused} == {p.id for p in one.ports}
            assert not any(p.software for r in first.ranks for p in r.ports)
    assert isinstance(bound(one, Wishes(network=False)), NodeBinding)
    assert digest(one) == digest(other)
    assert differences(one, other) == ()


def test_a_container_with_one_of_eight_devices_finds_its_own_rail_among_bonds() -> None:
    assert [p.nic for p in of("topo_m/h800_1gpu_visible_5bond.txt").ranks[0].ports] == ["mlx5_bond_3"]


@pytest.mark.parametrize(
    "file",
    [
        "topo_m/a100sxm_4gpu_nic_other_socket.txt",
        "topo_m/vllm_h100_8gpu_nic_sys.txt",
        "topo_m/v100_4gpu_nic_sys_old_header.txt",
    ],
)
def test_a_nic_on_the_other_socket_only_is_a_warning(file: str) -> None:
    binding = of(file)
    nic = binding.shared[0].id
    text = f"{nic} is reached only over the link between NUMA nodes (SYS)"
    assert binding.warnings == tuple(by_rank((r.local_rank, text) for r in binding.ranks))


def test_six_devices_on_one_node_and_two_on_the_other_have_uneven_shares() -> None:
    binding = of("topo_m/pcie_8gpu_6plus2_noNIC.txt", cpu_bind="core", network=False)
    sizes = [len(r.cpus or ()) for r in binding.ranks]
    assert sizes == [4, 6, 6, 4, 6, 6, 16, 16]  # whole cores: both threads of each


@pytest.mark.parametrize(
    ("file", "code", "nics"),
    [
        ("nccl_xml/amd_mi300x_noRDMA.xml", "software", ["veth8789042"]),
        ("nccl_xml/rccl_4p1h_1.xml", "software", ["virbr0"]),
        ("nccl_xml/rccl_4p3l.xml", "software", ["veth608058c"]),
        ("nccl_xml/rccl_8p_rome_n2_1.xml", "no_rdma", ["enp98s0f0"]),
        ("hwloc/flux_chimera_mixed_gpus_no_ib.xml", "wireless", ["wlp5s0"]),
        ("hwloc/llnl_tioga_8gcd_cxi.xml", "no_rdma", ["ens2"]),
        ("hwloc/aws_p3dn.24xl.xml", "no_rdma", ["ens5"]),
        ("topo_m/dgx_h100_12nic.txt", "far", ["mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8"]),
        ("topo_m/parseredge_H100DGX8GPU_Mlx5Columns.txt", "far", ["mlx5_8", "mlx5_9"]),
    ],
)
def test_ports_that_are_for_something_else_are_left_out(file: str, code: str, nics: list[str]) -> None:
    found = codes(of(file))
    assert found == dict.fromkeys(nics, code)


def test_forty_interfaces_leave_the_thirty_two_that_count() -> None:
    binding = of("hwloc/aws_p5.48xl.xml")
    assert len(binding.shared) == 32
    assert set(codes(binding).values()) == {"no_rdma"}
    assert len(codes(binding)) == 32


def test_devices_that_share_four_nics_have_two_first() -> None:
    ranks = of("hwloc/aws_p5en.48xl.xml", nics_per_rank=2).ranks
    assert [p.nic for r in ranks[:2] for p in r.ports] == ["rdmap85s0", "rdmap86s0", "rdmap87s0", "rdmap88s0"]


def test_no_nic_in_sight_is_no_route() -> None:
    with pytest.raises(NoRouteError, match="shows none at all"):
        of("topo_m/h100_8gpu_noNIC_cloud.txt")


def test_memory_of_devices_is_never_a_place() -> None:
    ranks = of("hwloc/flux_sierra2_4v100.xml", cpu_bind="core").ranks
    assert [r.memory for r in ranks] == [0, 0, 8, 8]
    assert all(r.cpus for r in ranks)
