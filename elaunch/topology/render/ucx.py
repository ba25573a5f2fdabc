"""UCX: ``UCX_NET_DEVICES`` lists ports of RDMA devices as ``mlx5_0:1``, and plain interfaces for TCP."""

from __future__ import annotations

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.render import nccl
from elaunch.topology.render.ground import Ground, listed, ports_of
from elaunch.topology.render.names import Names, complaint, differs

DEVICES = "UCX_NET_DEVICES"


def wanted(node: NodeBinding, rank: RankBinding, ground: Ground) -> dict[str, str]:
    """Nothing for EFA and Slingshot: not every UCX can drive them, and one that cannot would find no device left.

    Nothing either where NCCL alone was told to keep to sockets.
    """
    if nccl.sockets_only(ground.user):
        return {}
    ports = listed(node, rank)
    named = nccl.verbs(ports) if any(port.rdma for port in ports) else ports
    return {DEVICES: ",".join(port.id for port in named)} if named else {}


def conflict(variable: str, text: str, would_be: str, node: NodeBinding) -> str:
    """What is to be said of a value that the user has set; "" where it comes to the same."""
    if text.strip() == "all" or set(text.split(",")) == set(would_be.split(",")):
        return ""
    ports, names = nccl.verbs(ports_of(node)), Names.plain(text)
    if not any(names.takes(port.nic, port.number) for port in ports):
        return differs(variable, text, would_be)  # interfaces for TCP, say
    refused = [each for each in node.refused if each.port in ports]
    return complaint(variable, text, names, ports, refused) or differs(variable, text, would_be)
