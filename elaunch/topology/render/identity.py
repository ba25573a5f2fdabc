"""What a rank is told of its own place in the machine, for the start check and whoever wants to know."""

from __future__ import annotations

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.render import nccl
from elaunch.topology.render.ground import Ground


def wanted(node: NodeBinding, rank: RankBinding, ground: Ground) -> dict[str, str]:
    """What is not known is left out."""
    device = rank.device
    told = {
        "ELAUNCH_TOPOLOGY_DIGEST": ground.digest,
        "ELAUNCH_DEVICE_ID": (device.uuid or device.pci or device.id) if device is not None else "",
        "ELAUNCH_NICS": ",".join(port.id for port in nccl.effective(node, rank, ground)),
        "ELAUNCH_NUMA": "" if rank.numa is None else str(rank.numa),
        "ELAUNCH_RAIL": "" if rank.rail is None else str(rank.rail),
        "ELAUNCH_HOST": ground.host,
    }
    return {name: value for name, value in told.items() if value}
