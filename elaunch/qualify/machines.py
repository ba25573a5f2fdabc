"""The machines of a qualification out of what their ranks told; what went over their ports and rails. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from elaunch.qualify.lines import Line, of

_QUIET = 100_000  # bytes below which a port is left out
_OF_LINES = ("kind", "rank", "generation")
_ERRORS = ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")


def machines(known: Sequence[Mapping[str, Any]], lines: Iterable[Line]) -> list[dict[str, Any]]:
    """One entry for each host, in the order in which they were heard of first; the first that each told counts."""
    found = {str(one.get("host")): dict(one) for one in known}
    for one in of(lines, "machine"):
        host = str(one.get("host"))
        if "cores" not in found.get(host, {}):
            found[host] = {name: value for name, value in one.items() if name not in _OF_LINES}
    return list(found.values())


def ports(lines: Sequence[Line], topology: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What went over each port of each host during the job, in bytes and bytes per second, its errors and its rail."""
    places = {one.get("host"): _places(one) for one in topology}
    begins = {one["host"]: one for one in reversed(of(lines, "traffic", at="begin"))}
    found = []
    for end in of(lines, "traffic", at="end"):
        begin = begins.get(end["host"])
        if begin is None:
            continue
        seconds = max(1e-6, end["time"] - begin["time"])
        for name, after in end["ports"].items():
            before = begin["ports"].get(name)
            if before is not None and (row := _port(name, before, after, seconds)) is not None:
                _, rail = places.get(end["host"], {}).get(name, ("", None))
                found.append({"host": end["host"], **row, "rail": rail})
    return found


def rails(rows: Iterable[Mapping[str, Any]], topology: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same for each rail, over all its ports of all hosts.

    A port is counted as an RDMA device and as a network interface: of the two the busier one is taken.
    """
    places = {one.get("host"): _places(one) for one in topology}
    busiest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in rows:
        port, rail = places.get(row["host"], {}).get(row["port"], ("", None))
        if rail is None:
            continue
        other = busiest.get((row["host"], port))
        if other is None or row["sent"] + row["received"] > other["sent"] + other["received"]:
            busiest[row["host"], port] = row
    numbers = sorted({int(row["rail"]) for row in busiest.values()})
    return [_rail(number, [row for row in busiest.values() if row["rail"] == number]) for number in numbers]


def _rail(number: int, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    sums = {name: sum(row[name] for row in rows) for name in ("sent", "received", "errors", "bytes_per_second")}
    mbit = sum(row["mbit"] for row in rows) if all(row["mbit"] for row in rows) else None
    used = round(sums["bytes_per_second"] * 8 / (mbit * 1e6), 5) if mbit else None
    return {"rail": number, "ports": len(rows), **sums, "mbit": mbit, "utilisation": used}


def _places(machine: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """The port and the rail behind each name: the port's own, and those of its interfaces."""
    found: dict[str, tuple[str, int]] = {}
    for port in machine.get("ports", ()):
        if port.get("rail") is not None:
            names = [*port.get("interfaces", ()), port["port"]]
            found |= dict.fromkeys(names, (port["port"], port["rail"]))
    return found


def _port(name: str, before: Mapping[str, Any], after: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
    def more(word: str) -> int:
        return max(0, int(after.get(word) or 0) - int(before.get(word) or 0))

    sent, got = more("tx_bytes"), more("rx_bytes")
    errors = sum(more(word) for word in _ERRORS)
    if sent + got < _QUIET and not errors:
        return None
    mbit = after.get("mbit")
    rate = max(sent, got) / seconds
    used = round(rate * 8 / (mbit * 1e6), 5) if mbit else None
    row = {"port": name, "sent": sent, "received": got, "errors": errors, "bytes_per_second": round(rate)}
    return {**row, "mbit": mbit, "utilisation": used}
