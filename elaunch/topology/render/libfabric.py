"""libfabric, through which NCCL reaches EFA (with aws-ofi-nccl) and Slingshot.

``FI_PROVIDER`` keeps libfabric from falling back to sockets in silence. ``FI_EFA_USE_DEVICE_RDMA=1`` is wanted by
aws-ofi-nccl before 1.7 and libfabric before 1.18 (doc/efa-env-var.md there), does no harm to later ones, and ends every
rank at its start on NICs that cannot read remote memory (g5). So it is set only where the description of the machine
says that devices' memory can be reached. ``FI_EFA_IFACE`` and ``FI_CXI_DEVICE_NAME`` name NICs: set where some of them
are left out, else the plug-in groups them by itself.
"""

from __future__ import annotations

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.machine import LinkLayer, Port
from elaunch.topology.render.ground import Ground, listed
from elaunch.topology.render.names import differs

PROVIDER = "FI_PROVIDER"
DEVICE_RDMA = "FI_EFA_USE_DEVICE_RDMA"
_PROVIDERS = {LinkLayer.EFA: ("efa", "FI_EFA_IFACE"), LinkLayer.SLINGSHOT: ("cxi", "FI_CXI_DEVICE_NAME")}
VARIABLES = (PROVIDER, DEVICE_RDMA, *(names for _, names in _PROVIDERS.values()))


def wanted(node: NodeBinding, rank: RankBinding, ground: Ground) -> dict[str, str]:
    for layer, (provider, names) in _PROVIDERS.items():
        ports = _of(layer, listed(node, rank))
        if not ports:
            continue
        env = {PROVIDER: provider}
        if layer is LinkLayer.EFA and all(port.gdr for port in ports):
            env[DEVICE_RDMA] = "1"
        if set(ports) != set(_of(layer, ground.ports)):
            env[names] = ",".join(port.nic for port in ports)
        return env
    return {}


def conflict(variable: str, text: str, would_be: str, node: NodeBinding) -> str:
    """What is to be said of a value that the user has set; "" where it comes to the same."""
    same = would_be in text.replace(";", ",").split(",") if variable == PROVIDER else text == would_be
    return "" if same else differs(variable, text, would_be)


def _of(layer: LinkLayer, ports: tuple[Port, ...]) -> tuple[Port, ...]:
    return tuple(port for port in ports if port.link_layer is layer)
