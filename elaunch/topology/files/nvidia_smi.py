"""To come."""

from __future__ import annotations

from elaunch.errors import TopologyError
from elaunch.topology.machine import Topology


def parse(data: bytes) -> Topology:
    raise TopologyError("this format is not read yet")
