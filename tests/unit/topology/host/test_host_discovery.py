"""Whole machines: what was written down is found, in whatever order it is listed and whatever is damaged."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.topology.host import tree
from elaunch.topology.host.discovery import discover
from elaunch.topology.machine import PortState, Topology
from tests.unit.topology.sysfs_tree import Netdev, ethernet, link, switched, write_machine

PATH = "pci0000:a0/0000:a0:01.0/0000:a1:00.0"


@pytest.fixture(scope="module")
def machine() -> Iterator[Path]:
    """Four GPUs of a driver, six RDMA ports, two in a bond and two in a state that none has, and a plain interface."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        gpus, nics = switched(4, 6)
        nics[1:3] = [replace(each, netdevs=(replace(each.netdevs[0], master="bond0"),)) for each in nics[1:3]]
        nics[4:6] = [replace(each, phys_state="4: ACTIVE") for each in nics[4:6]]
        slaves = tuple(each.netdevs[0].name for each in nics[1:3])
        files = {f"proc/driver/nvidia/gpus/{gpu.address}/information": "GPU UUID: GPU-1\nModel: H100" for gpu in gpus}
        files |= {"proc/self/status": "Cpus_allowed_list: 0-5", "proc/self/cgroup": "0::/job"}
        files |= {"sys/fs/cgroup/job/cpuset.cpus.effective": "0-6"}
        write_machine(root, gpus, [*nics, ethernet("eth0", PATH)], [Netdev("bond0", slaves=slaves)], files=files)
        yield root


@pytest.fixture(scope="module")
def files(machine: Path) -> list[Path]:
    return sorted(path for path in machine.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.fixture(scope="module")
def entries(machine: Path) -> list[Path]:
    return sorted(path for path in machine.rglob("*") if path.is_symlink() or path.is_dir())


def test_a_large_server(tmp_path: Path) -> None:
    gpus, nics = switched(16, 40)
    topology = discover(write_machine(tmp_path, gpus, nics))
    assert [device.id for device in topology.devices] == sorted(gpu.address for gpu in gpus)
    assert {port.nic: port.interfaces for port in topology.ports} == {
        nic.rdma: tuple(netdev.name for netdev in nic.netdevs) for nic in nics
    }
    assert topology.notes == ()
    addresses = {function.address for function in topology.functions}
    assert {function.parent for function in topology.functions} - {""} < addresses


def test_a_captured_machine_asks_nothing_of_this_host(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("read_nvml", "read_addresses"):
        monkeypatch.setattr(f"elaunch.topology.host.discovery.{name}", lambda: pytest.fail("asked this host"))
    topology = discover(machine)
    assert topology.allowed_cpus == (0, 1, 2, 3, 4, 5)
    assert {port.addresses for port in topology.ports} == {None}
    assert len(topology.devices) == 4


def test_an_empty_folder_is_a_machine_of_which_nothing_is_known(tmp_path: Path) -> None:
    note = "there is no sysfs here: nothing is known of devices and ports"
    assert discover(tmp_path) == discover(tmp_path / "absent") == Topology("sysfs", notes=(note,))


def test_this_host_can_be_read() -> None:
    topology = discover(nvml=False)
    assert topology.allowed_cpus
    assert topology.ports


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_the_order_of_listing_changes_nothing(machine: Path, seed: int) -> None:
    listdir, drawn = tree.os.listdir, random.Random(seed)

    def shuffled(path: str) -> list[str]:
        return drawn.sample(names := listdir(path), len(names))

    with mock.patch.object(tree.os, "listdir", shuffled):
        assert discover(machine) == discover(machine)


@given(data=st.data(), content=st.one_of(st.none(), st.binary(max_size=64), st.sampled_from([b"-1", b"9" * 40, b"0-"])))
@settings(max_examples=100, deadline=None)
def test_no_damage_to_a_file_is_an_error(
    machine: Path, files: list[Path], data: st.DataObject, content: bytes | None
) -> None:
    file = data.draw(st.sampled_from(files))
    before = file.read_bytes()
    try:
        file.unlink() if content is None else file.write_bytes(content)
        topology = discover(machine)
        assert {port.nic for port in topology.ports} >= {f"mlx5_{number}" for number in range(6)}
    finally:
        file.write_bytes(before)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_link_or_folder_that_is_gone_is_an_error(machine: Path, entries: list[Path], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(entries))
    aside = machine.parent / "aside"
    gone.rename(aside)
    try:
        discover(machine)
    finally:
        aside.rename(gone)


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    write_machine(tmp_path, netdevs=[Netdev("a", lowers=("b",)), Netdev("b", lowers=("a",), master="a")])
    link(tmp_path, "sys/class/infiniband/mlx5_0", "sys/class/infiniband/mlx5_0")
    link(tmp_path, "sys/bus/pci/devices/0000:00:01.0", "sys/bus/pci/devices/0000:00:01.0")
    found = {port.nic: port for port in discover(tmp_path).ports}
    assert found["a"].software
    assert found["mlx5_0"].state is PortState.UNKNOWN
