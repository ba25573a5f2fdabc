"""Rail numbers are places on the machine, whatever is down and in whatever order things were found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elaunch.topology.machine import PortState, Topology
from elaunch.topology.rails import number
from tests.unit.topology import machines
from tests.unit.topology.machines import Machine, rails


def dual_port(cards: int = 4) -> Topology:
    machine = Machine(nodes=1)
    for _ in range(cards):
        switch = machine.switch(0)
        switch.gpu()
        switch.nic(ports=2)
    return machine.topology()


def test_storage_ports_are_on_no_rail() -> None:
    assert list(rails(machines.dgx_like()).values()) == list(range(8))
    assert "mlx5_1:1" not in rails(machines.dgx_like())


def test_the_ports_of_a_card_are_one_rail() -> None:
    assert list(rails(dual_port()).values()) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (1, [0] * 8),
        (2, [0, 0, 0, 0, 1, 1, 1, 1]),
        (4, [0, 0, 1, 1, 2, 2, 3, 3]),
        (8, list(range(8))),
        (16, list(range(8))),
    ],
)
def test_as_many_rails_as_asked(wanted: int, expected: list[int]) -> None:
    assert list(rails(dual_port(), wanted).values()) == expected


def test_rails_stay_when_a_port_is_down_or_found_later() -> None:
    topology = machines.dgx_like()
    down = machines.changed(topology, "mlx5_3", state=PortState.DOWN)
    assert number([*reversed(topology.ports)]) == number([*topology.ports])
    assert rails(down) == rails(topology) == rails(replace(topology, ports=topology.ports[::-1]))
