"""Which CPUs and which NUMA node's memory each rank is bound to."""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.errors import UsageError
from elaunch.topology.binding import CPU_BINDINGS, Reason
from elaunch.topology.cpus import CpuSet, cpu_set, format_list
from elaunch.topology.machine import Topology
from elaunch.topology.naming import device_order
from elaunch.topology.placing import Placed


@dataclass(frozen=True, slots=True)
class CpuBinding:
    """``cpus`` None: all that are allowed. ``memory`` None: the kernel's way. ``warning``: what is amiss, or empty."""

    numa: int | None
    cpus: CpuSet | None
    memory: int | None
    reason: Reason
    warning: str = ""


def bind_cpus(topology: Topology, placed: tuple[Placed, ...], mode: str) -> tuple[CpuBinding, ...]:
    """The CPUs of each rank. ``numa``: all allowed ones of its device's NUMA node, or of the nodes in turn where it has
    no device; ``core``: a share of these that no other rank of this node has. Raises UsageError."""
    if mode not in CPU_BINDINGS:
        raise UsageError(f"--cpu-bind {mode}: expected {', '.join(CPU_BINDINGS)}")
    nodes = _nodes(topology)
    homes = [_home(topology, p, nodes, mode) for p in placed]
    if mode == "none":
        return tuple(CpuBinding(h, None, None, Reason("cpus", "not_asked", "all allowed CPUs")) for h in homes)
    near = [_near(p, home, nodes) for p, home in zip(placed, homes, strict=True)]
    allowed = [c if topology.allowed_cpus is None else _both(c, topology.allowed_cpus) for c in near]
    bound = [_whole(topology, p, h, n, a) for p, h, n, a in zip(placed, homes, near, allowed, strict=True)]
    return tuple(bound if mode == "numa" else _shared_out(bound, placed))


def _nodes(topology: Topology) -> dict[int, CpuSet]:
    """NUMA nodes a process can run on: those that are a device's memory have no CPUs."""
    return {n.number: n.cpus for n in sorted(topology.numa, key=lambda n: n.number) if n.cpus}


def _home(topology: Topology, placed: Placed, nodes: dict[int, CpuSet], mode: str) -> int | None:
    device = placed.device
    if device is not None:
        if device.numa is not None:
            return device.numa
        holds = [number for number, cpus in nodes.items() if device.cpus and set(device.cpus) <= set(cpus)]
        return holds[0] if holds else (next(iter(nodes)) if len(nodes) == 1 else None)
    usable = [n for n, cpus in nodes.items() if topology.allowed_cpus is None or _both(cpus, topology.allowed_cpus)]
    return usable[placed.local_rank % len(usable)] if usable and mode != "none" else None


def _near(placed: Placed, home: int | None, nodes: dict[int, CpuSet]) -> CpuSet:
    if home in nodes:
        return nodes[home]
    return (placed.device.cpus or ()) if placed.device is not None else ()


def _whole(topology: Topology, placed: Placed, home: int | None, near: CpuSet, allowed: CpuSet) -> CpuBinding:
    if allowed:
        memory = home if any(n.number == home and n.cpus for n in topology.numa) else None
        what = f"NUMA node {home}" if home is not None else "the CPUs near its device"
        return CpuBinding(home, allowed, memory, Reason("cpus", "numa", f"{what}: CPUs {format_list(allowed)}"))
    if near and topology.allowed_cpus is not None:
        here = format_list(topology.allowed_cpus)
        text = f"none of the CPUs near its device ({format_list(near)}) is allowed: it runs on those that are ({here})"
        return CpuBinding(home, None, None, Reason("cpus", "not_allowed", text), text)
    text = "nothing tells which CPUs are near it: it runs on all that are allowed"
    return CpuBinding(home, None, None, Reason("cpus", "not_known", text), text)


def _shared_out(bound: list[CpuBinding], placed: tuple[Placed, ...]) -> list[CpuBinding]:
    """Each rank's share of the CPUs that it and others are bound to, in the order of their devices' addresses."""
    groups: dict[CpuSet, list[int]] = {}
    for place in sorted(range(len(bound)), key=lambda n: (_address(placed[n]), n)):
        cpus = bound[place].cpus
        if cpus is not None:
            groups.setdefault(cpus, []).append(place)
    result = list(bound)
    for cpus, places in groups.items():
        shares = slices(cpus, len(places))
        for number, place in enumerate(places):
            one = bound[place]
            if shares:
                text = f"share {number + 1} of {len(places)} of {one.reason.text}: {format_list(shares[number])}"
                reason, warning = Reason("cpus", "core", text), ""
            else:
                warning = f"{len(places)} ranks share the CPUs {format_list(cpus)}, too few for one each"
                reason = Reason("cpus", "too_few", warning)
            share = shares[number] if shares else cpus
            result[place] = CpuBinding(one.numa, share, one.memory, reason, warning)
    return result


def _address(placed: Placed) -> tuple[object, ...]:
    return device_order(placed.device) if placed.device is not None else ()


def slices(cpus: CpuSet, count: int) -> tuple[CpuSet, ...]:
    """``cpus`` in ``count`` parts as even as can be; none where there are fewer CPUs.

    ``Topology`` does not hold which CPUs are threads of one core. Most kernels number the first threads of all cores,
    then the second ones (0-55,112-167): runs of equal length are parted alike, so that there no two ranks share a core.
    Where threads of a core have numbers next to each other, as in many virtual machines, a core at the edge of a part
    may be shared.
    """
    runs = _runs(cpus)
    if len({len(run) for run in runs}) > 1 or len(runs[0]) < count:
        runs = [list(cpus)]
    if len(runs[0]) < count:
        return ()
    return tuple(
        cpu_set(c for run in runs for c in run[n * len(run) // count : (n + 1) * len(run) // count])
        for n in range(count)
    )


def _runs(cpus: CpuSet) -> list[list[int]]:
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return runs or [[]]


def _both(one: CpuSet, other: CpuSet) -> CpuSet:
    return cpu_set(set(one) & set(other))
