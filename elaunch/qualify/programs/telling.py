"""A rank's words to whoever runs the qualification, and its own facts. Imports no torch."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from elaunch.qualify.lines import line

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
GENERATION = int(os.environ.get("ELAUNCH_GENERATION", "0"))
HOST = os.environ.get("ELAUNCH_HOST", os.uname().nodename)
_PATHS = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES", "CUDA_VISIBLE_DEVICES")
_COUNTERS = ("rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
_lock = threading.Lock()


def tell(kind: str, **values: Any) -> None:
    """One line on standard output, in one piece."""
    left = memoryview((line(kind, RANK, GENERATION, **values) + "\n").encode())
    with _lock:
        sys.stdout.flush()
        while left:
            left = left[os.write(1, left) :]


def path() -> dict[str, str]:
    """What the agent chose for this rank's traffic."""
    return {name: os.environ[name] for name in _PATHS if os.environ.get(name)}


def rail() -> int | None:
    """The rail of the NICs that the agent chose for this rank."""
    told = os.environ.get("ELAUNCH_RAIL", "")
    return int(told) if told.isdecimal() else None


def nics() -> list[str]:
    """Those NICs' ports."""
    return [name for name in os.environ.get("ELAUNCH_NICS", "").split(",") if name]


def process_age() -> float:
    """Seconds since this process was started (where it is forked from a warm one: since the fork)."""
    with open("/proc/self/stat", encoding="utf-8") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/uptime", encoding="utf-8") as file:
        return max(0.0, float(file.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK"))


def traffic(root: str = "/sys/class") -> dict[str, dict[str, Any]]:
    """The counters of this host's ports now: of interfaces, and of InfiniBand ports in bytes."""
    found: dict[str, dict[str, Any]] = {}
    for place in sorted(Path(root, "net").glob("*/statistics")):
        values = {name: number for name in _COUNTERS if (number := _number(place / name)) is not None}
        speed = _number(place.parent / "speed")
        found[place.parent.name] = {**values, "mbit": speed if speed and speed > 0 else None}
    for place in sorted(Path(root, "infiniband").glob("*/ports/*/counters")):
        name = f"{place.parents[2].name}:{place.parent.name}"
        words = {"rx_bytes": "port_rcv_data", "tx_bytes": "port_xmit_data"}
        values = {k: 4 * number for k, file in words.items() if (number := _number(place / file)) is not None}
        errors = _number(place / "port_rcv_errors")
        found[name] = {**values, "rx_errors": errors or 0, "mbit": _rate(place.parent / "rate")}
    return found


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _rate(file: Path) -> float | None:
    try:
        return float(file.read_text().split()[0]) * 1000
    except (OSError, ValueError, IndexError):
        return None
