"""Levels and candidates of captured machines against what NCCL's rules, written anew by others, give for them."""

from __future__ import annotations

from functools import cache

import pytest

from elaunch.topology.distance import Distances
from elaunch.topology.files.reading import read
from elaunch.topology.machine import Device, Port, Topology
from tests.unit.topology import captured
from tests.unit.topology.pages import rows

pytestmark = captured.needs_captures

NCCL = captured.table("DERIVED_nccl_paths.tsv")
HWLOC = [r for r in captured.table("DERIVED_hwloc_affinity.tsv") if r["level"] != "NONE"]


@cache
def machine(folder: str, file: str) -> Topology:
    return read(captured.FOLDER / folder / file)


@pytest.mark.parametrize("file", sorted({r["file"] for r in NCCL}))
def test_levels_and_candidates_are_nccls(file: str) -> None:
    topology = machine("nccl_xml", file)
    distances = Distances(topology)
    for row in (r for r in NCCL if r["file"] == file):
        device = _device(topology, row["gpu_busid"])
        best = distances.tiers(device, topology.ports)[0]
        wanted = set(row["candidates_at_best_level"].split(","))
        assert {_name(p, wanted) for p in best} == wanted, row
        assert distances.level(device, best[0]).name == row["best_level"], row


@pytest.mark.parametrize("file", sorted(p.name for p in captured.files("nccl_xml")))
def test_every_file_is_read_and_ordered_the_same_each_time(file: str) -> None:
    one, other = machine("nccl_xml", file), read(captured.FOLDER / "nccl_xml" / file)
    assert one == other
    for device in one.devices:
        assert Distances(one).tiers(device, one.ports) == Distances(other).tiers(device, other.ports[::-1])


def test_levels_differ_from_hwlocs_only_as_the_page_says() -> None:
    """The rows there are by common ancestor in hwloc's tree, which counts bridges and packages."""
    found: dict[str, set[tuple[str, str]]] = {}
    for row in HWLOC:
        ours, theirs = _of_hwloc(row), _theirs(row)
        if ours != theirs:
            found.setdefault(row["file"], set()).add((ours, theirs))
    assert {file: sorted(pairs) for file, pairs in found.items()} == _explained()


def _of_hwloc(row: dict[str, str]) -> str:
    topology = machine("hwloc", row["file"])
    device = next((d for d in topology.devices if d.pci == row["gpu_busid"]), None)
    if device is None:
        return "no device"
    distances = Distances(topology)
    ports = [p for p in topology.ports if p.rdma] or topology.ports
    best = min(distances.level(device, p) for p in ports)
    count = sum(distances.level(device, p) is best for p in ports)
    return f"{best.name} to {count}"


def _theirs(row: dict[str, str]) -> str:
    return f"{row['level']} to {len(row['nearest_rdma_or_net'].split(','))}"


def _explained() -> dict[str, list[tuple[str, str]]]:
    """The rows of the table in ``docs/topology.md``: file, ours, theirs, why."""
    told: dict[str, list[tuple[str, str]]] = {}
    for file, ours, theirs, why in rows("topology.md", "Where levels differ from hwloc's tree"):
        assert why
        told.setdefault(file.strip("`"), []).append((ours, theirs))
    return {file: sorted(pairs) for file, pairs in told.items()}


def _device(topology: Topology, address: str) -> Device:
    return next(d for d in topology.devices if d.pci == address)


def _name(port: Port, wanted: set[str]) -> str:
    return port.nic if port.nic in wanted else port.pci
