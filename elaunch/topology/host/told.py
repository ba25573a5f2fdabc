"""What a driver tells of one of its devices, beyond what sysfs does."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.topology.machine import Peer


@dataclass(frozen=True, slots=True)
class Told:
    """``address`` is that of its PCI function, empty on a chip that is processor and GPU.

    ``id`` differs from it there, and for a part of a device that is split. ``hidden`` is why no process here can use
    it, a sentence's end, else empty. ``memory`` is the NUMA node that its own memory is.
    """

    address: str
    id: str = ""
    uuid: str = ""
    model: str = ""
    peers: tuple[Peer, ...] = ()
    hidden: str = ""
    memory: int | None = None
