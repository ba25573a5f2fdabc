"""Machines of any shape, and the same machine found in another order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st

from elaunch.topology.distance import Distances
from elaunch.topology.machine import LinkLayer, PortState, ToldLevel, Topology
from tests.unit.topology.machines import CX6, CX7, Machine

Thing = TypeVar("Thing")
BROADCOM = (0x1000, 0xC030)
_LAYERS = st.sampled_from([LinkLayer.INFINIBAND] * 4 + [LinkLayer.ETHERNET])
_RATES = st.sampled_from([400.0] * 5 + [200.0, 100.0])


@st.composite
def machines(draw: st.DrawFn, devices: int = 1) -> Topology:
    """A machine with ``devices`` devices at least, all of its ports up."""
    machine = Machine(nodes=draw(st.integers(1, 4)), cpus_per_node=draw(st.sampled_from([2, 8, 12])))
    nodes = st.integers(0, machine.nodes - 1)
    for _ in range(draw(st.integers(1, 4))):
        _switch(draw, machine, draw(nodes))
    for _ in range(draw(st.integers(0, 3))):
        numa = draw(nodes)
        machine.nic(machine.root_port(numa), numa, rate=draw(_RATES), link_layer=draw(_LAYERS))
    for place in range(draw(st.integers(0, 2))):
        machine.interface(f"eth{place}", machine.root_port(0), 0)
    while len(machine.devices) < devices:
        numa = draw(nodes)
        machine.gpu(machine.root_port(numa), numa)
    return machine.topology()


def _switch(draw: st.DrawFn, machine: Machine, numa: int) -> None:
    vendor = draw(st.sampled_from([(0x11F8, 0x4000), BROADCOM]))
    switch = machine.switch(numa, vendor=vendor)
    for _ in range(draw(st.integers(0, 3))):
        (switch.switch(vendor=vendor) if draw(st.booleans()) else switch).gpu()
    for _ in range(draw(st.integers(0, 3))):
        model = draw(st.sampled_from([CX7, CX7, CX6]))
        switch.nic(ports=draw(st.sampled_from([1, 1, 2])), model=model, rate=draw(_RATES), link_layer=draw(_LAYERS))


def found_otherwise(topology: Topology, seed: int) -> Topology:
    """The same machine, its parts found in another order, indices and names given accordingly."""
    dice = random.Random(seed)
    devices = [replace(d, index=n) for n, d in enumerate(_shuffled(dice, topology.devices))]
    names = _shuffled(dice, [p.nic for p in topology.ports if p.rdma])
    ports = [
        replace(p, nic=names.pop(), guid=hex(n), interfaces=(f"x{n}",)) if p.rdma else p
        for n, p in enumerate(topology.ports)
    ]
    return replace(
        topology,
        devices=tuple(devices),
        ports=tuple(_shuffled(dice, ports)),
        functions=tuple(_shuffled(dice, topology.functions)),
        numa=tuple(_shuffled(dice, topology.numa)),
    )


def as_a_matrix_tells(topology: Topology) -> Topology:
    """The same machine as the text of ``nvidia-smi topo -m`` shows it: names and levels, no addresses."""
    distances = Distances(topology)
    levels = tuple(
        ToldLevel(f"GPU{d.index}", p.id, distances.level(d, p)) for d in topology.devices for p in topology.ports
    )
    devices = tuple(replace(d, id=f"GPU{d.index}", pci="", uuid="") for d in topology.devices)
    ports = tuple(replace(p, pci="", rate=None, state=PortState.UNKNOWN) for p in topology.ports if p.rdma)
    return replace(topology, source="nvidia-smi", devices=devices, ports=ports, functions=(), levels=levels)


def equal_ports(topology: Topology) -> Topology:
    """``topology`` with adapters of one model throughout."""
    ports = tuple(replace(p, rate=400.0, link_layer=LinkLayer.INFINIBAND) if p.rdma else p for p in topology.ports)
    nics = {p.pci for p in ports if p.rdma}
    functions = tuple(replace(f, device=CX7[1]) if f.address in nics else f for f in topology.functions)
    return replace(topology, ports=ports, functions=functions)


def shuffled(topology: Topology, seed: int) -> Topology:
    """``topology`` with its parts in another order, and nothing else changed."""
    dice = random.Random(seed)
    return replace(
        topology,
        devices=tuple(_shuffled(dice, topology.devices)),
        ports=tuple(_shuffled(dice, topology.ports)),
        levels=tuple(_shuffled(dice, topology.levels)),
        numa=tuple(_shuffled(dice, topology.numa)),
    )


def down(topology: Topology, port: str) -> Topology:
    """``topology`` with the port of this id down, as the kernel tells it: with a rate that means nothing."""
    return replace(
        topology,
        ports=tuple(
            replace(p, state=PortState.DOWN, rate=10.0, phys_state="Polling") if p.id == port else p
            for p in topology.ports
        ),
    )


def _shuffled(dice: random.Random, things: Sequence[Thing]) -> list[Thing]:
    return dice.sample(list(things), len(things))
