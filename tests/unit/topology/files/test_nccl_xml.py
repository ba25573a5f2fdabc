"""NCCL topology files, on small machines written down here."""

from __future__ import annotations

import pytest

from elaunch.errors import TopologyError
from elaunch.topology.files.nccl_xml import parse
from elaunch.topology.machine import LinkLayer, NumaNode, PciFunction, Peer, Port

SMALL = b"""
<system version="1">
  <!-- a card with two functions -->
  <cpu numaid="1" affinity="f0" arch="x86_64">
    <pci busid="0000:AA:00.0" class="0x060400" link_speed="2.5 GT/s PCIe" link_width="1">
      <pci busid="0000:ac:00.0" class="0x030200" vendor="0x10de" link_speed="32.0 GT/s PCIe" link_width="0">
        <gpu dev="1" sm="90" gdr="1"><nvlink target="0000:0B:00.0" count="4"/><c2c bw="1" count="2"/></gpu>
      </pci>
      <pci busid="0000:ab:00.0" class="0x020700" vendor="0x15b3" device="0x101e" link_speed="" link_width="">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1" guid="0xAB" gdr="1"/>
          <net name="mlx5_1" dev="1" speed="-1" port="2" guid="0x0" gdr="0"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="0" affinity="0f">
    <pci busid="0000:0b:00.0" class="0x030200"><gpu dev="0"/></pci>
    <nic><net name="veth12" dev="2" speed="10000" port="0" gdr="0"/></nic>
  </cpu>
</system>
"""


def around(inside: str) -> bytes:
    return f'<system version="1"><cpu numaid="0" affinity="f">{inside}</cpu></system>'.encode()


def test_everything_a_file_tells_is_taken_over() -> None:
    machine = parse(SMALL)
    first, second = machine.devices
    assert (first.id, first.index, first.numa) == ("0000:0b:00.0", 0, 0)
    assert (second.id, second.vendor, second.numa) == ("0000:ac:00.0", "NVIDIA", 1)
    assert second.peers == (Peer("", "c2c", 2), Peer("0000:0b:00.0", "nvlink", 4))
    assert machine.numa == (NumaNode(0, (0, 1, 2, 3)), NumaNode(1, (4, 5, 6, 7)))
    assert [f.address for f in machine.functions] == ["0000:0b:00.0", "0000:aa:00.0", "0000:ab:00.0", "0000:ac:00.0"]
    assert machine.functions[1] == PciFunction("0000:aa:00.0", numa=1, class_code=0x060400, speed=2.5, width=1)
    assert machine.functions[3].parent == "0000:aa:00.0"
    assert (machine.functions[3].width, machine.functions[2].width) == (0, None)
    assert machine.notes == ()


def test_ports_have_the_number_that_their_own_device_knows_them_by() -> None:
    one, two, virtual = parse(SMALL).ports
    assert one == Port(
        "mlx5_0",
        1,
        True,
        "0000:ab:00.0",
        1,
        (),
        LinkLayer.INFINIBAND,
        200.0,
        guid="0xab",
        virtual_function=True,
        gdr=True,
    )
    assert (two.id, two.rate, two.guid, two.gdr) == ("mlx5_1:1", None, "", False)
    assert (virtual.id, virtual.software, virtual.pci, virtual.numa) == ("veth12", True, "", 0)


def test_two_ports_of_one_device_keep_their_numbers() -> None:
    nic = '<nic><net name="mlx4_0" dev="0" port="1"/><net name="mlx4_0" dev="1" port="3"/></nic>'
    machine = parse(around(f'<pci busid="1:0.0" class="0x0207">{nic}</pci>'))
    assert [port.id for port in machine.ports] == ["mlx4_0:1", "mlx4_0:2"]


@pytest.mark.parametrize(
    ("attributes", "devices", "nics"),
    [
        ('class="0x030200"', 1, 0),
        ('class="0x120000"', 1, 0),
        ('class="0x03"', 1, 0),
        ('class="0x030000" vendor="0x1a03"', 0, 0),
        ('class="0x030000" vendor="0x10de"', 1, 0),
        ('vendor="0x10DE"', 1, 0),
        ('class="0x020700"', 0, 1),
        ('class="0x02"', 0, 1),
        ('vendor="0x15b3" device="0x1021"', 0, 1),
        ('vendor="0x1d0f" device="0xefa2"', 0, 1),
        ('class="0x010802"', 0, 0),
        ('class="0x060400"', 0, 0),
    ],
)
def test_what_has_no_children_is_known_by_class_or_ids(attributes: str, devices: int, nics: int) -> None:
    machine = parse(around(f'<pci busid="0000:01:00.0" {attributes}/>'))
    assert (len(machine.devices), len(machine.ports)) == (devices, nics)
    assert all(port.nic == port.pci == "0000:01:00.0" for port in machine.ports)
    assert machine.notes == ()


def test_what_nothing_tells_the_kind_of_is_kept_and_noted() -> None:
    machine = parse(around('<pci busid="0000:01:00.0"/>'))
    assert (machine.devices, machine.ports) == ((), ())
    assert machine.functions[0].address == "0000:01:00.0"
    assert machine.notes == ("neither class nor ids say what these PCI functions are: 0000:01:00.0",)


def test_what_has_functions_below_it_is_a_bridge_whatever_it_says() -> None:
    machine = parse(around('<pci busid="01:00.0"><pci busid="02:00.0" class="0x030200"/></pci>'))
    assert [(device.id, device.index) for device in machine.devices] == [("0000:02:00.0", 0)]
    assert machine.notes == ()


def test_devices_without_an_index_are_numbered_by_address() -> None:
    pcis = [f'<pci busid="{bus}:00.0" class="0x030200"/>' for bus in ("0b", "0a", "0c")]
    assert [(d.id, d.index) for d in parse(around("".join(pcis))).devices] == [
        ("0000:0a:00.0", 0),
        ("0000:0b:00.0", 1),
        ("0000:0c:00.0", 2),
    ]


def test_one_index_for_two_devices_is_not_believed() -> None:
    pcis = [f'<pci busid="{bus}:00.0"><gpu dev="3"/></pci>' for bus in ("0b", "0a")]
    machine = parse(around("".join(pcis)))
    assert [(d.id, d.index) for d in machine.devices] == [("0000:0a:00.0", 0), ("0000:0b:00.0", 1)]
    assert "devices share an index" in machine.notes[0]


def test_only_the_first_of_several_hosts_is_read() -> None:
    cpu = '<cpu host_hash="{}" numaid="0"><pci busid="{}:00.0"><gpu dev="0"/></pci></cpu>'
    machine = parse(f'<system version="1">{cpu.format("0x1", "0a")}{cpu.format("0x2", "0b")}</system>'.encode())
    assert [d.id for d in machine.devices] == ["0000:0a:00.0"]
    assert machine.notes == ("the file describes 2 hosts; only the first is read",)


def test_bridges_that_share_an_address_stay_two() -> None:
    gpu = '<pci busid="{}:00.0"><gpu dev="{}"/></pci>'
    bridge = '<pci busid="05:00.0" class="0x060400">{}</pci>'
    machine = parse(around(bridge.format(gpu.format("0a", 0)) + bridge.format(gpu.format("0b", 1))))
    parents = {f.address: f.parent for f in machine.functions}
    assert parents["0000:0a:00.0"] != parents["0000:0b:00.0"]
    assert machine.notes == ("0000:05:00.0 is the address of 2 bridges: each other one is given one of its own",)


def test_what_cannot_be_is_said() -> None:
    machine = parse(
        b'<system version="7"><cpu numaid="-1" affinity="3"><pci busid="01:00.0"><gpu dev="0">'
        b'<nvlink target="01:00.0"/></gpu></pci>'
        b'<nic><net name="cxi0" dev="0" port="1" speed="200000000"/></nic></cpu></system>'
    )
    assert machine.devices[0].numa is None
    assert machine.devices[0].peers == ()
    assert machine.ports[0].rate is None
    assert machine.numa == ()
    assert machine.notes == (
        "the file says version '7'; it is read as version 1",
        "cxi0 says 200000000 Mbit/s, which cannot be: its rate is taken as not known",
        "0000:01:00.0 has a nvlink to itself, which cannot be: left aside",
    )


def test_numa_nodes_that_claim_the_same_cpus_are_named() -> None:
    cpus = '<cpu numaid="0" affinity="f"/><cpu numaid="1" affinity="18"/><cpu numaid="2" affinity="60"/>'
    assert parse(f'<system version="1">{cpus}</system>'.encode()).notes == ("NUMA nodes 0, 1 claim the same CPUs",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"<system", "line 1: found a fault (unclosed token); expected well-formed XML"),
        (b"\n\n<system>\n<cpu></system>", "line 4: found a fault (mismatched tag); expected well-formed XML"),
        (around("<pci/>"), "line 1: busid of 'pci' is none; expected a PCI address like 0000:3b:00.0"),
        (around('<pci busid="x"/>'), "line 1: busid of 'pci' is 'x'; expected a PCI address like 0000:3b:00.0"),
        (
            around('<pci busid="1:0.0" vendor="zz"/>'),
            "vendor of 'pci' is 'zz'; expected a hexadecimal number like 0x10de",
        ),
        (around('<pci busid="1:0.0"><gpu dev="x"/></pci>'), "dev of 'gpu' is 'x'; expected a whole number"),
        (around('<nic><net name="a b" port="1"/></nic>'), "found the name 'a b'; expected letters"),
        (around("<nic><net/></nic>"), "found the name ''; expected letters"),
        (
            b'<system version="1"><cpu numaid="0" affinity="xyz"/></system>',
            "line 1: affinity: 'xyz' is no mask of CPUs",
        ),
        (b"<graphs/>", "found the element 'graphs'; expected 'system'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: bytes, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
