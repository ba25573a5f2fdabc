"""``elaunch status --ranks``: how each rank was started and what it has, in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elaunch.cli.table import few

_HEAD = ("RANK", "LOCAL", "HOST", "PID", "PHASE", "STEP", "BACKEND", "DEVICE", "NICS", "RAIL", "NUMA", "START")
_NICS_SHOWN = 2
_SHORTEST = 0.01  # seconds that are told


def rank_rows(ranks: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Of the documents of ranks, the head first. What all rows lack has no column: there is not much room."""
    rows = [_row(rank) for rank in sorted(ranks, key=lambda rank: rank["rank"])]
    kept = [column for column in range(len(_HEAD)) if any(row[column] != "-" for row in rows)]
    return [tuple(row[column] for column in kept) for row in (_HEAD, *rows)]


def _row(rank: dict[str, Any]) -> tuple[str, ...]:
    start = rank["start"] or {}
    device = " ".join(filter(None, [start.get("logical_device"), start.get("device_id")]))
    return (
        str(rank["rank"]),
        str(start.get("local_rank", "-")),
        start.get("host") or rank["node_id"],
        str(rank["pid"]),
        start.get("phase") or "-",
        str(rank["step"]) if rank["step"] is not None else "-",
        _backend(start),
        device or "-",
        few(list(filter(None, start.get("nics", "").split(","))), _NICS_SHOWN) or "-",
        start.get("rail") or "-",
        start.get("numa_node") or "-",
        _seconds(start),
    )


def _backend(start: dict[str, Any]) -> str:
    over = start.get("transport") or start.get("backend") or "-"
    world = start.get("asked_world_size", -1)
    return f"{over}, world of {world}" if start and world not in (-1, start["world_size"]) else over


def _seconds(start: dict[str, Any]) -> str:
    """``import 3.1 s, store 0.01 s, exchange 0.2 s, connect 0.3 s``: those that took time."""
    if start.get("fault") or start.get("error"):
        return str(start.get("fault") or start.get("error"))
    names = {"import": "import", "rendezvous": "store", "exchange": "exchange", "communicator": "connect"}
    told = [(word, start.get(f"{name}_seconds", 0.0)) for name, word in names.items()]
    return ", ".join(f"{word} {seconds:.2g} s" for word, seconds in told if seconds >= _SHORTEST) or "-"
