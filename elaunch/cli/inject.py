"""``elaunch inject JOB FAULT``: have a fault brought about in a job that allows it, and say what became of it."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from elaunch.cli.operator_flags import (
    job_argument,
    operator_parser,
    reason_and_timeout,
    seconds,
    signal_number,
    spelled,
)
from elaunch.errors import ElaunchError, UsageError
from elaunch.inject.expecting import Settings, expected
from elaunch.inject.fault import Fault
from elaunch.inject.kinds import KINDS, POINTS, UNDO

_EPILOG = (
    "The job must have been started with --allow-injection. `elaunch inject --list` shows all faults, where they can "
    "be, and what must come of each. See docs/inject.md. Exit codes: as of the operator's other commands; 68 where the "
    "job does not allow it."
)


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Carry out the command line after ``inject``; the exit code. Raises ElaunchError."""
    if "--list" in argv:
        print(listed())
        return 0
    arguments = _parser().parse_args([spelled(word) for word in argv])
    fault = _fault(arguments)
    from elaunch.cli import documents, show
    from elaunch.cli.operator import ask, print_json

    try:
        after = asyncio.run(ask("inject", arguments, environ, fault=fault.values))
    except ElaunchError as error:
        if arguments.json:
            print_json({"error": error.code, "text": str(error), "exit_code": error.exit_code})
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if arguments.json:
        print_json(documents.operation_document(arguments.job, after))
    else:
        print(show.operation(arguments.job, after), flush=True)
    return 0


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its parser."""
    return {"inject": _parser()}


def _parser() -> argparse.ArgumentParser:
    return operator_parser("elaunch inject", "Inject a fault into a job.", _EPILOG, _arguments)


def _arguments(parser: argparse.ArgumentParser) -> None:
    job_argument(parser)
    parser.add_argument(
        "fault",
        type=_kind,
        metavar="FAULT",
        choices=(*_OF_JOBS, UNDO.name),
        help="what fails, or undo: see --list",
    )
    parser.add_argument("--rank", type=_whole, metavar="N", help="the rank that it hits")
    parser.add_argument("--node", metavar="NODE", help="the host, or the node's id, that it hits")
    parser.add_argument("--port", metavar="PORT", help="the port that it hits: mlx5_0:1, or an interface")
    parser.add_argument(
        "--at", metavar="POINT", help=f"the point of the program: {', '.join(POINTS)}, or one of its own"
    )
    parser.add_argument("--step", type=_whole, metavar="N", help="there, from this step of the program on")
    parser.add_argument("--nth", type=_whole, metavar="N", help="there, the N-th time that it comes there (1)")
    parser.add_argument("--duration", dest="seconds", type=seconds, metavar="SECONDS", help="then it is undone (never)")
    parser.add_argument("--signal", type=signal_number, metavar="SIG", help="of kill (KILL)")
    parser.add_argument("--code", type=_whole, metavar="N", help="of exit (1)")
    parser.add_argument(
        "--share", type=seconds, metavar="SHARE", help="of its time that the rank of slow-cpu has (0.5)"
    )
    parser.add_argument(
        "--period", type=seconds, metavar="SECONDS", help="of the pulses of slow-cpu and link-flap (0.2)"
    )
    parser.add_argument("--delay", type=seconds, metavar="SECONDS", help="of slow-step (0.1)")
    parser.add_argument("--bytes", type=_whole, metavar="N", help="of memory (until none is left)")
    parser.add_argument("--list", action="store_true", help="show all faults, and end")
    reason_and_timeout(parser)


_OF_JOBS = tuple(name for name, kind in KINDS.items() if "job" in kind.carriers)
_FIELDS = (
    *("rank", "node", "port", "at", "step", "nth", "seconds", "signal", "code", "share", "period", "delay", "bytes"),
)

_USUAL = Settings()
_LEGEND = (
    "told as: a code of the next generation's reason, or of an event\n"
    f"within: with --hang-timeout {_USUAL.hang:g}, lease_ttl {_USUAL.lease:g}, and --lease-ttl "
    f"{_USUAL.controller:g} of a controller\n"
    "generation: next: the ranks are stopped, and another one follows; same: no rank is disturbed; either: one of both"
)


def _kind(text: str) -> str:
    if text in KINDS and text not in _OF_JOBS:
        raise argparse.ArgumentTypeError(f"{text!r} takes a laboratory (elaunch.lab): see docs/inject.md")
    return text


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 0")
    return int(text)


def _fault(arguments: argparse.Namespace) -> Fault:
    """Raises UsageError."""
    given = {name: getattr(arguments, name) for name in _FIELDS}
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    try:
        fault = Fault.of({"kind": arguments.fault, **values})
    except ValueError as error:
        raise UsageError(f"elaunch inject: {error}") from None
    kind = fault.what
    if kind is UNDO:
        return _undo(fault, values)
    whom = ("node", "port") if kind.target == "port" else (kind.target,)
    if missing := [name for name in whom if name not in values]:
        say = " and ".join(f"--{name}" for name in missing)
        raise UsageError(f"elaunch inject: {kind.name} hits a {kind.target}: say which ({say})")
    of_all = ("at", "step", "nth", "seconds")
    if more := [name for name in values if name not in (*of_all, *whom, *kind.takes)]:
        raise UsageError(f"elaunch inject: {kind.name} takes no --{more[0]}")
    return fault


def _undo(fault: Fault, values: Mapping[str, Any]) -> Fault:
    """Raises UsageError."""
    if values.keys() not in ({"rank"}, {"node"}):
        raise UsageError("elaunch inject: undo takes --rank or --node, and nothing else: it ends all that is there")
    return fault


def listed() -> str:
    """All faults, as a table: whom they hit, when they can be, and what must come of them."""
    from elaunch.cli.table import table

    rows = [("FAULT", "HITS", "WHEN", "WHAT", "TOLD AS", "NAMES", "WITHIN", "GENERATION")]
    for kind in KINDS.values():
        usual = expected(Fault(kind.name, seconds=86_400.0 if kind.lasts else 0.0))
        when = " or ".join(word for word, is_so in (("at once", kind.now), ("at a point", kind.inside)) if is_so)
        where = "" if "job" in kind.carriers else " (lab only)"
        codes = " or ".join(usual.codes) or "-"
        bound = f"{usual.within(_USUAL):.0f} s"
        rows.append((kind.name + where, kind.target, when, kind.text, codes, usual.culprit, bound, usual.generation))
    points = "\n".join(f"  {name:<12} {text}" for name, text in POINTS.items())
    undo = f"elaunch inject JOB {UNDO.name} --rank N | --node NODE: {UNDO.text}"
    return f"{table(rows)}\n\n{_LEGEND}\n\n{undo}\n\npoints of a program (--at):\n{points}"
