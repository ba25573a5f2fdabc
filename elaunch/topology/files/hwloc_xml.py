"""To come."""

from __future__ import annotations

from elaunch.errors import TopologyError
from elaunch.topology.files.markup import Element
from elaunch.topology.machine import Topology


def describe(root: Element) -> Topology:
    raise TopologyError("this format is not read yet")
