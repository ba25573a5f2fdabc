"""What the operator's map gives each rank: it comes before every rule, and says what is odd about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from elaunch.errors import UsageError
from elaunch.topology import pci
from elaunch.topology.machine import Port, Topology
from elaunch.topology.naming import device_named, listed, names, near, ports_named
from elaunch.topology.nicmap import NicMap
from elaunch.topology.placing import Placed
from elaunch.topology.role import PortRole, Role


@dataclass(frozen=True, slots=True)
class Overridden:
    """Ports by local rank; ranks that the map does not name choose among ``everyone``, if it has an entry for all."""

    ports: dict[int, tuple[Port, ...]] = field(default_factory=dict)
    everyone: tuple[Port, ...] | None = None
    warnings: tuple[str, ...] = ()


def overridden(
    topology: Topology, placed: tuple[Placed, ...], nic_map: NicMap, roles: tuple[PortRole, ...]
) -> Overridden:
    """``nic_map`` for the ranks of this node. Raises UsageError where it names a port or device that is not here."""
    entries: dict[str, tuple[Port, ...]] = {key: _resolved(topology, nics) for key, nics in nic_map}
    found: dict[int, tuple[Port, ...]] = {}
    used: set[str] = set()
    for rank in placed:
        key = _key_of(topology, rank, entries)
        if key is not None:
            found[rank.local_rank] = entries[key]
            used.add(key)
    everyone = entries.get("*")
    named = {p.id for ports in (*found.values(), everyone or ()) for p in ports}
    warnings = [*_unused(topology, placed, entries, used), *_odd(named, roles)]
    return Overridden(found, everyone, tuple(warnings))


def _resolved(topology: Topology, nics: tuple[str, ...]) -> tuple[Port, ...]:
    found: dict[str, Port] = {}
    for name in nics:
        ports = ports_named(topology, name)
        if not ports:
            known = [word for port in topology.ports for word in names(port)]
            raise UsageError(f"the map of NICs names {name}, which this machine has not; {near(name, known)}")
        found.update((p.id, p) for p in ports)
    return tuple(found.values())


def _key_of(topology: Topology, rank: Placed, entries: dict[str, tuple[Port, ...]]) -> str | None:
    """The rank's own entry, then its device's."""
    own = str(rank.local_rank)
    if own in entries:
        return own
    if rank.device is not None:
        for word in (rank.device.uuid, rank.device.pci, rank.device.id):
            if word and word in entries:
                return word
    return None


def _unused(
    topology: Topology, placed: tuple[Placed, ...], entries: dict[str, tuple[Port, ...]], used: set[str]
) -> list[str]:
    said: list[str] = []
    for key in entries:
        if key in used or key == "*":
            continue
        if key.isdigit():
            if int(key) >= len(placed):
                said.append(f"the map of NICs names local rank {key}, and this node has {len(placed)} ranks")
        elif _is_address(key) and device_named(topology, key) is None:  # UUIDs of other hosts may stand in one file
            known = [d.pci for d in topology.devices if d.pci]
            raise UsageError(f"the map of NICs names the device {key}, which this machine has not; {near(key, known)}")
    return said


def _is_address(key: str) -> bool:
    try:
        return bool(pci.address(key))
    except ValueError:
        return False


def _odd(used: set[str], roles: tuple[PortRole, ...]) -> list[str]:
    """A map may name storage ports, as one copied from another machine does; it is followed, and told."""
    said: list[str] = []
    for role in (Role.STORAGE, Role.MANAGEMENT, Role.SOFTWARE):
        odd = [r for r in roles if r.role is role and r.port.id in used]
        if odd:
            missed = [r.port.nic for r in roles if r.role is Role.COMPUTE and r.port.id not in used]
            left = f"; it leaves out the compute ports {listed(missed)}" if missed else ""
            names = listed(r.port.nic for r in odd)
            said.append(f"the map of NICs names {role.value} ports: {names} ({odd[0].text}){left}")
    return said
