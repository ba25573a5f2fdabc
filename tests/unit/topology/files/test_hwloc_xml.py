"""hwloc's XML of its three major versions, on small machines written down here."""

from __future__ import annotations

import pytest

from elaunch.errors import TopologyError
from elaunch.topology.files.hwloc_xml import parse
from elaunch.topology.machine import Device, LinkLayer, NumaNode, PciFunction, Peer, Port, PortState

GPU = (
    '<object type="PCIDev" pci_busid="0000:03:00.0" pci_type="0302 [10de:2330] [10de:0] a1" pci_link_speed="63.015385">'
    '<object type="OSDev" name="cuda0" osdev_type="5"><info name="GPUModel" value="H100"/></object>'
    '<object type="OSDev" name="nvml1" osdev_type="1"><info name="NVIDIAUUID" value="GPU-0123-45"/></object></object>'
)
NIC = (
    '<object type="PCIDev" pci_busid="0000:04:00.0" pci_type="0207 [15b3:1021] [15b3:0] 00" pci_link_speed="15.753846">'
    '<object type="OSDev" name="ib0" osdev_type="{net}"><info name="Address" value="02:00"/></object>'
    '<object type="OSDev" name="mlx5_0" osdev_type="{rdma}"><info name="NodeGUID" value="0200:0000:0000:00AB"/>'
    '<info name="Port1State" value="4"/></object></object>'
)
TREE = (
    '<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-05]">'
    '<object type="Bridge" bridge_type="1-1" pci_busid="0000:00:01.0" pci_type="0604 [8086:0001] [0:0] 00" '
    'pci_link_speed="2.000000">{}</object></object>'
)
VERSION_2 = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">'
    '<object type="Machine" cpuset="0x000000ff" allowed_cpuset="0x0000000f" nodeset="0x3">'
    '<object type="Package" cpuset="0x0000000f" nodeset="0x1">'
    '<object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x1"/></object>'
    '<object type="Package" cpuset="0x000000f0" nodeset="0x2">'
    '<object type="NUMANode" os_index="1" cpuset="0x000000f0" nodeset="0x2"/>{}</object></object></topology>'
)
VERSION_1 = (
    '<!DOCTYPE topology SYSTEM "hwloc.dtd"><topology>'
    '<object type="Machine" cpuset="0x000000ff" allowed_cpuset="0x000000ff" nodeset="0x3">'
    '<object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x1"/>'
    '<object type="NUMANode" os_index="1" cpuset="0x000000f0" nodeset="0x2">{}</object></object></topology>'
)


@pytest.mark.parametrize(
    ("whole", "net", "rdma"), [(VERSION_1, 2, 3), (VERSION_2, 2, 3), (VERSION_2.replace("2.0", "3.0"), 16, 48)]
)
def test_everything_a_file_tells_is_taken_over(whole: str, net: int, rdma: int) -> None:
    machine = parse(whole.format(TREE.format(GPU + NIC.format(net=net, rdma=rdma))).encode())
    assert machine.devices == (Device("0000:03:00.0", 1, "0000:03:00.0", "GPU-0123-45", "NVIDIA", "H100", 1),)
    assert machine.ports == (
        Port(
            nic="mlx5_0",
            pci="0000:04:00.0",
            numa=1,
            interfaces=("ib0",),
            link_layer=LinkLayer.INFINIBAND,
            state=PortState.ACTIVE,
            guid="0200:0000:0000:00ab",
        ),
    )
    root, bridge = "pci0000:00", "0000:00:01.0"
    assert machine.functions == (
        PciFunction(bridge, "", root, 1, 0x060400, 0x8086, 1, 2.5, 8),
        PciFunction("0000:03:00.0", bridge, root, 1, 0x030200, 0x10DE, 0x2330, 32.0, 16),
        PciFunction("0000:04:00.0", bridge, root, 1, 0x020700, 0x15B3, 0x1021, 8.0, 16),
    )
    assert machine.numa == (NumaNode(0, (0, 1, 2, 3)), NumaNode(1, (4, 5, 6, 7)))
    assert machine.allowed_cpus == ((0, 1, 2, 3) if whole != VERSION_1 else tuple(range(8)))
    assert machine.notes == ()


def one_node(inside: str) -> bytes:
    return (
        '<topology version="2.0"><object type="Machine" cpuset="0x3" nodeset="0x1">'
        f'<object type="NUMANode" os_index="0" cpuset="0x3"/>{inside}</object></topology>'
    ).encode()


def card(busid: str, kind: str, *os_devices: str) -> str:
    return f'<object type="PCIDev" pci_busid="{busid}" pci_type="{kind} [0:0] 00">{"".join(os_devices)}</object>'


def os_device(name: str, kind: int, **infos: str) -> str:
    told = "".join(f'<info name="{key}" value="{value}"/>' for key, value in infos.items())
    return f'<object type="OSDev" name="{name}" osdev_type="{kind}">{told}</object>'


def test_a_device_s_memory_is_no_place_for_what_is_beside_it() -> None:
    nodes = "".join(
        f'<object type="NUMANode" os_index="{n}" cpuset="{cpus}" nodeset="0x0"/>'
        for n, cpus in ((0, "0xf"), (9, "0x0"))
    )
    inside = f'<object type="Group" nodeset="0x201" cpuset="0xf">{nodes}{TREE.format(GPU)}</object>'
    machine = parse(f'<topology><object type="Machine" cpuset="0xff">{inside}</object></topology>'.encode())
    assert machine.devices[0].numa == 0
    assert machine.numa == (NumaNode(0, (0, 1, 2, 3)), NumaNode(9, ()))


def test_what_spans_nodes_is_near_to_none() -> None:
    machine = parse(VERSION_2.replace("{}</object></object>", "</object>{}</object>").format(TREE.format(GPU)).encode())
    assert machine.devices[0].numa is None


def test_without_sets_of_nodes_the_cpus_tell() -> None:
    text = VERSION_2.replace(' nodeset="0x2"', "").replace(' nodeset="0x1"', "")
    assert parse(text.format(TREE.format(GPU)).encode()).devices[0].numa == 1


def test_a_machine_without_numa_nodes_is_one() -> None:
    machine = parse(f'<topology><object type="Machine" cpuset="0x3">{TREE.format(GPU)}</object></topology>'.encode())
    assert (machine.numa, machine.devices[0].numa) == ((NumaNode(0, (0, 1)),), 0)


@pytest.mark.parametrize(
    ("kind", "os_devices", "accelerators"),
    [
        ("0300 [1a03:2000]", (os_device("card0", 1),), 0),
        ("0300 [1002:515e]", (), 0),
        ("0300 [1002:66a1]", (), 1),
        ("0300 [10de:1b81]", (), 1),
        ("0300 [1d0f:1111]", (os_device("opencl0d2", 5),), 0),
        ("0b40 [8086:225e]", (), 1),
        ("0b40 [8086:0435]", (), 0),
        ("1200 [1002:74a1]", (), 1),
        ("1200 [8086:7d1d]", (), 0),
        ("1180 [abcd:0001]", (os_device("ze0", 5),), 1),
    ],
)
def test_what_is_an_accelerator(kind: str, os_devices: tuple[str, ...], accelerators: int) -> None:
    assert len(parse(one_node(card("0000:01:00.0", kind, *os_devices))).devices) == accelerators


def test_numbers_of_a_library_that_knows_not_all_are_not_taken() -> None:
    first = card("0000:02:00.0", "0302 [10de:0001]", os_device("cuda0", 5), os_device("nvml0", 1))
    second = card("0000:01:00.0", "0302 [10de:0001]", os_device("cuda1", 5))
    assert [(d.id, d.index) for d in parse(one_node(first + second)).devices] == [
        ("0000:02:00.0", 0),
        ("0000:01:00.0", 1),
    ]
    third = card("0000:00:01.0", "0302 [10de:0001]")
    assert [d.id for d in parse(one_node(first + second + third)).devices] == [
        "0000:00:01.0",
        "0000:01:00.0",
        "0000:02:00.0",
    ]


def test_xgmi_peers_and_uuids_of_amd() -> None:
    cards = [
        card(
            f"0000:0{n}:00.0", "0380 [1002:7408]", os_device(f"rsmi{n}", 1, AMDUUID=f"000000000000000{n}", XGMIPeers=p)
        )
        for n, p in ((0, "rsmi1 rsmi7 "), (1, "rsmi0"))
    ]
    first, second = parse(one_node("".join(cards))).devices
    assert (first.uuid, first.vendor, first.peers) == ("GPU-0000000000000000", "AMD", (Peer(second.id, "xgmi"),))
    assert second.peers == (Peer(first.id, "xgmi"),)


def test_ports_of_cards_with_many() -> None:
    inside = card(
        "0000:01:00.0",
        "0207 [15b3:1003]",
        os_device("ib0", 2, Port="1"),
        os_device("ib1", 2, Port="2"),
        os_device("mlx4_0", 3, Port1State="1", Port2State="2"),
    )
    inside += card("0000:02:00.0", "0200 [8086:1521]", os_device("eth0", 2), os_device("eth1", 2))
    inside += card("0000:03:00.0", "0200 [17db:0501]", os_device("hsi0", 2))
    inside += card("0000:03:01.0", "0200 [1d0f:efa1]", os_device("rdmap3s1", 3))
    inside += card("0000:03:02.0", "0200 [1137:00cf]")
    inside += os_device("bond0", 2) + os_device("veth1", 2) + os_device("siw0", 3) + os_device("sda", 0)
    machine = parse(one_node(inside))
    assert [(p.id, p.interfaces, p.state.value, p.link_layer.value, p.software) for p in machine.ports] == [
        ("mlx4_0:1", ("ib0",), "down", "InfiniBand", False),
        ("mlx4_0:2", ("ib1",), "init", "InfiniBand", False),
        ("eth0", ("eth0",), "unknown", "Ethernet", False),
        ("eth1", ("eth1",), "unknown", "Ethernet", False),
        ("hsi0", ("hsi0",), "unknown", "Slingshot", False),
        ("rdmap3s1:1", (), "unknown", "EFA", False),
        ("bond0", ("bond0",), "unknown", "Ethernet", False),
        ("siw0:1", (), "unknown", "unknown", True),
        ("veth1", ("veth1",), "unknown", "unknown", True),
    ]
    assert machine.notes == ("no driver shows an interface or RDMA device of the NICs 0000:03:02.0",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<topology/>", "line 1: found no object; expected that of a machine"),
        ("<system/>", "found the element 'system'; expected 'topology'"),
        (one_node(card("x", "0302 [10de:0001]")).decode(), "pci_busid is 'x'; expected one like 0000:3b:00.0"),
        (
            one_node('<object type="NUMANode" os_index="z"/>').decode(),
            "os_index of a NUMA node is 'z'; expected a number",
        ),
        ('<topology><object type="Machine" cpuset="0xz"/></topology>', "cpuset: '0xz' is no mask of CPUs"),
        (one_node(os_device("a b", 2)).decode(), "found the name 'a b'; expected letters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse(text.encode())
    assert message in str(caught.value)


def test_everything_without_an_end_is_all() -> None:
    text = VERSION_2.replace('allowed_cpuset="0x0000000f"', 'allowed_cpuset="0xf...f"').format("")
    assert parse(text.encode()).allowed_cpus == tuple(range(8))
