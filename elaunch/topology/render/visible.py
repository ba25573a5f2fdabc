"""Which devices a rank sees: ``CUDA_VISIBLE_DEVICES``, or ``ROCR_VISIBLE_DEVICES`` with AMD's.

By UUID, since an index means another device in another order (``CUDA_DEVICE_ORDER``) or under another restriction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.machine import Device
from elaunch.topology.render.ground import Ground

CUDA = "CUDA_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
ROCR = "ROCR_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def wanted(node: NodeBinding, rank: RankBinding, ground: Ground) -> dict[str, str]:
    """What differs from the agent's environment; nothing where devices are not known, or all ranks are to see all."""
    if ground.virtual:
        return _show([rank.device], ground) if rank.device is not None else {}
    return _show([other.device for other in node.ranks], ground) if ground.mapped else {}


def _show(devices: Sequence[Device | None], ground: Ground) -> dict[str, str]:
    shown = [device for device in devices if device is not None]
    if not shown or len(shown) < len(devices):
        return {}
    if all(is_amd(device) for device in shown):
        indices = ",".join(str(n) for n in range(len(shown)))
        # Both count among what ROCR shows; torch reads the one or the other.
        again = {name: indices for name in (CUDA, HIP) if ground.virtual or name in ground.user}
        again.pop(HIP, None) if HIP not in ground.user else None
        return {ROCR: ",".join(device.uuid or str(device.index) for device in shown), **again}
    if all(device.uuid for device in shown):
        return {CUDA: ",".join(device.uuid for device in shown)}
    if not ground.mapped:
        return {}
    if CUDA in ground.user:  # an index counts among what that shows
        entries = [entry.strip() for entry in ground.user[CUDA].split(",")]
        return {CUDA: ",".join(entries[device.index] for device in shown)}
    return {CUDA: ",".join(str(device.index) for device in shown), ORDER: "PCI_BUS_ID"}


def is_amd(device: Device) -> bool:
    return device.vendor == "AMD"


def visible(user: Mapping[str, str], devices: Sequence[Device]) -> tuple[Device, ...] | None:
    """The devices that the user's variables leave, in that order; None where there are no such variables.

    As CUDA and HIP read them: up to the first entry that names no device. Raises ValueError where an entry cannot be
    told from here (a part of a device, MIG).
    """
    found: tuple[Device, ...] | None = None
    amd = bool(devices) and all(is_amd(device) for device in devices)
    for variable in (ROCR, HIP, CUDA) if amd else (CUDA,):
        if variable in user:
            found = _named(variable, user[variable], tuple(devices) if found is None else found, by_place=amd)
    return found


def _named(variable: str, text: str, devices: Sequence[Device], *, by_place: bool) -> tuple[Device, ...]:
    chosen: list[Device] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry.startswith("MIG-"):
            raise ValueError(f"{variable}={text} shows parts of devices (MIG)")
        if entry.isdecimal():
            numbers = [n if by_place else device.index for n, device in enumerate(devices)]
            matches = [device for number, device in zip(numbers, devices, strict=True) if number == int(entry)]
        else:
            matches = [d for d in devices if entry and d.uuid.lower().startswith(entry.lower())]
        if not matches and entry.startswith("GPU-") and not all(device.uuid for device in devices):
            raise ValueError(f"{variable}={text} names devices by UUID, and those of this machine are not known")
        if len(matches) != 1 or matches[0] in chosen:
            break
        chosen.append(matches[0])
    return tuple(chosen)


def unlike(devices: Sequence[Device], ground: Ground) -> tuple[str, ...]:
    """A sentence where CUDA may count the devices otherwise than they are counted here."""
    models = sorted({device.model for device in devices if device.model and not is_amd(device)})
    by_name = ground.virtual or ground.mapped or "GPU-" in ground.user.get(CUDA, "")
    if len(models) < 2 or by_name or ground.user.get(ORDER) == "PCI_BUS_ID":
        return ()
    return (
        f"the GPUs here are of {len(models)} models ({', '.join(models)}), and CUDA counts the fastest first:"
        f" set {ORDER}=PCI_BUS_ID, lest ranks are bound near another GPU than they use",
    )
