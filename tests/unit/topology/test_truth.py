"""Maps of captured machines against those that their makers and users publish."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from elaunch.topology.binding import NodeBinding, Wishes
from elaunch.topology.files.reading import read
from elaunch.topology.machine import Device, LinkLayer, PciFunction, Port, PortState, Topology
from elaunch.topology.policy import bind
from elaunch.topology.role import Role
from elaunch.topology.roles import roles
from tests.unit.topology import captured
from tests.unit.topology.pages import rows

pytestmark = captured.needs_captures

H100_TREE = "sysfs/h100_8gpu_12nic_RECONSTRUCTED.tar.gz"
LSPCI = "lspci/mi300x_8gpu_8cx7_lspci-PP.txt"
CAPTURES = {
    "NVIDIA DGX H100/H200": "topo_m/dgx_h100_12nic.txt",
    "NVIDIA DGX-1V": "topo_m/dgx1_v100_soc_legend.txt",
    "NVIDIA DGX-1 (topo -m)": "topo_m/dgx1_v100_soc_legend.txt",
    "GB200 4-GPU tray, NVRx static table / OCI BM.GPU.GB200.4": "topo_m/parseredge_GraceGB200AllSYS.txt",
    "OCI BM.GPU4.8": "nccl_xml/oci_a100_bm.gpu4.8_flattened.xml",
    "OCI BM.GPU.H100.8": "nccl_xml/oci_h100.xml",
    "OCI BM.GPU.H200.8 / B200.8": H100_TREE,
    "Azure ND A100 v4": "nccl_xml/azure_ndv4.xml",
    "AWS p4d/p4de.24xlarge": "hwloc/aws_p4d.24xl.xml",
    "AWS p5.48xlarge": "hwloc/aws_p5.48xl.xml",
    "AWS p5en.48xlarge (4 EFA shared by 2 GPUs)": "hwloc/aws_p5en.48xl.xml",
    "GCP a3-ultragpu-8g": "topo_m/gke_a3-ultragpu-8g_h200.txt",
    "IBM VPC gx3d-160x1792x8h100": "nccl_xml/ibm_vpc_gx3d-160x1792x8h100.xml",
    "AMD MI300X + CX7 (ROCm acceptance guide host)": LSPCI,
    "H200 RoCE bare metal (lspci/h100_8gpu_12nic)": H100_TREE,
    "AMD MI350X + Thor2 (rccl 8p_950)": "nccl_xml/rccl_8p_950_mi350x_bnxt.xml",
    "AMD MI300A EX (rccl 4p_940)": "nccl_xml/rccl_4p_940.xml",
    "HPE EX MI250X blade (Frontier/LUMI class, rccl 8p1h_3)": "nccl_xml/rccl_8p1h_3.xml",
}
TRUTH = [r for r in captured.table("TRUTH.tsv") if not r["machine"].startswith("WRONG EXAMPLE")]
WRONG = [r for r in captured.table("TRUTH.tsv") if r["machine"].startswith("WRONG EXAMPLE")]


@cache
def machine(file: str) -> Topology:
    return _of_lspci(captured.FOLDER / file) if file == LSPCI else read(captured.FOLDER / file)


def bound(topology: Topology) -> NodeBinding:
    return bind(topology, len(topology.devices), Wishes())


def test_maps_differ_from_published_ones_only_as_the_page_says() -> None:
    found: dict[tuple[str, str], str] = {}
    for row in TRUTH:
        name, device = row["machine"], row["gpu_index"]
        if name not in CAPTURES:
            found[name, "all"] = "no capture"
        else:
            ours = _ours(machine(CAPTURES[name]), row)
            if ours:
                found[name, "all" if device.startswith("all") else device] = ours
    told = rows("topology.md", "Where the map differs from published ones")
    assert all(why for *_, why in told)
    assert found == {(name, device): ours for name, device, ours, _ in told}


def _ours(topology: Topology, row: dict[str, str]) -> str:
    """What is bound instead of what ``row`` publishes; empty where that is equal."""
    index, wanted = row["gpu_index"], _published(row["nic_names"])
    if index.startswith("role:"):
        other = {r.port.nic for r in roles(topology) if r.role in (Role.STORAGE, Role.MANAGEMENT)}
        return "" if other == wanted else ",".join(sorted(other))
    binding = bound(topology)
    if index.startswith("all"):
        shared = {p.nic for p in binding.shared}
        if all(p.nic == p.pci for p in binding.shared):  # the file names no ports
            return f"{len(shared)} cards"
        return "" if shared == wanted else ",".join(sorted(shared))
    rank = next(r for r in binding.ranks if r.device == _device(topology, row))
    if len(wanted) == 1:
        return "" if wanted & {rank.ports[0].nic, rank.ports[0].pci} else rank.ports[0].nic
    local = bind(topology, len(topology.devices), Wishes(nic_policy="local")).ranks[rank.local_rank]
    nearest = {p.nic for p in local.ports}
    return "" if nearest == wanted else ",".join(sorted(nearest))


def _published(text: str) -> set[str]:
    """``mlx5_0 (ibp24s0)``, ``rdmap79s0,rdmap80s0 [gpu 0000:53:00.0]``, ``mlx5_5 DOWN at capture`` as names."""
    return set(re.split(r"[ \[(]", text)[0].split(","))


def _device(topology: Topology, row: dict[str, str]) -> Device:
    address = re.search(r"(?:gpu|GPU) ((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9])", row["nic_names"])
    if address:
        return next(d for d in topology.devices if d.pci.endswith(address[1]))
    return next(d for d in topology.devices if d.index == int(row["gpu_index"]))


def test_the_map_of_the_h100_is_whole_when_its_ports_are_up() -> None:
    topology = machine(H100_TREE)
    up = replace(topology, ports=tuple(_up(p) for p in topology.ports))
    assert [r.ports[0].nic for r in bound(up).ranks] == [f"mlx5_{n}" for n in (0, 3, 4, 5, 6, 9, 10, 11)]
    assert [r.rail for r in bound(up).ranks] == list(range(8))
    assert bound(up).warnings == ()


def _up(port: Port) -> Port:
    return port if port.state is PortState.ACTIVE else replace(port, state=PortState.ACTIVE, rate=400.0)


def test_ports_that_are_down_are_told_apart() -> None:
    said = {r.port.nic: r.text for r in bound(machine(H100_TREE)).refused}
    assert "Disabled" in said["mlx5_5"]
    assert "Polling" in said["mlx5_11"]


@pytest.mark.parametrize("row", WRONG, ids=lambda r: r["machine"])
def test_a_map_copied_from_another_machine_is_followed_with_a_warning(row: dict[str, str]) -> None:
    first, *others = row["nic_names"].split(":")
    names = (first, *(f"{first.rpartition('_')[0]}_{n}" for n in others))
    binding = bind(machine("topo_m/dgx_h100_12nic.txt"), 8, Wishes(nic_map=(("*", names),)))
    assert {p.nic for p in binding.shared} == set(names)
    (warning,) = [w for w in binding.warnings if "storage" in w]
    assert all(nic in warning for nic in ("mlx5_1,", "mlx5_2,", "mlx5_7,", "mlx5_8 "))
    assert all(nic in warning for nic in ("mlx5_4,", "mlx5_5,", "mlx5_10,", "mlx5_11"))


def _of_lspci(path: Path) -> Topology:
    """The text of ``lspci -PP``, which gives each device's whole path, with the names of its interfaces below."""
    text = path.read_text(encoding="utf-8")
    names = {address: name for name, address in re.findall(r"net/(\S+)/device -> \S*/(\S+)", text)}
    functions: dict[str, PciFunction] = {}
    devices: list[Device] = []
    ports: list[Port] = []
    for way, kind in re.findall(r"^((?:[0-9a-f:.]+/)+[0-9a-f:.]+) (Processing|Ethernet)", text, re.MULTILINE):
        steps = [f"0000:{step}" for step in way.split("/")]
        root = f"pci0000:{steps[0][5:7]}"
        for place, step in enumerate(steps):
            functions[step] = PciFunction(step, steps[place - 1] if place else "", root)
        if kind == "Processing":
            devices.append(Device(steps[-1], len(devices), steps[-1]))
        else:
            ports.append(Port(names[steps[-1]], pci=steps[-1], link_layer=LinkLayer.ETHERNET))
    return Topology("lspci", tuple(devices), tuple(ports), tuple(functions.values()))
