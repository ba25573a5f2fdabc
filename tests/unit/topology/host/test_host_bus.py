"""The PCI tree: from where sysfs puts a function, whatever the numbers of buses are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elaunch.topology.host.bus import Bus, chain
from elaunch.topology.host.discovery import discover
from elaunch.topology.host.numa import read_nodes
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import PciFunction, Topology
from tests.unit.topology.sysfs_tree import gpu, nic, write, write_machine

SWITCH = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0"


def functions(topology: Topology) -> dict[str, PciFunction]:
    return {function.address: function for function in topology.functions}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("sys/devices/pci0000:00/0000:00:03.0", [("0000:00:03.0", "", "pci0000:00")]),
        (
            "sys/devices/pci0000:80/0000:80:02.2/0000:82:00.0/infiniband/mlx4_0",
            [("0000:80:02.2", "", "pci0000:80"), ("0000:82:00.0", "0000:80:02.2", "pci0000:80")],
        ),
        ("sys/devices/pci10000:00/10000:00:04.0", [("10000:00:04.0", "", "pci10000:00")]),
        (  # a volume management device has a host bridge of its own
            "sys/devices/pci0000:97/0000:97:00.5/pci10000:80/10000:80:01.0",
            [("0000:97:00.5", "", "pci0000:97"), ("10000:80:01.0", "0000:97:00.5", "pci0000:97")],
        ),
        (
            "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001/pci0001:00/0001:00:00.0",
            [("0001:00:00.0", "", "pci0001:00")],
        ),
        ("sys/devices/virtual/net/lo", []),
        ("sys/devices/pci0000:00/0000:00:03.0/virtio0/net/ens3", [("0000:00:03.0", "", "pci0000:00")]),
    ],
)
def test_a_path_tells_what_is_above_a_function(path: str, found: list[tuple[str, str, str]]) -> None:
    assert [(place.address, place.parent, place.root) for place in chain(path)] == found


def test_devices_and_nics_come_with_the_bridges_above_them_and_nothing_else(tmp_path: Path) -> None:
    disk = replace(gpu("pci0000:15/0000:15:02.0/0000:20:00.0"), class_code=0x010802, vendor=0x144D)
    write_machine(tmp_path, [gpu(f"{SWITCH}/0000:19:00.0"), disk], [nic("mlx5_0", f"{SWITCH}/0000:1a:00.0")])
    found = functions(discover(tmp_path))
    assert list(found) == ["0000:15:01.0", "0000:16:00.0", "0000:17:02.0", "0000:19:00.0", "0000:1a:00.0"]
    assert found["0000:19:00.0"] == PciFunction(
        "0000:19:00.0", "0000:17:02.0", "pci0000:15", 0, 0x030200, 0x10DE, 0x2330, 32.0, 16
    )
    assert found["0000:15:01.0"].parent == ""
    assert found["0000:15:01.0"].class_code == 0x060400


def test_the_same_machine_without_uevents_is_the_same(tmp_path: Path) -> None:
    write_machine(tmp_path, [gpu(f"{SWITCH}/0000:19:00.0")])
    told = discover(tmp_path)
    for uevent in tmp_path.rglob("uevent"):
        lines = dict(line.split("=") for line in uevent.read_text().splitlines())
        for name, value in zip(("vendor", "device"), lines["PCI_ID"].split(":"), strict=True):
            (uevent.parent / name).write_text(f"0x{value}\n")
        uevent.unlink()
    assert discover(tmp_path) == told
    assert len(told.functions) == 4


def test_without_the_list_of_the_bus_its_folders_are_walked(tmp_path: Path) -> None:
    write_machine(tmp_path, [gpu(f"{SWITCH}/0000:19:00.0")], [nic("mlx5_0", f"{SWITCH}/0000:1a:00.0", "eth0")])
    told = discover(tmp_path)
    for entry in (tmp_path / "sys/bus/pci/devices").iterdir():
        entry.unlink()
    assert discover(tmp_path) == told
    assert told.devices


def test_functions_as_plain_folders_have_no_place_in_the_tree(tmp_path: Path) -> None:
    write_machine(tmp_path, files={"sys/bus/pci/devices/0004:05:00.0/class": "0x030000"})
    bus = Bus(Tree(tmp_path), read_nodes(Tree(tmp_path)))
    assert bus.addresses() == ["0004:05:00.0"]
    assert bus.function("0004:05:00.0") == PciFunction("0004:05:00.0", class_code=0x030000)


def test_a_plain_folder_is_where_another_path_says_that_it_is(tmp_path: Path) -> None:
    card = nic("mlx5_0", f"{SWITCH}/0000:1a:00.0")
    write_machine(tmp_path, nics=[card])
    told = discover(tmp_path)
    (tmp_path / "sys/bus/pci/devices/0000:1a:00.0").unlink()
    write(tmp_path, "sys/bus/pci/devices/0000:1a:00.0/class", "0x020000")
    assert discover(tmp_path) == told


@pytest.mark.parametrize(
    ("speed", "width", "told"),
    [
        ("32.0 GT/s PCIe", "16", (32.0, 16)),
        ("8 GT/s", "4", (8.0, 4)),
        ("2.5 GT/s PCIe", "1", (2.5, 1)),
        ("Unknown", "0", (None, 0)),
        ("Unknown speed", "many", (None, None)),
    ],
)
def test_links_are_as_claimed(tmp_path: Path, speed: str, width: str, told: tuple[float | None, int | None]) -> None:
    device = replace(gpu("pci0000:15/0000:19:00.0"), speed=speed)
    write_machine(tmp_path, [device])
    write(tmp_path, f"sys/devices/{device.path}/current_link_width", width)
    function = functions(discover(tmp_path))["0000:19:00.0"]
    assert (function.speed, function.width) == told


def test_an_idle_gpu_is_as_fast_as_one_at_work(tmp_path: Path) -> None:
    device = replace(gpu("pci0000:15/0000:19:00.0"), speed="2.5 GT/s PCIe")
    write_machine(tmp_path, [device])
    write(tmp_path, f"sys/devices/{device.path}/max_link_speed", "32.0 GT/s PCIe")
    assert functions(discover(tmp_path))["0000:19:00.0"].speed == 32.0


def test_a_function_that_answers_no_more_is_named(tmp_path: Path) -> None:
    write_machine(tmp_path, [replace(gpu("pci0000:15/0000:19:00.0"), speed="Unknown", width=63)])
    assert discover(tmp_path).notes == ("PCI function 0000:19:00.0 answers no more: it has fallen off the bus",)


def test_a_virtual_machine_knows_no_numa_node(tmp_path: Path) -> None:
    write_machine(tmp_path, [gpu("pci0000:15/0000:19:00.0", numa=-1)])
    topology = discover(tmp_path)
    assert topology.functions[0].numa is None
    assert topology.devices[0].numa is None
    assert topology.devices[0].cpus is None


def test_without_a_numa_node_the_cpus_near_it_tell(tmp_path: Path) -> None:
    device = gpu("pci0000:15/0000:19:00.0", numa=None)
    write_machine(tmp_path, [device], files={f"sys/devices/{device.path}/local_cpus": "000000c0"})
    topology = discover(tmp_path)
    assert topology.devices[0].numa == 1
    assert topology.devices[0].cpus == (6, 7)
    assert topology.functions[0].numa == 1
