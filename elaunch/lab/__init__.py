"""A laboratory on one machine: hosts with networks of their own, etcd members, controllers, and what is done to them.

    with Lab(hosts=3) as lab:
        lab.etcd, lab.controllers, lab.hosts
        with lab.fault(Fault("partition", seconds=5), host=2): ...

Needs root. What a killed process has made is taken away by a reaper of its own (docs/inject.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elaunch.lab.ground import NoGroundError, impossible
    from elaunch.lab.jobs import Watched
    from elaunch.lab.lab import Injection, Lab, LabAgent
    from elaunch.lab.network import Network

_WHERE = {
    "Injection": "lab",
    "Lab": "lab",
    "LabAgent": "lab",
    "Network": "network",
    "NoGroundError": "ground",
    "Watched": "jobs",
    "impossible": "ground",
}
__all__ = ["Injection", "Lab", "LabAgent", "Network", "NoGroundError", "Watched", "impossible"]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
