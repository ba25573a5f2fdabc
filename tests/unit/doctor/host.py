"""Hosts for the checks of the doctor: a good one, and what is to be different."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from elaunch.doctor.facts import Host, Limit
from elaunch.topology.machine import LinkLayer, Port, PortState, Topology
from elaunch.topology.probe.netlink import Link

GIB = 1 << 30


def link(name: str, index: int = 2, **more: Any) -> Link:
    made = Link(index, name, 9000, up=True, carrier=True, loopback=False, addresses=(f"10.0.{index}.1/24",))
    return replace(made, **more)


RDMA = Port("mlx5_0", link_layer=LinkLayer.INFINIBAND, state=PortState.ACTIVE)
GOOD = Host(
    name="gpu-01",
    resolved=("10.0.2.1",),
    links=(link("eth0"), link("eth1", 3), Link(1, "lo", 65536, True, True, True, addresses=("127.0.0.1/8",))),
    strict_arp=True,
    topology=Topology("sysfs", ports=(RDMA,)),
    shm=64 * GIB,
    shm_free=60 * GIB,
    open_files=Limit(1024, 1 << 20),
    locked_memory=Limit(None, None),
    cpus=64,
    cpus_online=64,
    clock_synchronised=True,
    nvidia=True,
    peermem=True,
    persistence=True,
)


def but(**values: Any) -> Host:
    """A good host, but for that."""
    return replace(GOOD, **values)
