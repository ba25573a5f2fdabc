"""What a rank tells of the machine that it runs on: one rank of each node does. Imports no torch."""

from __future__ import annotations

import os

from elaunch.qualify import facts
from elaunch.qualify.programs.telling import LOCAL_RANK, tell


def tell_machine() -> None:
    """This node's topology, cores, load and versions, if this is its first rank."""
    if LOCAL_RANK == 0:
        tell("machine", **facts.node(os.environ))
