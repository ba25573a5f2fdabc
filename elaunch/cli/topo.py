"""``elaunch topo``: show a machine, this one or one in a file, and what its ranks would be given."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from elaunch.agent.machine import sysfs_root
from elaunch.cli import topo_documents, topo_show
from elaunch.cli.binding import resolve_binding
from elaunch.cli.table import plain
from elaunch.cli.topo_flags import Asked, parse_topo
from elaunch.errors import NoRouteError, UsageError
from elaunch.topology.binding import NodeBinding
from elaunch.topology.digest import differences, digest
from elaunch.topology.drawing import svg
from elaunch.topology.files.nccl_write import to_nccl_xml
from elaunch.topology.files.processor import UNKNOWN, this_processor
from elaunch.topology.files.reading import read
from elaunch.topology.host.discovery import discover
from elaunch.topology.machine import Topology
from elaunch.topology.policy import bind
from elaunch.topology.tree import tree


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run it with the words after ``topo``; the exit code. Raises ElaunchError."""
    asked = parse_topo(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    topology = read(asked.source) if asked.source else discover(sysfs_root(environ))
    if asked.against:
        return _compared(topology, read(asked.against), asked)
    binding, no_route = _bound(topology, asked)
    origin = str(asked.source or "")
    for path, make in _files(topology, binding, asked, origin):
        _write(path, make())
    if asked.json:
        _say(json.dumps(topo_documents.document(topology, binding, digest(topology), no_route), indent=2) + "\n")
    else:
        unsaid = str(no_route) if no_route is not None and not asked.slots else None
        _say(topo_show.machine(topology, binding, origin, digest(topology), unsaid) + "\n")
    if no_route is not None and asked.slots:
        raise no_route
    return 0


def _compared(here: Topology, there: Topology, asked: Asked) -> int:
    """In what the other machine differs, as far as the digest counts it."""
    found = differences(here, there)
    if asked.json:
        _say(json.dumps({"digests": [digest(here), digest(there)], "differences": found}, indent=2) + "\n")
    else:
        _say(plain("\n".join(found) or f"both have digest {digest(here)[:12]}") + "\n")
    return 1 if found else 0


def _bound(topology: Topology, asked: Asked) -> tuple[NodeBinding | None, NoRouteError | None]:
    """What the ranks asked for are given, else one for each device; or why there is no route for them."""
    slots = asked.slots or len(topology.devices)
    wishes = resolve_binding(asked.values, slots or 1, {})[0].wishes  # refuses bad input also where nothing is bound
    if not slots:
        return None, None
    try:
        return bind(topology, slots, wishes), None
    except NoRouteError as error:
        return None, error


def _files(
    topology: Topology, binding: NodeBinding | None, asked: Asked, origin: str
) -> list[tuple[Path, Callable[[], str]]]:
    files: list[tuple[Path, Callable[[], str]]] = []
    if asked.svg:
        files.append((asked.svg, lambda: svg(tree(topology), binding, f"Topology of {origin or 'this machine'}")))
    if asked.nccl_xml:
        # A file may tell of another machine than this: NCCL finds out there what processors that has.
        processor = UNKNOWN if asked.source else this_processor()
        files.append((asked.nccl_xml, lambda: to_nccl_xml(topology, processor)))
    return files


def _write(path: Path, text: str) -> None:
    if str(path) == "-":
        _say(text)
        return
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"topo: cannot write {path}: {error.strerror}") from error


def _say(text: str) -> None:
    """On standard output, where there is one; a reader that has gone, as of `elaunch topo | head`, has seen enough."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left has nowhere to go at exit either
        if not isinstance(error, BrokenPipeError):
            raise UsageError(f"topo: cannot write to standard output: {error.strerror}") from error
