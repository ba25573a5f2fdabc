"""Where the logs of containers are: NAMESPACE_POD_UID/CONTAINER/RESTARTS.log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

OVER = "over"  # a file beside the logs of a pod that will write none any more


def newest(logs: Path, namespace: str, pod: str, container: str, previous: bool = False) -> Path | None:
    """The log of a container's last run, or of the one before; ``container`` may be a pattern."""
    runs = sorted(_runs(logs, namespace, pod, container), key=lambda path: path.stat().st_mtime_ns)
    wanted = -2 if previous else -1
    return runs[wanted] if len(runs) >= -wanted else None


def _runs(logs: Path, namespace: str, pod: str, container: str) -> Iterator[Path]:
    yield from logs.glob(f"{namespace}_{pod}_*/{container}/*.log")
