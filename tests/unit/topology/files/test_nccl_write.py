"""A machine written as an NCCL file: read back it is the same, and the text is as NCCL's own reader wants it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from elaunch.errors import TopologyError
from elaunch.topology.files import hwloc_xml, nccl_xml, nvidia_smi
from elaunch.topology.files.nccl_write import to_nccl_xml
from elaunch.topology.files.processor import Processor, this_processor
from elaunch.topology.machine import Device, NumaNode, PciFunction, Peer, Port, Topology
from tests.unit.topology import captured
from tests.unit.topology.files.test_nccl_xml import SMALL

XEON = Processor("x86_64", "GenuineIntel", 6, 143)


def as_told(machine: Topology) -> Topology:
    """Without what the file has no place for: notes, and memory links, which need a bandwidth."""
    devices = (replace(d, peers=tuple(p for p in d.peers if p.kind != "c2c")) for d in machine.devices)
    return replace(machine, devices=tuple(devices), notes=())


def check_nccl_reads(text: str) -> None:
    """The rules of NCCL's reader, which is none of XML: one blank before an attribute, no header, short values."""
    for line in text.splitlines():
        assert re.fullmatch(r' *<(/[a-z0-9]+|[a-z0-9]+( [a-z_]+="[^"&<>]{0,254}")*/?)>', line), line
    assert text.startswith('<system version="')
    for cpu in re.findall(r"<cpu .*>", text):
        assert re.search(r' numaid="-?\d+".* arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"', cpu), cpu


def test_what_is_written_reads_back_the_same() -> None:
    machine = nccl_xml.parse(SMALL)
    text = to_nccl_xml(machine, XEON)
    check_nccl_reads(text)
    assert nccl_xml.parse(text.encode()) == as_told(machine)


@captured.needs_captures
@pytest.mark.parametrize("path", captured.files("nccl_xml", "*.xml"), ids=lambda path: path.stem)
def test_captured_files_survive_being_written(path: Path) -> None:
    machine = nccl_xml.parse(path.read_bytes())
    text = to_nccl_xml(machine, XEON)
    check_nccl_reads(text)
    assert as_told(nccl_xml.parse(text.encode())) == as_told(machine)


@captured.needs_captures
@pytest.mark.parametrize("path", captured.files("hwloc", "*.xml"), ids=lambda path: path.stem)
def test_captured_machines_of_another_source_can_be_written(path: Path) -> None:
    machine = hwloc_xml.parse(path.read_bytes())
    text = to_nccl_xml(machine, XEON)
    check_nccl_reads(text)
    again = nccl_xml.parse(text.encode())
    assert [(d.id, d.index, d.numa) for d in again.devices] == [(d.id, d.index, d.numa) for d in machine.devices]
    assert {p.id for p in again.ports} == {p.id for p in machine.ports if p.pci}


def test_a_card_s_functions_share_its_first_one() -> None:
    nics = [PciFunction(f"0000:0c:00.{n}", "0000:0b:00.0", numa=0, class_code=0x020000) for n in (0, 1)]
    bridge = PciFunction("0000:0b:00.0", numa=0, class_code=0x060400)
    disk = PciFunction("0000:0d:00.0", "0000:0b:00.0", numa=0, class_code=0x010802)
    ports = tuple(Port(f"mlx5_{n}", pci=nic.address, numa=0, rate=400.0) for n, nic in enumerate(nics))
    machine = Topology("sysfs", (), ports, (bridge, *nics, disk), (NumaNode(0, (0, 33)),))
    text = to_nccl_xml(machine, Processor("arm64"))
    assert text == (
        '<system version="1">\n'
        '  <cpu numaid="0" affinity="00000002,00000001" arch="arm64">\n'
        '    <pci busid="0000:0b:00.0" class="0x060400">\n'
        '      <pci busid="0000:0c:00.0" class="0x020000">\n'
        "        <nic>\n"
        '          <net name="mlx5_0" dev="0" speed="400000" port="1"/>\n'
        '          <net name="mlx5_1" dev="1" speed="400000" port="2"/>\n'
        "        </nic>\n"
        "      </pci>\n"
        "    </pci>\n"
        "  </cpu>\n"
        "</system>\n"
    )
    assert [port.id for port in nccl_xml.parse(text.encode()).ports] == ["mlx5_0:1", "mlx5_1:1"]


def test_links_that_nccl_counts_otherwise_are_left_to_it() -> None:
    device = Device("0000:0a:00.0", 0, "0000:0a:00.0", numa=0, peers=(Peer("0000:0b:00.0", "nvlink", 18),))
    assert "nvlink" not in to_nccl_xml(Topology("sysfs", (device,)), XEON)
    assert 'target="0000:0b:00.0" count="18" tclass="0x068000"' in to_nccl_xml(Topology("nccl-xml", (device,)), XEON)


def test_what_nothing_is_known_of_is_left_out() -> None:
    device = Device("0000:0a:00.0", 0, "0000:0a:00.0", vendor="AMD", model="gfx942")
    nodes = (NumaNode(0, tuple(range(0, 4096, 7))),)
    assert to_nccl_xml(Topology("sysfs", (device,), numa=nodes), Processor("ppc64")) == (
        '<system version="2">\n'
        '  <cpu numaid="-1" arch="ppc64">\n'
        '    <pci busid="0000:0a:00.0">\n'
        '      <gpu dev="0" gcn="gfx942"/>\n'
        "    </pci>\n"
        "  </cpu>\n"
        '  <cpu numaid="0" arch="ppc64"/>\n'
        "</system>\n"
    )


def test_a_machine_without_addresses_cannot_be_written() -> None:
    machine = nvidia_smi.parse(b"     GPU0 mlx5_0 CPU Affinity\nGPU0  X   PIX    0-3\n")
    with pytest.raises(TopologyError, match="nvidia-smi tells none"):
        to_nccl_xml(machine, XEON)


def test_this_hosts_processor_is_the_one_that_proc_tells(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: EPYC 9\n"
    )
    if this_processor().arch != "x86_64":
        pytest.skip("not an x86_64 machine")
    assert this_processor(cpuinfo) == Processor("x86_64", "AuthenticAMD", 25, 17)
    assert this_processor(tmp_path / "absent") == Processor("x86_64")
