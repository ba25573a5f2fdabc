"""``elaunch qualify``: run the matrix here or on hosts, and write a report; ``qualify diff`` compares two."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from elaunch.errors import UsageError
from elaunch.hosts.host_file import parse_file, parse_list

if TYPE_CHECKING:
    from elaunch.qualify.report import Report
    from elaunch.qualify.running import Where

_EPILOG = (
    "Writes report.html and report.json into the output directory, and the jobs' output into its logs/. Exit codes: 0 "
    "no cell failed, 1 one did, 2 bad input, or an output directory that another qualification writes to or that "
    "cannot be written to, 75 a host of --hosts cannot be reached, 130 interrupted (the report says that it is "
    "partial). See docs/qualify.md."
)
_DIFF = (
    "Times and bandwidths are compared where both had as many ranks on as many nodes. Exit codes: 0 nothing got worse, "
    "1 something did, 2 bad input (what is no report is told in one line), 3 the reports have no cell in common."
)
_NOTHING_IN_COMMON = 3
_LARGEST = 256 << 20  # bytes of a report
_MOST_RANKS = 1024  # on a host
_OF_A_RANK = 64 << 20  # bytes that one takes at least, what it shares with its peers left out
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHARED_HELP = "a directory that all hosts see, for checkpoints"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"qualify: {message.removeprefix('argument ')}; {self.prog} --help shows how")


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run it with the words after ``qualify``; the exit code. Raises UsageError."""
    if words[:1] == ["diff"]:
        return _compare(_diff_parser().parse_args(list(words[1:])))
    return _qualify(_parser().parse_args(list(words)), environ)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its parsers."""
    return {"qualify": _parser(), "qualify diff": _diff_parser()}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="elaunch qualify",
        usage="elaunch qualify [--quick|--full] [--hosts FILE|HOST,... | --local N] [--output DIR]\n"
        "       elaunch qualify diff A B",
        description="Run a matrix of what must work here, judge each cell, and write a report.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="the most telling cells, a few minutes (the default)")
    mode.add_argument("--full", action="store_true", help="all sizes, dtypes and faults at all points")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--hosts", metavar="FILE|HOST,...", help="one agent on each of these, as of elaunch ssh")
    where.add_argument("--local", type=int, metavar="N", help="so many ranks on this machine (2)")
    parser.add_argument("--nproc-per-node", type=int, metavar="N", help="with --hosts: ranks on each (slots, or 1)")
    parser.add_argument(
        "--output", metavar="DIR", default="qualification", help="where the report goes (qualification)"
    )
    parser.add_argument("--ssh-option", action="append", default=[], metavar="K=V", help="with --hosts: as for ssh -o")
    parser.add_argument("--ssh-python", metavar="PATH", help="with --hosts: the Python there that has elaunch")
    parser.add_argument("--shared", metavar="DIR", help=_SHARED_HELP)
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="only these cells: ddp/*, or a part of a name"
    )
    parser.add_argument(
        "--spoil", default="", metavar="CELL", help="falsify the result of this cell: it must be found to have failed"
    )
    parser.add_argument("--list", action="store_true", help="print the cells and what must hold, and run nothing")
    return parser


def _diff_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="elaunch qualify diff",
        description="Say in what a second report differs from a first.",
        epilog=_DIFF,
        allow_abbrev=False,
    )
    parser.add_argument("before", metavar="A", help="a report.json, or the directory that has one")
    parser.add_argument("after", metavar="B", help="another")
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    return parser


def _qualify(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from elaunch.qualify.matrix import cells

    mode = "full" if given.full else "quick"
    chosen = cells(mode, given.only)
    if not chosen:
        raise UsageError(f"qualify: no cell of --{mode} matches --only={given.only[-1]}; --list shows them")
    if given.spoil and given.spoil not in {cell.name for cell in chosen}:
        raise UsageError(f"qualify: --spoil={given.spoil}: no such cell is to be run; --list shows them")
    if given.list:
        from elaunch.cli.table import table

        print(table([("CELL", "WHAT MUST HOLD"), *((cell.name, cell.text) for cell in chosen)]))
        return 0
    return _session(given, mode, environ)


def _session(given: argparse.Namespace, mode: str, environ: Mapping[str, str]) -> int:
    from elaunch.qualify.cells import Outcome, Result
    from elaunch.qualify.session import INTERRUPTED, Asked, OutputError, Session

    output = Path(given.output)
    if not given.output or (output.exists() and not output.is_dir()):
        raise UsageError(f"qualify: --output={given.output}: not a directory")
    where = _where(given)
    shared = None if given.shared is None else _shared(given.shared)
    asked = Asked(mode, where, output.absolute(), tuple(given.only), given.spoil, shared)
    count = [0]

    def told(result: Result) -> None:
        count[0] += 1
        took = f" {result.seconds:.1f} s" if result.seconds is not None else ""
        why = f": {result.why}" if result.why else ""
        _say(f"{result.outcome.value:>7}  {result.name}{took}{why}")

    for number in _INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as of nohup
            signal.signal(number, _interrupt)
    session = Session(asked, environ, told, lambda what: _say(f"      ..  {what}", sys.stderr))
    try:
        report = session.run()
    except OutputError as error:
        raise UsageError(f"qualify: --output={given.output}: {error}") from None
    counts = ", ".join(f"{report.count(outcome)} {outcome.value}" for outcome in Outcome)
    partial = f" (partial: {report.partial})" if report.partial else ""
    _say(f"{counts} in {report.seconds:.0f} s{partial}; {os.path.join(given.output, 'report.html')}")
    if report.partial == INTERRUPTED:
        return 130
    return 0 if report.passed or not report.count(Outcome.FAILED) else 1


def _say(text: str, stream: TextIO | None = None) -> None:
    """A line. That nobody reads on (as behind ``| head``) does not end the qualification."""
    stream = stream or sys.stdout
    from elaunch.cli.table import plain

    try:
        print(plain(" ".join(text.splitlines())), file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say_document(values: dict[str, Any]) -> None:
    try:
        print(json.dumps(values, indent=2), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """The first one ends all that runs; those that come meanwhile would leave it running."""
    for number in _INTERRUPTS:
        signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def _shared(name: str) -> Path:
    """Raises UsageError."""
    path = Path(name)
    if not name or not path.is_dir():
        raise UsageError(f"qualify: --shared={name}: not a directory")
    return path.absolute()


def _where(given: argparse.Namespace) -> Where:
    from elaunch.qualify.running import Where

    if given.hosts is None:
        return Where(_local(given))
    path = Path(given.hosts)
    try:
        if not given.hosts.strip():
            raise ValueError("it names no host")
        found = parse_file(path.read_text()) if path.exists() or os.sep in given.hosts else parse_list(given.hosts)
    except OSError as error:
        raise UsageError(f"qualify: --hosts={given.hosts}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"qualify: --hosts={given.hosts}: {error}") from None
    ranks = _on_each({host.slots or 1 for host in found}, given)
    ssh = [f"--ssh-option={option}" for option in given.ssh_option]
    ssh += [f"--ssh-python={given.ssh_python}"] if given.ssh_python else []
    return Where(ranks, given.hosts, tuple(host.address or host.name for host in found), tuple(ssh))


def _on_each(slots: set[int], given: argparse.Namespace) -> int:
    """The ranks on each host. Raises UsageError."""
    ranks: int = min(slots) if given.nproc_per_node is None else given.nproc_per_node
    if not 1 <= ranks <= _MOST_RANKS:
        raise UsageError(f"qualify: --nproc-per-node={ranks}: expected 1 to {_MOST_RANKS} ranks")
    if len(slots) > 1 and given.nproc_per_node is None:
        told = ", ".join(map(str, sorted(slots)))
        raise UsageError(f"qualify: --hosts={given.hosts}: hosts have {told} slots; say --nproc-per-node N")
    return ranks


def _local(given: argparse.Namespace) -> int:
    """How many ranks on this machine. Raises UsageError."""
    from elaunch.qualify.facts import free_memory

    ranks: int = 2 if given.local is None else given.local
    if not 1 <= ranks <= _MOST_RANKS:
        raise UsageError(f"qualify: --local={ranks}: expected 1 to {_MOST_RANKS} ranks")
    if given.nproc_per_node is not None:
        raise UsageError("qualify: --nproc-per-node goes with --hosts; --local N says how many ranks are here")
    if given.ssh_option or given.ssh_python:
        raise UsageError("qualify: --ssh-option and --ssh-python go with --hosts")
    free = free_memory()
    if ranks > 2 and free is not None and ranks * _OF_A_RANK > free:
        text = f"so many ranks take {ranks * _OF_A_RANK / 2**30:.1f} GiB or more, and {free / 2**30:.1f} GiB are free"
        raise UsageError(f"qualify: --local={ranks}: {text}")
    return ranks


def _compare(given: argparse.Namespace) -> int:
    from elaunch.qualify.diff import changes, common

    before, after = _report(given.before), _report(given.after)
    found = changes(before, after)
    if given.json:
        _say_document({"common": common(before, after), "changes": [asdict(change) for change in found]})
    else:
        for change in found:
            _say(f"{'worse' if change.worse else '     '}  {change.text}")
        if not found:
            _say("no difference")
    if not common(before, after):
        print("qualify diff: the reports have no cell in common", file=sys.stderr)
        return _NOTHING_IN_COMMON
    return 1 if any(change.worse for change in found) else 0


def _report(name: str) -> Report:
    """Raises UsageError, one line, where there is none."""
    from elaunch.qualify.report import read

    path = Path(name, "report.json") if Path(name).is_dir() else Path(name)
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        what = f"no report.json in {name}" if path != Path(name) else f"no file {name}"
        raise UsageError(f"qualify diff: there is {what}; elaunch qualify --output=DIR writes one") from None
    except OSError as error:
        raise UsageError(f"qualify diff: {path}: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise UsageError(f"qualify diff: {path}: more than {_LARGEST >> 20} MiB: that is no report")
    try:
        return read(data.decode())
    except UnicodeDecodeError:
        raise UsageError(f"qualify diff: {path}: not JSON: it is not text") from None
    except ValueError as error:
        raise UsageError(f"qualify diff: {path}: {' '.join(str(error).split())[:200]}") from None
