"""The tree and the picture of a machine."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from elaunch.cli.topo_show import drawn
from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.drawing import svg
from elaunch.topology.machine import Device, LinkLayer, NumaNode, PciFunction, Port, PortState, Topology
from elaunch.topology.tree import Branch, tree

SMALL = Topology(
    source="sysfs",
    devices=(Device("0000:05:00.0", 0, pci="0000:05:00.0", model="H100", numa=0),),
    ports=(
        Port("mlx5_0", pci="0000:06:00.0", numa=0, link_layer=LinkLayer.INFINIBAND, rate=400, state=PortState.ACTIVE),
        Port("mlx5_1", pci="0000:86:00.0", numa=1, state=PortState.DOWN, phys_state="Polling"),
        Port("lo", rdma=False, software=True),
    ),
    functions=(
        PciFunction("0000:01:00.0", root="pci0000:00", numa=0, speed=32.0, width=16),
        PciFunction("0000:02:00.0", parent="0000:01:00.0", root="pci0000:00", numa=0),
        PciFunction("0000:03:00.0", parent="0000:02:00.0", root="pci0000:00", numa=0),
        PciFunction("0000:05:00.0", parent="0000:02:00.0", root="pci0000:00", numa=0),
        PciFunction("0000:06:00.0", parent="0000:03:00.0", root="pci0000:00", numa=0),
        PciFunction("0000:86:00.0", root="pci0000:80", numa=1),
    ),
    numa=(NumaNode(0, (0, 1, 2, 3)), NumaNode(1, (4, 5, 6, 7))),
)


def leaves(branch: Branch) -> list[str]:
    return [branch.key] if branch.key else [key for child in branch.children for key in leaves(child)]


def test_everything_of_hardware_stands_in_the_tree_once_under_what_it_is_connected_to() -> None:
    assert drawn(tree(SMALL)).splitlines() == [
        "machine",
        "├─ NUMA node 0 (CPUs 0-3)",
        "│  └─ host bridge pci0000:00",
        "│     └─ PCI 0000:01:00.0 > 0000:02:00.0",
        "│        ├─ PCI 0000:03:00.0",
        "│        │  └─ NIC mlx5_0:1 (InfiniBand, 400 Gbit/s)",
        "│        └─ device 0000:05:00.0 (H100)",
        "└─ NUMA node 1 (CPUs 4-7)",
        "   └─ host bridge pci0000:80",
        "      └─ NIC mlx5_1:1 (down, Polling)",
    ]


def test_a_circle_of_bridges_ends() -> None:
    circle = (
        PciFunction("0000:05:00.0", parent="0000:01:00.0"),
        PciFunction("0000:01:00.0", parent="0000:02:00.0"),
        PciFunction("0000:02:00.0", parent="0000:01:00.0"),
    )
    assert sorted(leaves(tree(replace(SMALL, functions=circle)))) == ["0000:05:00.0", "mlx5_0:1", "mlx5_1:1"]


def test_the_picture_joins_a_device_to_its_ports_and_shows_what_is_of_no_use() -> None:
    rank = RankBinding(3, device=SMALL.devices[0], ports=(SMALL.ports[0],))
    picture = svg(tree(SMALL), NodeBinding(ranks=(rank,), shared=(SMALL.ports[0],)), "a <machine> & its \x1b[31m ways")
    root = ET.fromstring(picture)
    spaces = {"s": "http://www.w3.org/2000/svg"}
    ways = root.findall("s:path", spaces)
    assert [way.findtext("s:title", namespaces=spaces) for way in ways] == ["0000:05:00.0 to mlx5_0:1"]
    kinds = {
        (rect.findtext("s:title", namespaces=spaces) or "").split(" (")[0].split(" Infini")[0]: rect.get("class")
        for rect in root.findall("s:rect", spaces)
    }
    assert kinds["rank 3: 0000:05:00.0 H100"] == "device"
    assert kinds["NIC mlx5_0:1"] == "port"
    assert kinds["NIC mlx5_1:1 down, Polling"] == "unused"
    assert root.get("aria-label") == "a <machine> & its ?[31m ways"


def test_a_port_that_every_rank_may_use_is_not_drawn_as_one_of_no_use() -> None:
    rank = RankBinding(0, device=SMALL.devices[0], ports=SMALL.ports)
    root = ET.fromstring(svg(tree(SMALL), NodeBinding(ranks=(rank,), shared=SMALL.ports), ""))
    kinds = [rect.get("class") for rect in root.findall("{http://www.w3.org/2000/svg}rect")]
    assert (kinds.count("port"), kinds.count("unused")) == (2, 0)


def test_no_box_stands_outside_of_the_picture_or_on_another() -> None:
    ports = tuple(replace(SMALL.ports[0], nic=f"mlx5_{n}", pci=f"0000:{n:02x}:00.0") for n in range(40))
    functions = tuple(PciFunction(f"0000:{n:02x}:00.0", root=f"pci{n % 3}", numa=n % 2, parent="") for n in range(40))
    root = ET.fromstring(svg(tree(replace(SMALL, ports=ports, functions=functions)), None, "many"))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    boxes = []
    for rect in root.findall("{http://www.w3.org/2000/svg}rect"):
        x, y, w, h = (float(rect.get(name, -1)) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
        if rect.get("class") != "box":
            boxes.append((x, y, w, h))
    for number, (x, y, w, h) in enumerate(boxes):
        for X, Y, W, H in boxes[number + 1 :]:
            assert x + w <= X or x >= X + W or y + h <= Y or y >= Y + H


def test_lines_between_boxes_of_one_column_part_and_stay_in_the_picture() -> None:
    devices = tuple(Device(f"GPU{n}", n, numa=0) for n in range(2))
    ports = tuple(Port(f"mlx5_{n}") for n in range(2))
    flat = Topology("nvidia-smi", devices, ports, numa=(NumaNode(0),))
    ranks = tuple(RankBinding(n, device=devices[n], ports=(ports[1 - n],)) for n in range(2))
    root = ET.fromstring(svg(tree(flat), NodeBinding(ranks=ranks), ""))
    paths = [path.get("d", "") for path in root.findall("{http://www.w3.org/2000/svg}path")]
    bends = [float(path.split("C")[1].split(",")[0]) for path in paths]
    assert len(set(bends)) == 2
    assert max(bends) < float(root.get("width", "0"))
