"""The whole of a cluster out of what its ranks told: paths, traffic, bandwidth, steps, bootstrap. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elaunch.qualify import machines
from elaunch.qualify.collectives import bus_factor
from elaunch.qualify.lines import Line, of
from elaunch.qualify.report import Report

_PHASES = ("rendezvous", "exchange", "communicator")
"""Of init_process_group, as the records of starts have them."""
_OF_RANKS = ("rank", "host", "local_rank", "path", "nics", "rail", "backend", "device", "torch")


def fill(report: Report, lines: Sequence[Line], world: int) -> None:
    """Note in the report what the job with the torch cells told."""
    ranks = sorted(of(lines, "rank"), key=lambda one: int(one["rank"]))
    first = {one["rank"]: one for one in reversed(of(lines, "start"))}
    report.ranks = [_rank(one, first.get(one["rank"], {})) for one in ranks]
    if ranks:
        report.versions["torch"] = str(ranks[0].get("torch", ""))
    for phase in ("import", "init_process_group", *_PHASES):
        seconds = [row["start"][phase] for row in report.ranks if phase in row["start"]]
        if seconds:
            report.bootstrap[phase] = max(seconds)
    report.topology = machines.machines(report.topology, lines)
    report.ports = machines.ports(lines, report.topology)
    report.rails = machines.rails(report.ports, report.topology)
    report.bandwidth = [_bandwidth(one, world) for one in of(lines, "bandwidth")]
    report.steps = steps(lines)
    report.aggregate = aggregate(report, world)


def _rank(one: Line, start: Line) -> dict[str, Any]:
    """A rank's row: where it is, its path, and what its start consisted of, in seconds."""
    known = {"import": one.get("import_seconds"), "init_process_group": one.get("init_seconds")}
    known |= {phase: start.get(f"{phase}_seconds") for phase in _PHASES}
    phases = {phase: round(float(seconds), 3) for phase, seconds in known.items() if isinstance(seconds, int | float)}
    row = {name: one.get(name) for name in _OF_RANKS}
    return {**row, "transport": str(start.get("transport", "")), "start": phases}


def _bandwidth(one: Line, world: int) -> dict[str, Any]:
    algorithm = one["bytes"] / one["seconds"] if one["seconds"] > 0 else 0.0
    row = {"op": one["op"], "bytes": one["bytes"], "seconds": one["seconds"]}
    return {**row, "algorithm": round(algorithm), "bus": round(algorithm * bus_factor(one["op"], world))}


def steps(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The slowest rank's steps: computing, and what of the communication is exposed, in seconds."""
    found: dict[str, dict[str, Any]] = {}
    for one in of(lines, "step"):
        old = found.get(one["name"])
        if old is None or one["compute"] + one["exposed"] > old["compute"] + old["exposed"]:
            found[one["name"]] = {name: one[name] for name in ("name", "rank", "compute", "exposed")}
    return list(found.values())


def aggregate(report: Report, world: int) -> dict[str, float]:
    """In bytes per second; ``link_throughput`` is the best bus bandwidth times the ranks."""
    best = max((float(row["bus"]) for row in report.bandwidth), default=0.0)
    carried = sum(float(row["bytes_per_second"]) for row in report.ports if row["port"] != "lo")
    return {"bus_bandwidth": best, "link_throughput": best * world, "port_throughput": carried}
