"""Which functions are devices, in whose order, and what their drivers say of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elaunch.topology.host.accelerators import Drivers, read_devices
from elaunch.topology.host.bus import Bus
from elaunch.topology.host.discovery import discover
from elaunch.topology.host.numa import read_nodes
from elaunch.topology.host.told import Told
from elaunch.topology.host.tree import Tree
from elaunch.topology.machine import Device, Peer, Topology
from tests.unit.topology.sysfs_tree import gpu, write_machine

A, B = "0000:19:00.0", "0000:3b:00.0"
GPUS = [gpu(f"pci0000:15/{A}"), gpu(f"pci0000:37/{B}", 1)]
AMD = [gpu(f"pci0000:15/{A}", vendor=0x1002, class_code=0x120000), gpu(f"pci0000:37/{B}", 1, vendor=0x1002)]
NODES = "sys/devices/virtual/kfd/kfd/topology/nodes"


def ids(topology: Topology) -> list[str]:
    assert [device.index for device in topology.devices] == list(range(len(topology.devices)))
    return [device.id for device in topology.devices]


def information(minor: int, uuid: str = "GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b", excluded: str = "No") -> str:
    model = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 42"
    return f"{model}\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\nGPU Excluded:\t {excluded}"


def proc(address: str, told: str) -> dict[str, str]:
    return {f"proc/driver/nvidia/gpus/{address}/information": told}


def test_without_a_driver_devices_stand_in_the_order_of_the_bus(tmp_path: Path) -> None:
    write_machine(tmp_path, reversed(GPUS))
    topology = discover(tmp_path)
    assert ids(topology) == [A, B]
    assert [(d.vendor, d.numa, d.uuid, d.cpus) for d in topology.devices] == [
        ("NVIDIA", 0, "", None),
        ("NVIDIA", 1, "", None),
    ]


def test_nvidias_driver_tells_model_and_uuid(tmp_path: Path) -> None:
    write_machine(tmp_path, GPUS, files=proc(A, information(0)) | proc(B, information(1, "GPU-????????-????-????")))
    first, second = discover(tmp_path).devices
    assert (first.model, first.uuid) == ("NVIDIA H100 80GB HBM3", "GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b")
    assert second.uuid == ""


def test_a_gpu_is_one_whatever_class_a_hypervisor_gives_it_if_its_driver_lists_it(tmp_path: Path) -> None:
    write_machine(tmp_path, [replace(GPUS[0], class_code=0)], files=proc(A, information(0)))
    device = discover(tmp_path).devices[0]
    assert (device.id, device.vendor) == (A, "NVIDIA")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (proc(A, information(0)), "its driver does not list it"),
        (proc(A, information(0)) | proc(B, information(1, excluded="Yes")), "its driver excludes it"),
        (
            proc(A, information(0)) | proc(B, information(1)) | {"dev/nvidia0": "", "dev/nvidiactl": ""},
            "there is no /dev/nvidia1",
        ),
    ],
)
def test_a_gpu_that_no_process_can_use_is_left_aside_and_named(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    write_machine(tmp_path, GPUS, files=files)
    topology = discover(tmp_path)
    assert ids(topology) == [A]
    assert topology.notes == (f"device {B} was left aside: {reason}",)


def test_a_virtual_function_belongs_to_a_guest(tmp_path: Path) -> None:
    virtual = replace(gpu("pci0000:15/0000:19:00.4"), physical=GPUS[0].path)
    write_machine(tmp_path, [GPUS[0], virtual])
    topology = discover(tmp_path)
    assert ids(topology) == [A]
    assert topology.notes == (f"device 0000:19:00.4 was left aside: it is a virtual function of {A}",)


def test_nvml_has_the_last_word_on_order_and_on_who_is_there(tmp_path: Path) -> None:
    tree = Tree(write_machine(tmp_path, GPUS))
    nodes = read_nodes(tree)
    listed = [Told(B, B, "GPU-1", "H200", (Peer("GPU7", "nvlink", 18), Peer(A, "nvlink", 18))), Told("", "GPU7")]
    devices, notes = read_devices(Bus(tree, nodes), nodes, Drivers(nvidia=listed, amd=None))
    assert devices == (
        Device(B, 0, B, "GPU-1", "NVIDIA", "H200", 1, None, (Peer("GPU7", "nvlink", 18),)),
        Device("GPU7", 1, vendor="NVIDIA"),
    )
    assert notes == (f"device {A} was left aside: its driver does not list it",)


def kfd(node: int, location: int, unique: int, to: tuple[int, ...] = (), minor: int = 128) -> dict[str, str]:
    told = f"simd_count 304\ngfx_target_version 90402\ndomain 0\nlocation_id {location}\nunique_id {unique}"
    files = {f"{NODES}/{node}/properties": f"{told}\ndrm_render_minor {minor}"}
    for count, far in enumerate((0, *to)):
        kind = 2 if far == 0 else 11  # to the processor by PCIe
        files[f"{NODES}/{node}/io_links/{count}/properties"] = f"type {kind}\nnode_from {node}\nnode_to {far}"
    return files


CPU = {f"{NODES}/0/properties": "cpu_cores_count 64\nsimd_count 0"}
CARDS = kfd(1, 0x3B00, 0x9FB5E7C8E3B9FB1E, (2,)) | kfd(2, 0x1900, 0x1, (1,), 129)


def test_rocm_tells_order_uuid_model_and_xgmi(tmp_path: Path) -> None:
    write_machine(tmp_path, AMD, files=CPU | CARDS)
    (tmp_path / "sys/class/kfd").mkdir(parents=True)
    (tmp_path / "sys/class/kfd/kfd").symlink_to("../../devices/virtual/kfd/kfd")
    topology = discover(tmp_path)
    assert ids(topology) == [B, A]
    first, second = topology.devices
    assert (first.uuid, first.model, first.vendor) == ("GPU-9fb5e7c8e3b9fb1e", "gfx942", "AMD")
    assert second.uuid == "GPU-0000000000000001"
    assert (first.peers, second.peers) == ((Peer(A, "xgmi"),), (Peer(B, "xgmi"),))


@pytest.fixture
def amd(tmp_path: Path) -> Path:
    (tmp_path / "sys/class/kfd").mkdir(parents=True)
    (tmp_path / "sys/class/kfd/kfd").symlink_to("/sys/devices/virtual/kfd/kfd")
    return write_machine(tmp_path, AMD)


def test_a_gpu_of_another_container_is_left_aside(amd: Path) -> None:
    files = CARDS | {"dev/dri/renderD128": "", f"{NODES}/3/properties": ""}
    topology = discover(write_machine(amd, files=files))
    assert ids(topology) == [B]
    assert topology.devices[0].peers == ()
    assert topology.notes == (f"device {A} was left aside: there is no /dev/dri/renderD129",)


def test_a_driver_without_gpus_leaves_all_aside(amd: Path) -> None:
    topology = discover(write_machine(amd, files=CPU))
    assert ids(topology) == []
    assert [note.split(":", 3)[-1] for note in topology.notes] == [" its driver does not list it"] * 2


@pytest.mark.parametrize("places", [(0x1900, 0x1901), (0x1900, 0x1900 | 1 << 28)])
def test_the_parts_of_a_split_gpu_are_devices_of_one_function(amd: Path, places: tuple[int, int]) -> None:
    files = CPU | kfd(1, places[0], 0x5) | kfd(2, places[1], 0x5)
    topology = discover(write_machine(amd, files=files))
    assert [(d.id, d.pci, d.uuid) for d in topology.devices] == [(A, A, ""), ("0000:19:00.1", A, "")]
