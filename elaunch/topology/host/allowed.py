"""The CPUs that this process may use: its affinity, and the CPU set of its cgroup."""

from __future__ import annotations

from collections.abc import Iterator

from elaunch.topology.cpus import CpuSet, cpu_set, parse_list
from elaunch.topology.host.tree import Tree

_V1 = ("cpuset.effective_cpus", "cpuset.cpus")
_V2 = ("cpuset.cpus.effective",)


def allowed_cpus(tree: Tree) -> CpuSet | None:
    """None where the tree does not tell, as a captured one without ``proc/self``."""
    told = [cpus for cpus in (_affinity(tree), _cgroup(tree)) if cpus]
    if not told:
        return None
    # The kernel keeps the one within the other. Where they do not meet, the group was not this process's own.
    return cpu_set(set(told[0]).intersection(*told[1:])) or told[0]


def _affinity(tree: Tree) -> CpuSet | None:
    for line in (tree.text("proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return _parsed(value)
    return None


def _cgroup(tree: Tree) -> CpuSet | None:
    """The narrowest that version 1 or 2 of cgroups tells for this process's own path."""
    for line in (tree.text("proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "cpuset" in controllers.split(","):
            found = _nearest(tree, "sys/fs/cgroup/cpuset", path, _V1)
        elif number == "0" and not controllers:
            found = _nearest(tree, "sys/fs/cgroup", path, _V2) or _nearest(tree, "sys/fs/cgroup/unified", path, _V2)
        else:
            continue
        if found is not None:
            return found
    return None


def _nearest(tree: Tree, mount: str, path: str, names: tuple[str, ...]) -> CpuSet | None:
    """Of the group at ``path`` or the nearest above it that has a CPU set.

    In a container the path may be the host's, of which only the lower end is mounted: the mount's own group is the
    container's then. A controller that is not passed on to a group leaves it no file of its own.
    """
    for folder in _upwards(mount, path):
        for name in names:
            found = _parsed(tree.text(f"{folder}/{name}") or "")
            if found:
                return found
    return None


def _upwards(mount: str, path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part]
    if ".." in parts:  # outside of what this namespace shows
        parts = []
    for count in range(len(parts), -1, -1):
        yield "/".join([mount, *parts[:count]])


def _parsed(told: str) -> CpuSet | None:
    try:
        return parse_list(told)
    except ValueError:
        return None
