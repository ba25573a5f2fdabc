"""Captured machines of other people, read where they are: tests of them are left out, with the reason, without them."""

from __future__ import annotations

import csv
import tarfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "topology"
needs_captures = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no captured machines at {FOLDER}")


def table(name: str) -> list[dict[str, str]]:
    """The rows of ``INDEX.tsv``, ``TRUTH.tsv`` or one of the ``DERIVED_*.tsv``; none without the captures."""
    path = FOLDER / name
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def files(kind: str, pattern: str = "*") -> list[Path]:
    """The captures in one folder (``nccl_xml``, ``hwloc``, ``topo_m``, ...), in order."""
    return sorted((FOLDER / kind).glob(pattern))


def unpacked(name: str, into: Path) -> Path:
    """A captured sysfs tree, unpacked: the folder that holds its ``sys``."""
    with tarfile.open(FOLDER / "sysfs" / name) as archive:
        archive.extractall(into, filter="tar")
    return into
