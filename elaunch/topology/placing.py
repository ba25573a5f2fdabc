"""Which device each local rank has."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.errors import UsageError
from elaunch.topology.binding import Reason, Wishes
from elaunch.topology.machine import Device, Topology
from elaunch.topology.naming import device_named, device_order, near


@dataclass(frozen=True, slots=True)
class Placed:
    """A local rank, its device or None, and why."""

    local_rank: int
    device: Device | None
    reason: Reason


def place(topology: Topology, slots: int, wishes: Wishes) -> tuple[Placed, ...]:
    """The device of each local rank: as the operator maps them, else in the driver's order. Raises UsageError."""
    devices = sorted(topology.devices, key=lambda d: (d.index, device_order(d)))
    if wishes.device_map:
        return _mapped(topology, slots, wishes.device_map)
    if not devices:
        return _without(slots, "no_device", "this machine has no accelerator")
    if slots > len(devices):
        text = f"{slots} ranks and {len(devices)} devices: each rank chooses for itself (--device-map says otherwise)"
        return _without(slots, "more_ranks_than_devices", text)
    return tuple(
        Placed(n, device, Reason("device", "in_order", f"{device.id} is device {device.index} of this machine"))
        for n, device in enumerate(devices[:slots])
    )


def _without(slots: int, code: str, text: str) -> tuple[Placed, ...]:
    return tuple(Placed(n, None, Reason("device", code, text)) for n in range(slots))


def _mapped(topology: Topology, slots: int, names: tuple[str, ...]) -> tuple[Placed, ...]:
    if len(names) != slots:
        raise UsageError(f"--device-map names {len(names)} devices for {slots} ranks on this node: name one for each")
    placed: list[Placed] = []
    for rank, name in enumerate(names):
        device = device_named(topology, name)
        if device is None:
            known = [word for d in topology.devices for word in (str(d.index), d.pci or d.id, d.uuid) if word]
            raise UsageError(f"--device-map: this machine has no device {name!r}; {near(name, known)}")
        placed.append(Placed(rank, device, Reason("device", "mapped", f"{device.id} by --device-map")))
    return tuple(placed)
