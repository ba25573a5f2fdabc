"""The options of ``elaunch topo``: its own, and those of the launcher that say what ranks are bound to."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from elaunch.cli.binding_flags import BINDING
from elaunch.cli.convert import convert
from elaunch.cli.parser import Help, Values, add_flag
from elaunch.errors import UsageError

_DESCRIPTION = (
    "Show a machine: its devices, NICs, switches and NUMA nodes, and which NICs and CPUs each rank would be given, and "
    "why. Of this host, or of a file from another: an NCCL topology XML, hwloc's XML (lstopo), the text of "
    "`nvidia-smi topo -m`, a captured sysfs tree."
)
_EPILOG = (
    "Exit codes: 0 done, 1 the machines differ (--against), 2 bad input, 95 no port is left for the ranks asked for. "
    "See docs/topology.md."
)
_NOT_HERE = ("topology", "probe", "allow_asymmetry")  # --from, and what needs several nodes
_FLAGS = tuple(flag for flag in BINDING if flag.dest not in _NOT_HERE)
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for. ``slots`` 0: a rank for each device. ``values``: what ranks are bound to."""

    source: Path | None
    against: Path | None
    json: bool
    svg: Path | None
    nccl_xml: Path | None
    slots: int
    values: Values


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError("topo: " + message.removeprefix("argument ").replace("\n", " "))


def parse_topo(argv: Sequence[str]) -> Asked:
    """``argv`` after ``topo``. Raises UsageError; SystemExit(0) after ``--help``."""
    found = vars(_parser().parse_args(list(argv)))
    slots = found["nproc_per_node"]
    if not 0 <= slots <= _MOST:
        raise UsageError(f"topo: --nproc-per-node={slots}: expected a number from 0 to {_MOST}")
    return Asked(
        found["source"], found["against"], found["json"], found["svg"], found["nccl_xml"], slots, _values(found)
    )


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its one parser."""
    return {"topo": _parser()}


def _values(found: dict[str, Any]) -> Values:
    """The launcher's options among those found, as it has them itself."""
    texts = {flag.dest: found[flag.dest] for flag in _FLAGS if flag.dest in found}
    sources = {dest: "--" + dest.replace("_", "-") for dest in texts}
    values: dict[str, Any] = {"numa_binding": None, "topology": None}
    for flag in _FLAGS:
        try:
            values[flag.dest] = convert(flag, texts[flag.dest]) if flag.dest in texts else flag.default
        except ValueError as error:
            raise UsageError(f"{sources[flag.dest]}={texts[flag.dest]}: {error}") from None
    return Values(values, sources, texts, ())


def _parser() -> _Parser:
    parser = _Parser(
        prog="elaunch topo", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False, formatter_class=Help
    )
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="PATH", help="a file, folder or tar archive (this host)"
    )
    parser.add_argument(
        "--against", type=Path, metavar="PATH", help="show only in what another machine differs, described likewise"
    )
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture, with the chosen ways")
    parser.add_argument("--nccl-xml", type=Path, metavar="FILE", help="write an NCCL topology file")
    group = parser.add_argument_group("ranks", "as in elaunch's own options", argument_default=argparse.SUPPRESS)
    group.add_argument("--nproc-per-node", type=int, default=0, metavar="N", help="ranks (one for each device)")
    for flag in _FLAGS:
        add_flag(group, flag)
    return parser
