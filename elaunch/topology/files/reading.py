"""Any description of a machine that lies in a file or folder, known by its content."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from elaunch.errors import TopologyError
from elaunch.topology.files import hwloc_xml, markup, nccl_xml, nvidia_smi
from elaunch.topology.files.archives import is_archive, unpacked
from elaunch.topology.files.wording import defect, escaped, quoted
from elaunch.topology.host.discovery import discover
from elaunch.topology.machine import Topology

LARGEST = 8 << 20
"""Bytes of a description that is read; lstopo writes under 2 MiB for the largest machines that there are."""

_EXPECTED = "NCCL or hwloc XML, the text of nvidia-smi topo -m, or a sysfs tree as a folder or tar archive"


def read(path: Path) -> Topology:
    """The machine that ``path`` describes, with the format that it is found to be in as ``source``.

    A folder, or an archive of one, is a captured sysfs tree. Raises TopologyError, with the file, the place in it, what
    stands there and what was expected, for anything else.
    """
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            return _tree(path)
        if not stat.S_ISREG(kind):  # a pipe or a device may never end, or never begin
            raise TopologyError(f"found no regular file; expected {_EXPECTED}")
        if is_archive(path):
            with unpacked(path) as folder:
                return _tree(folder)
        return parse(_content(path))
    except TopologyError as error:
        raise TopologyError(f"{escaped(str(path))}: {error}") from error
    except OSError as error:
        raise TopologyError(
            f"{escaped(str(path))}: cannot be read ({os.strerror(error.errno or errno.EIO)})"
        ) from error


def parse(data: bytes) -> Topology:
    """The machine that the content of a file describes. Raises TopologyError, with the line."""
    if data.lstrip().removeprefix(b"\xef\xbb\xbf").startswith(b"<"):
        root = markup.parse(data)
        if root.tag == "system":
            return nccl_xml.describe(root)
        if root.tag == "topology":
            return hwloc_xml.describe(root)
        found = f"found the element {quoted(root.tag)}"
        raise defect(root.line, found, "expected 'system' (NCCL) or 'topology' (hwloc)")
    return nvidia_smi.parse(data)


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise TopologyError(f"found more than {LARGEST >> 20} MiB; expected the description of one machine")
    if not data.strip():
        raise TopologyError(f"found an empty file; expected {_EXPECTED}")
    return data


def _tree(folder: Path) -> Topology:
    return discover(_root(folder))


def _root(folder: Path) -> Path:
    """The folder that holds ``sys``: the one that was named, the one above it or the only one in it."""
    inside = sorted(folder.iterdir())
    candidates = [folder, *([folder.parent] if folder.name == "sys" else inside if len(inside) == 1 else [])]
    for candidate in candidates:
        if (candidate / "sys").is_dir():
            return candidate
    raise TopologyError("found no folder 'sys'; expected a captured sysfs tree")
