"""Ports: RDMA devices joined with their interfaces, and the interfaces that no RDMA device has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elaunch.topology.host.bus import Bus
from elaunch.topology.host.discovery import discover
from elaunch.topology.host.ports import read_ports
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import LinkLayer, Port, PortState
from tests.unit.topology.sysfs_tree import Function, Netdev, Nic, ethernet, link, nic, write, write_machine

CARD = "pci0000:15/0000:15:01.0/0000:1a:00.0"
OTHER = "pci0000:15/0000:15:02.0/0000:1b:00.0"
TWIN = "pci0000:15/0000:15:01.0/0000:1a:00.1"


def ports(root: Path) -> dict[str, Port]:
    found = discover(root).ports
    assert len({port.id for port in found}) == len(found)
    return {port.id: port for port in found}


def test_a_roce_port_with_its_interface(tmp_path: Path) -> None:
    write_machine(tmp_path, nics=[nic("mlx5_0", CARD, "enp26s0np0", 1)])
    assert ports(tmp_path) == {
        "mlx5_0:1": Port(
            nic="mlx5_0",
            pci="0000:1a:00.0",
            numa=1,
            interfaces=("enp26s0np0",),
            link_layer=LinkLayer.ETHERNET,
            rate=400.0,
            state=PortState.ACTIVE,
            phys_state="LinkUp",
            mtu=9000,
            guid="0200:0000:0000:0001",
            driver="mlx5_core",
        )
    }


def test_forty_ports_stand_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    cards = [nic(f"mlx5_{n}", f"pci0000:{n:02x}/{0x10000 if n % 2 else 0:04x}:{n:02x}:00.0") for n in range(40)]
    write_machine(tmp_path, nics=cards)
    assert list(ports(tmp_path)) == [f"mlx5_{n}:1" for n in (*range(0, 40, 2), *range(1, 40, 2))]


def test_without_an_address_names_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    write_machine(tmp_path, netdevs=[Netdev(name) for name in ("veth10", "veth2", "lo")])
    assert list(ports(tmp_path)) == ["lo", "veth2", "veth10"]


def test_names_and_places_in_a_list_say_nothing_of_what_belongs_together(tmp_path: Path) -> None:
    write_machine(tmp_path, nics=[nic("mlx5_0", CARD, "zz9"), nic("mlx5_1", OTHER, "aa0")])
    found = ports(tmp_path)
    assert found["mlx5_0:1"].interfaces == ("zz9",)
    assert found["mlx5_1:1"].interfaces == ("aa0",)


@pytest.mark.parametrize("attribute", ["dev_port", "dev_id"])
def test_two_ports_of_one_function_are_told_apart_by_index(tmp_path: Path, attribute: str) -> None:
    netdevs = (Netdev("ib1", CARD, kind=32), Netdev("ib0", CARD, kind=32))
    card = nic("mlx4_0", CARD, netdevs=netdevs, ports=2, link_layer="InfiniBand", rate="56 Gb/sec (4X FDR)")
    write_machine(tmp_path, nics=[card])
    write(tmp_path, f"sys/devices/{CARD}/net/ib1/{attribute}", "0x1" if attribute == "dev_id" else 1)
    found = ports(tmp_path)
    assert [(port.number, port.interfaces, port.rate) for port in found.values()] == [
        (1, ("ib0",), 56.0),
        (2, ("ib1",), 56.0),
    ]
    assert found["mlx4_0:2"].link_layer is LinkLayer.INFINIBAND


def test_the_interface_that_a_port_names_comes_first(tmp_path: Path) -> None:
    card = nic("mlx5_0", CARD, netdevs=(Netdev("a", CARD), Netdev("b", CARD)))
    write_machine(tmp_path, nics=[card])
    assert ports(tmp_path)["mlx5_0:1"].interfaces == ("a", "b")
    write(tmp_path, f"sys/devices/{CARD}/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "b")
    assert ports(tmp_path)["mlx5_0:1"].interfaces == ("b", "a")


def test_what_stands_for_a_virtual_function_is_no_interface_of_the_port(tmp_path: Path) -> None:
    stands = Netdev("eth0_0", CARD, port_name="pf0vf0", port=1)
    card = nic("mlx5_0", CARD, netdevs=(Netdev("eth0", CARD, port_name="p0"), stands))
    write_machine(tmp_path, nics=[card])
    found = ports(tmp_path)
    assert found["mlx5_0:1"].interfaces == ("eth0",)
    assert found["eth0_0"].software


def test_subfunctions_of_one_card_have_their_own_interfaces(tmp_path: Path) -> None:
    write_machine(tmp_path, nics=[nic("mlx5_0", CARD, "eth0")])
    part = f"sys/devices/{CARD}/mlx5_core.sf.4"
    link(tmp_path, "sys/class/infiniband/mlx5_4", f"{part}/infiniband/mlx5_4")
    link(tmp_path, "sys/class/net/eth4", f"{part}/net/eth4")
    write(tmp_path, f"{part}/infiniband/mlx5_4/ports/1/state", "4: ACTIVE")
    write(tmp_path, f"{part}/net/eth4/mtu", 1500)
    found = ports(tmp_path)
    assert [(port.pci, port.interfaces) for port in found.values()] == [
        ("0000:1a:00.0", ("eth0",)),
        ("0000:1a:00.0", ("eth4",)),
    ]


@pytest.mark.parametrize(
    ("state", "phys_state", "rate", "told"),
    [
        ("1: DOWN", "3: Disabled", "40 Gb/sec (4X QDR)", (PortState.DOWN, "Disabled", 40.0)),
        ("1: DOWN", "2: Polling", "2.5 Gb/sec", (PortState.DOWN, "Polling", 2.5)),
        ("2: INIT", "5: LinkUp", "400 Gb/sec (4X NDR)", (PortState.INIT, "LinkUp", 400.0)),
        ("3: ARMED", "5: LinkUp", "800 Gb/sec (4X XDR)", (PortState.INIT, "LinkUp", 800.0)),
        ("4: ACTIVE", "4: ACTIVE", "25 Gb/sec (1X EDR)", (PortState.ACTIVE, "", 25.0)),
        ("", "", "", (PortState.UNKNOWN, "", None)),
        ("9: LOST", "5: LinkUp", "fast", (PortState.UNKNOWN, "LinkUp", None)),
    ],
)
def test_states_and_rates(
    tmp_path: Path, state: str, phys_state: str, rate: str, told: tuple[PortState, str, float | None]
) -> None:
    write_machine(tmp_path, nics=[nic("mlx5_0", CARD, state=state, phys_state=phys_state, rate=rate)])
    port = ports(tmp_path)["mlx5_0:1"]
    assert (port.state, port.phys_state, port.rate) == told


def test_what_no_port_can_say_is_in_the_notes(tmp_path: Path) -> None:
    write_machine(tmp_path, nics=[nic("mlx5_0", CARD, state="9: LOST", phys_state="4: ACTIVE")])
    note = "mlx5_0:1 tells a state '9: LOST' and a phys_state '4: ACTIVE' that no port has: not known"
    assert discover(tmp_path).notes == (note,)


def test_a_bond_of_roce_ports_is_the_interface_of_each_of_them(tmp_path: Path) -> None:
    netdevs = [Netdev(name, path, master="bond0") for name, path in (("eth0", CARD), ("eth1", TWIN))]
    cards = [nic(f"mlx5_{n}", each.path, netdevs=(each,)) for n, each in enumerate(netdevs)]
    write_machine(tmp_path, nics=cards, netdevs=[Netdev("bond0", slaves=("eth1", "eth0"), mtu=4000)])
    write(tmp_path, f"sys/devices/{CARD}/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth0")
    found = ports(tmp_path)
    assert list(found) == ["mlx5_0:1", "mlx5_1:1"]
    for port, own in zip(found.values(), ("eth0", "eth1"), strict=True):
        assert port.interfaces == ("bond0", own)
        assert (port.bond, port.members, port.mtu) == ("bond0", ("eth0", "eth1"), 4000)


def test_one_rdma_device_for_a_bond(tmp_path: Path) -> None:
    netdevs = [Netdev(name, path, master="bond0") for name, path in (("eth0", CARD), ("eth1", TWIN))]
    first = nic("mlx5_bond_0", CARD, netdevs=(netdevs[0],))
    second = ethernet("eth1", TWIN, master="bond0")
    write_machine(tmp_path, nics=[first, second], netdevs=[Netdev("bond0", slaves=("eth0", "eth1"))])
    write(tmp_path, f"sys/devices/{CARD}/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0", "bond0")
    found = ports(tmp_path)
    assert list(found) == ["mlx5_bond_0:1", "eth1"]
    assert found["mlx5_bond_0:1"].interfaces == ("bond0", "eth0")
    assert found["eth1"].bond == "bond0"
    assert not found["eth1"].software


def test_a_bond_without_rdma_is_a_port_on_the_card_of_its_members(tmp_path: Path) -> None:
    cards = [ethernet("eth0", CARD, master="bond0"), ethernet("eth1", TWIN, master="bond0")]
    write_machine(tmp_path, nics=cards, netdevs=[Netdev("bond0", slaves=("eth0", "eth1"), speed=50_000)])
    bond = ports(tmp_path)["bond0"]
    assert (bond.pci, bond.numa, bond.rate, bond.members) == ("0000:1a:00.0", 0, 50.0, ("eth0", "eth1"))
    assert not bond.software
    assert not bond.rdma


def test_a_bond_over_two_cards_is_on_neither(tmp_path: Path) -> None:
    cards = [ethernet("eth0", CARD, 0, master="bond0"), ethernet("eth1", OTHER, 1, master="bond0")]
    write_machine(tmp_path, nics=cards, netdevs=[Netdev("bond0", slaves=("eth0", "eth1"))])
    bond = ports(tmp_path)["bond0"]
    assert (bond.pci, bond.numa, bond.software) == ("", None, False)


def test_interfaces_without_rdma(tmp_path: Path) -> None:
    cards = [ethernet("eth0", CARD), ethernet("eth1", OTHER, operstate="down", speed=-1)]
    write_machine(tmp_path, nics=cards)
    up, down = ports(tmp_path).values()
    assert (up.state, up.rate, up.mtu, up.driver, up.link_layer) == (
        PortState.ACTIVE,
        25.0,
        1500,
        "ice",
        LinkLayer.ETHERNET,
    )
    assert (down.state, down.rate) == (PortState.DOWN, None)
    assert up.interfaces == ("eth0",)


@pytest.mark.parametrize(
    ("operstate", "carrier", "state"),
    [
        ("unknown", "1", PortState.ACTIVE),
        ("unknown", "0", PortState.DOWN),
        ("unknown", "", PortState.UNKNOWN),
        ("dormant", "1", PortState.INIT),
        ("lowerlayerdown", "0", PortState.DOWN),
    ],
)
def test_a_driver_that_keeps_no_state_has_a_carrier(
    tmp_path: Path, operstate: str, carrier: str, state: PortState
) -> None:
    write_machine(tmp_path, nics=[ethernet("eth0", CARD, operstate=operstate)])
    write(tmp_path, f"sys/devices/{CARD}/net/eth0/carrier", carrier)
    assert ports(tmp_path)["eth0"].state is state


def test_interfaces_of_software(tmp_path: Path) -> None:
    virtual = [Netdev(name) for name in ("veth1", "tun0", "docker0")]
    virtual.append(Netdev("lo", kind=772, operstate="unknown"))
    virtual.append(Netdev("br0", bridge=True, lowers=("eth0",)))
    write_machine(tmp_path, nics=[ethernet("eth0", CARD, master="br0")], netdevs=virtual)
    found = ports(tmp_path)
    assert {name for name, port in found.items() if port.software} == {"veth1", "tun0", "docker0", "lo", "br0"}
    assert found["br0"].pci == ""
    assert found["eth0"].bond == ""


def test_a_vlan_is_on_the_card_below_it(tmp_path: Path) -> None:
    vlans = [Netdev("eth0.7", lowers=("eth0",)), Netdev("bond0.7", lowers=("bond0",)), Netdev("gone.7")]
    cards = [ethernet("eth0", CARD), ethernet("eth1", OTHER, master="bond0")]
    write_machine(tmp_path, nics=cards, netdevs=[*vlans, Netdev("bond0", slaves=("eth1",))])
    found = ports(tmp_path)
    assert (found["eth0.7"].pci, found["eth0.7"].software) == ("0000:1a:00.0", False)
    assert (found["bond0.7"].pci, found["bond0.7"].software) == ("0000:1b:00.0", False)
    assert found["gone.7"].software


def test_virtio_is_on_the_function_below_it(tmp_path: Path) -> None:
    path = "pci0000:00/0000:00:03.0"
    write_machine(tmp_path, [Function(path, 0x020000, 0x1AF4, 0x1000, "virtio-pci", -1)])
    write_machine(tmp_path, netdevs=[Netdev("ens3", f"{path}/virtio0", speed=-1)])
    link(tmp_path, f"sys/devices/{path}/virtio0/driver", "sys/bus/virtio/drivers/virtio_net")
    port = ports(tmp_path)["ens3"]
    assert (port.pci, port.driver, port.numa, port.rate) == ("0000:00:03.0", "virtio_net", None, None)
    assert not port.software


def test_a_virtual_function_of_this_host_and_of_another(tmp_path: Path) -> None:
    own = nic("mlx5_1", TWIN)
    guest = nic("mlx5_2", OTHER)
    cards = [
        nic("mlx5_0", CARD),
        replace(own, function=replace(own.function, physical=CARD)),
        replace(guest, function=replace(guest.function, device=0x101E)),
    ]
    write_machine(tmp_path, nics=cards)
    assert [port.virtual_function for port in ports(tmp_path).values()] == [False, True, True]
    assert [f.physical for f in discover(tmp_path).functions if f.physical] == ["0000:1a:00.0"]


@pytest.mark.parametrize(
    ("name", "vendor", "device", "driver", "layer"),
    [
        ("rdmap0s6", 0x1D0F, 0xEFA1, "efa", LinkLayer.EFA),
        ("efa_0", 0x1D0F, 0xEFA0, "", LinkLayer.EFA),
        ("hfi1_0", 0x8086, 0x24F0, "hfi1", LinkLayer.OMNIPATH),
        ("opap5s0", 0x8086, 0x24F0, "hfi1", LinkLayer.OMNIPATH),
        ("rdmap9s0", 0x14E4, 0x16D7, "bnxt_en", LinkLayer.INFINIBAND),
        ("mlx5_0", 0x15B3, 0x1021, "mlx5_core", LinkLayer.INFINIBAND),
    ],
)
def test_what_a_port_speaks_is_its_drivers(
    tmp_path: Path, name: str, vendor: int, device: int, driver: str, layer: LinkLayer
) -> None:
    card = Nic(Function(CARD, 0x020000, vendor, device, driver), name, link_layer="InfiniBand")
    write_machine(tmp_path, nics=[card])
    assert ports(tmp_path)[f"{name}:1"].link_layer is layer


def test_slingshot_has_its_own_class_and_the_state_of_its_interface(tmp_path: Path) -> None:
    card = ethernet("hsn0", CARD, speed=200_000)
    write_machine(tmp_path, nics=[card])
    link(tmp_path, "sys/class/cxi/cxi0", f"sys/devices/{CARD}/cxi/cxi0")
    found = ports(tmp_path)
    assert list(found) == ["cxi0:1"]
    port = found["cxi0:1"]
    assert (port.link_layer, port.pci, port.interfaces) == (LinkLayer.SLINGSHOT, "0000:1a:00.0", ("hsn0",))
    assert (port.state, port.rate) == (PortState.ACTIVE, 200.0)


def test_an_rdma_device_of_software_has_the_interface_that_it_rides_on(tmp_path: Path) -> None:
    write_machine(tmp_path, nics=[ethernet("eth0", CARD)])
    for name, folder in (("rxe0", "sys/devices/virtual/infiniband/rxe0"), ("scif0", "sys/devices/scif_dma_0/x/scif0")):
        link(tmp_path, f"sys/class/infiniband/{name}", folder)
    write(tmp_path, "sys/devices/virtual/infiniband/rxe0/parent", "eth0")
    write(tmp_path, "sys/devices/virtual/infiniband/rxe0/ports/1/state", "4: ACTIVE")
    found = ports(tmp_path)
    assert list(found) == ["eth0", "rxe0:1", "scif0:1"]
    assert not found["eth0"].software
    assert found["rxe0:1"].software
    assert found["scif0:1"].software
    assert found["rxe0:1"].interfaces == ("eth0",)
    assert found["scif0:1"].state is PortState.UNKNOWN


def seen(root: Path, addresses: dict[str, tuple[str, ...]]) -> dict[str, Port]:
    """The ports of a tree as of this host, whose interfaces have these addresses."""
    tree = Tree(root)
    return {port.id: port for port in read_ports(tree, Bus(tree, ()), addresses)[0]}


def gids(root: Path, rdma: str, *told: str) -> None:
    for number, gid in enumerate(told):
        write(root, f"sys/class/infiniband/{rdma}/ports/1/gids/{number}", gid)


ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
LOCAL = "fe80:0000:0000:0000:a4ed:ccff:fe8b:1994"
TEN = "0000:0000:0000:0000:0000:ffff:0a98:000c"


@pytest.mark.parametrize("netdev", ["eth1", ""])
def test_a_roce_port_whose_address_is_on_what_rests_on_its_interface(tmp_path: Path, netdev: str) -> None:
    """A VLAN or a bridge on it; in a container a macvlan, whose interface below is another namespace's."""
    write_machine(tmp_path, nics=[nic("mlx5_0", CARD, netdev)], netdevs=[Netdev("net1", lowers=("eth1",))])
    gids(tmp_path, "mlx5_0", LOCAL, ZERO, TEN)
    assert seen(tmp_path, {"net1": ("10.152.0.12",)})["mlx5_0:1"].addresses == (
        "10.152.0.12",
        "fe80::a4ed:ccff:fe8b:1994",
    )
    assert seen(tmp_path, {"eth1": ("10.1.1.1",)})["mlx5_0:1"].addresses == (
        ("10.1.1.1",) if netdev else ("10.152.0.12", "fe80::a4ed:ccff:fe8b:1994")
    )


def test_a_roce_port_without_any_address(tmp_path: Path) -> None:
    write_machine(tmp_path, nics=[nic("mlx5_0", CARD, "eth1"), nic("mlx5_1", OTHER)])
    assert seen(tmp_path, {"eth1": ()})["mlx5_0:1"].addresses == ()
    assert seen(tmp_path, {})["mlx5_1:1"].addresses is None  # its interface is not to be seen here, nor is its table
    gids(tmp_path, "mlx5_0", ZERO, ZERO, "no gid")
    gids(tmp_path, "mlx5_1", ZERO)
    assert [port.addresses for port in seen(tmp_path, {"eth1": ()}).values()] == [(), ()]


def test_an_rdma_device_that_this_container_was_not_given(tmp_path: Path) -> None:
    write_machine(tmp_path, nics=[nic("mlx5_0", CARD, "eth0"), nic("mlx5_1", OTHER, "eth1")])
    for number in (0, 1):
        write(tmp_path, f"sys/class/infiniband_verbs/uverbs{number}/ibdev", f"mlx5_{number}")
    assert list(ports(tmp_path)) == ["mlx5_0:1", "mlx5_1:1"]  # a captured tree has no /dev
    write(tmp_path, "dev/infiniband/uverbs1", "")
    assert list(ports(tmp_path)) == ["eth0", "mlx5_1:1"]
    assert discover(tmp_path).notes == ("mlx5_0 was left aside: there is no /dev/infiniband/uverbs0 here",)
    (tmp_path / "dev/infiniband/uverbs1").unlink()
    assert list(ports(tmp_path)) == ["eth0", "eth1"]
