"""What the digest leaves out, and the sentences about what it holds."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from elaunch.topology.digest import differences, digest
from elaunch.topology.machine import Peer, PortState
from tests.unit.topology import machines

PROGRAM = """
from elaunch.topology.digest import digest
from tests.unit.topology import machines
print(digest(machines.dgx_like()))
"""


def test_it_is_the_same_in_every_process() -> None:
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        check=True,
        text=True,
        env={"PYTHONHASHSEED": "7"},
        cwd=".",
    )
    assert made.stdout.strip() == digest(machines.dgx_like())
    assert len(digest(machines.dgx_like())) == 32


def test_links_that_come_and_go_are_left_out() -> None:
    topology = machines.dgx_like()
    down = machines.changed(topology, "mlx5_4", state=PortState.DOWN, rate=10.0, phys_state="Polling")
    assert digest(down) == digest(topology)


def test_what_belongs_to_one_host_is_left_out() -> None:
    topology = machines.dgx_like()
    other = machines.changed(
        topology, "mlx5_4", addresses=("10.0.0.9",), guid="0x1", interfaces=("renamed0",), mtu=9000
    )
    assert digest(other) == digest(topology)


def test_a_degraded_port_is_a_difference() -> None:
    topology = machines.dgx_like()
    assert differences(topology, machines.changed(topology, "mlx5_4", rate=200.0)) == (
        "port 0000:23:00.0: rate is 200 Gbit/s instead of 400 Gbit/s",
    )


def test_ports_of_one_address_are_told_apart() -> None:
    topology = machines.pairs()
    one = next(p for p in topology.ports if p.nic == "mlx5_0")
    two = replace(topology, ports=(*topology.ports, replace(one, number=2, rate=100.0)))
    assert digest(two) != digest(topology)
    assert digest(replace(two, ports=two.ports[::-1])) == digest(two)
    assert digest(replace(two, ports=(*topology.ports, replace(one, number=2, rate=200.0)))) != digest(two)


def test_differences_are_sentences() -> None:
    topology = machines.pairs()
    first, *rest = topology.devices
    assert differences(topology, replace(topology, devices=tuple(rest))) == (
        "device 0000:13:00.0 is missing (NVIDIA H100)",
    )
    assert differences(replace(topology, devices=tuple(rest)), topology) == (
        "device 0000:13:00.0 is there as well (NVIDIA H100)",
    )
    linked = replace(first, model="H200", peers=(Peer(rest[0].id, "nvlink", 18),))
    assert differences(topology, replace(topology, devices=(linked, *rest))) == (
        "device 0000:13:00.0: model is NVIDIA H200 instead of NVIDIA H100",
        "device 0000:13:00.0: nvlink to device 0000:15:00.0 is 18 instead of not known",
    )
