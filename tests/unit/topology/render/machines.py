"""Small nodes for the renderers: a few ports, a few ranks, written down as facts."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.topology.binding import NodeBinding, RankBinding, Refused
from elaunch.topology.machine import Device, LinkLayer, Port, PortState


def infiniband(nic: str, number: int = 1, **facts: object) -> Port:
    values = {"link_layer": LinkLayer.INFINIBAND, "rate": 400.0, "state": PortState.ACTIVE, **facts}
    return Port(nic, number, **values)  # type: ignore[arg-type]


def ethernet(name: str, **facts: object) -> Port:
    values = {"link_layer": LinkLayer.ETHERNET, "rate": 25.0, "state": PortState.ACTIVE, **facts}
    return Port(name, rdma=False, **values)  # type: ignore[arg-type]


def efa(name: str, **facts: object) -> Port:
    return infiniband(name, link_layer=LinkLayer.EFA, **facts)


def nvidia(index: int, uuid: str | None = None) -> Device:
    pci = f"0000:{0x10 + index:02x}:00.0"
    return Device(pci, index, pci, f"GPU-{index:08x}" if uuid is None else uuid, "nvidia")


def node(
    ports: Sequence[Port], ranks: int = 2, refused: Sequence[Port] = (), devices: Sequence[Device] = ()
) -> NodeBinding:
    """All ranks share ``ports``; of ``refused`` it is said that they are down, or that they are for management."""
    given = devices or [nvidia(n) for n in range(ranks)]
    bound = tuple(RankBinding(n, given[n], tuple(ports), numa=n // 2, rail=None) for n in range(ranks))
    return NodeBinding(bound, tuple(ports), tuple(_refused(port) for port in refused))


def railed(ports: Sequence[Port], refused: Sequence[Port] = ()) -> NodeBinding:
    """Each rank has a port and a rail of its own."""
    bound = tuple(RankBinding(n, nvidia(n), (port,), rail=n) for n, port in enumerate(ports))
    return NodeBinding(bound, (), tuple(_refused(port) for port in refused))


def _refused(port: Port) -> Refused:
    if port.state is PortState.DOWN:
        return Refused(port, "down", f"{port.id} is down")
    return Refused(port, "management", "it is the management network's")
