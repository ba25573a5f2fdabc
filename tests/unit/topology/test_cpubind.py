"""Which CPUs ranks get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elaunch.topology.binding import NodeBinding, Wishes
from elaunch.topology.cpubind import slices
from elaunch.topology.cpus import cpu_set, format_list, parse_list
from elaunch.topology.machine import NumaNode, Topology
from elaunch.topology.policy import bind
from tests.unit.topology import machines
from tests.unit.topology.machines import Machine


def bound(topology: Topology, mode: str, slots: int = 0) -> NodeBinding:
    return bind(topology, slots or len(topology.devices), Wishes(cpu_bind=mode, network=False))


def lists(binding: NodeBinding) -> list[str | None]:
    return [None if r.cpus is None else format_list(r.cpus) for r in binding.ranks]


def uneven() -> Topology:
    """Six devices on node 0, two on node 1, 32 CPUs each."""
    machine = Machine(cpus_per_node=32)
    for numa in (0, 0, 0, 0, 0, 0, 1, 1):
        machine.gpu(machine.root_port(numa), numa)
    return machine.topology()


def test_none_binds_nothing() -> None:
    binding = bound(uneven(), "none")
    assert lists(binding) == [None] * 8
    assert {r.memory for r in binding.ranks} == {None}
    assert [r.numa for r in binding.ranks] == [0] * 6 + [1] * 2


def test_numa_gives_the_whole_node() -> None:
    binding = bound(uneven(), "numa")
    assert lists(binding) == ["0-31"] * 6 + ["32-63"] * 2
    assert [r.memory for r in binding.ranks] == [0] * 6 + [1] * 2


def test_core_parts_each_node_among_its_own_ranks() -> None:
    binding = bound(uneven(), "core")
    sizes = [len(r.cpus or ()) for r in binding.ranks]
    assert sizes == [5, 5, 6, 5, 5, 6, 16, 16]
    assert cpu_set(c for r in binding.ranks for c in r.cpus or ()) == cpu_set(range(64))


def test_runs_of_equal_length_are_parted_alike() -> None:
    """0-3 and 8-11 are the two threads of four cores: no two ranks share a core."""
    assert slices(parse_list("0-3,8-11"), 2) == (parse_list("0-1,8-9"), parse_list("2-3,10-11"))
    assert slices(parse_list("0-3,8-10"), 2) == (parse_list("0-2"), parse_list("3,8-10"))
    assert slices(parse_list("0,2,4,6"), 2) == (parse_list("0,2"), parse_list("4,6"))


def test_fewer_cpus_than_ranks_are_shared_with_a_warning() -> None:
    machine = Machine(nodes=1, cpus_per_node=2)
    for _ in range(3):
        machine.gpu(machine.root_port(0), 0)
    binding = bound(machine.topology(), "core")
    assert lists(binding) == ["0-1"] * 3
    assert binding.warnings == ("ranks 0, 1, 2: 3 ranks share the CPUs 0-1, too few for one each",)


def test_only_allowed_cpus_are_used() -> None:
    allowed = replace(uneven(), allowed_cpus=parse_list("0-3,32-39"))
    assert lists(bound(allowed, "numa")) == ["0-3"] * 6 + ["32-39"] * 2


def test_an_empty_intersection_falls_back_with_a_warning() -> None:
    binding = bound(replace(uneven(), allowed_cpus=parse_list("0-15")), "core")
    assert lists(binding)[6:] == [None, None]
    assert [r.memory for r in binding.ranks[6:]] == [None, None]
    assert binding.warnings == (
        "ranks 6, 7: none of the CPUs near its device (32-63) is allowed: it runs on those that are (0-15)",
    )


def test_memory_of_devices_is_no_place_for_ranks() -> None:
    topology = uneven()
    with_memory = replace(topology, numa=(*topology.numa, NumaNode(252), NumaNode(253)))
    assert lists(bound(with_memory, "numa")) == lists(bound(topology, "numa"))
    odd = replace(with_memory, devices=tuple(replace(d, numa=252) for d in topology.devices))
    assert {r.memory for r in bound(odd, "numa").ranks} == {None}
    without_devices = replace(machines.cpu_only(), numa=(NumaNode(252), *machines.cpu_only().numa))
    assert [r.numa for r in bound(without_devices, "numa", 4).ranks] == [0, 1, 0, 1]


def test_a_device_without_a_node_is_bound_by_the_cpus_near_it() -> None:
    topology = uneven()
    near = parse_list("32-63")
    devices = tuple(replace(d, numa=None, cpus=near) for d in topology.devices)
    assert {r.numa for r in bound(replace(topology, devices=devices), "numa").ranks} == {1}
    bare = bound(replace(topology, devices=devices, numa=()), "numa")
    assert lists(bare) == ["32-63"] * 8
    assert {r.memory for r in bare.ranks} == {None}


@pytest.mark.parametrize(
    ("mode", "expected"), [("numa", ["0-15", "16-31"] * 2), ("core", ["0-7", "16-23", "8-15", "24-31"])]
)
def test_ranks_without_devices_are_spread_over_the_nodes(mode: str, expected: list[str]) -> None:
    assert lists(bound(machines.cpu_only(), mode, 4)) == expected


def test_ranks_without_devices_use_only_nodes_with_allowed_cpus() -> None:
    topology = replace(machines.cpu_only(), allowed_cpus=parse_list("16-19"))
    assert lists(bound(topology, "core", 2)) == ["16-17", "18-19"]
