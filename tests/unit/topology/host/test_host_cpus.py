"""NUMA nodes, and the CPUs that a process may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from elaunch.topology.cpus import CpuSet
from elaunch.topology.host.discovery import discover
from elaunch.topology.host.numa import node_of
from elaunch.topology.machine import NumaNode
from tests.unit.topology.sysfs_tree import write_machine

ALL = {"proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0"}


def test_nodes_and_their_cpus(tmp_path: Path) -> None:
    write_machine(tmp_path, nodes={8: "4-7", 0: "0-3", 250: ""})
    assert discover(tmp_path).numa == (NumaNode(0, (0, 1, 2, 3)), NumaNode(8, (4, 5, 6, 7)), NumaNode(250))


def test_a_mask_serves_where_there_is_no_list(tmp_path: Path) -> None:
    write_machine(tmp_path, nodes=(), files={"sys/devices/system/node/node0/cpumap": "0000,00000005"})
    assert discover(tmp_path).numa == (NumaNode(0, (0, 2)),)


def test_a_kernel_without_numa_is_one_node(tmp_path: Path) -> None:
    write_machine(tmp_path, nodes=(), files={"sys/devices/system/cpu/online": "0-2"})
    assert discover(tmp_path).numa == (NumaNode(0, (0, 1, 2)),)


def test_damage_leaves_a_node_without_cpus(tmp_path: Path) -> None:
    write_machine(tmp_path, nodes=("0-3", "3-1"))
    assert discover(tmp_path).numa == (NumaNode(0, (0, 1, 2, 3)), NumaNode(1))


def test_the_memory_of_a_gpu_is_a_node_and_is_named(tmp_path: Path) -> None:
    files = {"proc/driver/nvidia/gpus/0004:05:00.0/numa_status": "Node:      255\nStatus:    online"}
    topology = discover(write_machine(tmp_path, nodes=("0-3",), files=files))
    assert topology.numa == (NumaNode(0, (0, 1, 2, 3)), NumaNode(255))
    assert topology.notes == ("NUMA node 255 is the memory of GPU 0004:05:00.0, no place for processes",)


@pytest.mark.parametrize(("cpus", "node"), [((0, 1), 0), ((5,), 1), ((3, 4), None), ((), None), (None, None)])
def test_the_node_of_some_cpus(cpus: CpuSet | None, node: int | None) -> None:
    assert node_of((NumaNode(0, (0, 1, 2, 3)), NumaNode(1, (4, 5)), NumaNode(9)), cpus) == node


def test_a_captured_tree_does_not_tell_what_this_process_may_use(tmp_path: Path) -> None:
    assert discover(write_machine(tmp_path)).allowed_cpus is None


def test_affinity_alone(tmp_path: Path) -> None:
    files = {"proc/self/status": "Cpus_allowed:\tff\nCpus_allowed_list:\t2-3,6"}
    assert discover(write_machine(tmp_path, files=files)).allowed_cpus == (2, 3, 6)


@pytest.mark.parametrize(
    ("cgroup", "files", "allowed"),
    [
        ("0::/job/step", {"job/step/cpuset.cpus.effective": "0-1", "job/cpuset.cpus.effective": "0-3"}, (0, 1)),
        ("0::/job/step", {"job/step/cpu.max": "max", "job/cpuset.cpus.effective": "0-3"}, (0, 1, 2, 3)),
        ("0::/", {"cpuset.cpus.effective": "4-5"}, (4, 5)),
        ("0::/docker/1f", {"cpuset.cpus.effective": "4-5"}, (4, 5)),
        ("0::/../other", {"cpuset.cpus.effective": "4-5", "../other/cpuset.cpus.effective": "0"}, (4, 5)),
        ("3:cpuset:/job\n0::/", {"cpuset/job/cpuset.effective_cpus": "6", "cpuset/cpuset.cpus": "0-7"}, (6,)),
        ("3:cpuset,cpu:/job\n0::/", {"cpuset/job/cpuset.cpus": "1,9"}, (1,)),
        ("5:cpu:/job\n0::/job", {"unified/job/cpuset.cpus.effective": "2"}, (2,)),
        ("0::/job", {"job/cpuset.cpus.effective": "64-127"}, tuple(range(8))),
        ("0::/job", {"job/cpuset.cpus.effective": "damage"}, tuple(range(8))),
        ("", {"cpuset.cpus.effective": "4-5"}, tuple(range(8))),
    ],
)
def test_the_cpu_set_of_the_own_cgroup(tmp_path: Path, cgroup: str, files: dict[str, str], allowed: CpuSet) -> None:
    told = {f"sys/fs/cgroup/{path}": content for path, content in files.items()}
    write_machine(tmp_path, files=ALL | told | {"proc/self/cgroup": cgroup})
    assert discover(tmp_path).allowed_cpus == allowed
