"""What a port can be for, and how that is told."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from elaunch.topology.machine import LinkLayer, Port


class Role(str, enum.Enum):
    """What a port is for."""

    COMPUTE = "compute"
    MANAGEMENT = "management"
    STORAGE = "storage"
    SOFTWARE = "software"


@dataclass(frozen=True, slots=True)
class PortRole:
    """A port's role, with a code for machines and a sentence for people."""

    port: Port
    role: Role
    code: str
    text: str


Decision = tuple[Role, str, str]
"""Role, code and sentence of a port."""


def is_fabric(port: Port) -> bool:
    """Whether ``port`` is reached by more than sockets: RDMA, or a fabric that has a library of its own."""
    return port.rdma or port.link_layer not in (LinkLayer.ETHERNET, LinkLayer.UNKNOWN)
