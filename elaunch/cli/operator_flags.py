"""The operator's commands and their options, as argparse has them."""

from __future__ import annotations

import argparse
import re
import signal
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from elaunch.cli.operator_names import OPERATOR_COMMANDS
from elaunch.cli.serving_flags import SECURITY
from elaunch.errors import UsageError

_EPILOG = (
    "Without --rdzv-endpoint (or $ELAUNCH_ENDPOINT) the jobs meant are those that you run on this host. "
    "Exit codes: 0 done, 2 bad input or no etcd, 66 no such job, node or rank, 67 the job has ended, 68 refused, "
    "74 not through in time."
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: " + message.replace("\n", " "))


def parse_operator(argv: Sequence[str]) -> argparse.Namespace:
    """``argv`` with the command in front. Raises UsageError; SystemExit(0) after ``--help``."""
    command, *rest = argv
    arguments = _parser(command).parse_args([spelled(word) for word in rest])
    arguments.command = command
    return arguments


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    return {command: _parser(command) for command in OPERATOR_COMMANDS}


def _parser(command: str) -> argparse.ArgumentParser:
    text = OPERATOR_COMMANDS[command]
    return operator_parser(f"elaunch {command}", f"{text[0].upper()}{text[1:]}.", _EPILOG, _ARGUMENTS[command])


def spelled(word: str) -> str:
    """Underscores in an option's name are read as dashes, as everywhere in ``elaunch``."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word


def operator_parser(
    prog: str, text: str, epilog: str, arguments: Callable[[argparse.ArgumentParser], None]
) -> argparse.ArgumentParser:
    """A parser with ``arguments``, and with those that say where a job is. It raises UsageError."""
    parser = _Parser(prog=prog, description=text, epilog=epilog)
    arguments(parser)
    where = parser.add_argument_group("where the job is")
    where.add_argument("--rdzv-endpoint", "--etcd", dest="endpoint", metavar="HOST:PORT,...", help="the job's etcd")
    where.add_argument("--rdzv-conf", default="", metavar="K=V,...", help="how to speak to etcd, as for elaunch itself")
    for flag in SECURITY:
        where.add_argument(
            "--" + flag.dest.replace("_", "-"), metavar=flag.metavar, help=f"{flag.help} (${flag.own_variable})"
        )
    parser.add_argument("--json", action="store_true", help="for machines")
    return parser


def _none(parser: argparse.ArgumentParser) -> None:
    return


def job_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=_job, metavar="JOB", help="the job's --rdzv-id")


def _job(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected the job's --rdzv-id")
    return text


def _status(parser: argparse.ArgumentParser) -> None:
    job_argument(parser)
    parser.add_argument("--ranks", action="store_true", help="a row for each rank: how it was started, and what it has")


def _top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", metavar="JOB", help="the job's --rdzv-id (all of them)")
    parser.add_argument("--plain", action="store_true", help="a line for each change, as where there is no terminal")
    parser.add_argument("--interval", type=seconds, default=1.0, metavar="SECONDS", help="between two looks (1)")


def _events(parser: argparse.ArgumentParser) -> None:
    job_argument(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")


def _command(parser: argparse.ArgumentParser) -> None:
    job_argument(parser)
    reason_and_timeout(parser)


def reason_and_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the job's events")
    parser.add_argument(
        "--timeout", type=seconds, default=60.0, metavar="SECONDS", help="wait so long until it is through (60)"
    )


def _abort(parser: argparse.ArgumentParser) -> None:
    _command(parser)
    parser.add_argument("--evidence", action="store_true", help="collect the ranks' stacks before")


def _restart(parser: argparse.ArgumentParser) -> None:
    _command(parser)
    parser.add_argument(
        "--from-step",
        type=_count,
        default=-1,
        metavar="N",
        help="go back to the checkpoint of this step ($ELAUNCH_FROM_STEP)",
    )


def _node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", help="a host, or a node's id")
    parser.add_argument("--job", metavar="JOB", help="in this job only (all that have the node)")
    reason_and_timeout(parser)


def _scale(parser: argparse.ArgumentParser) -> None:
    job_argument(parser)
    parser.add_argument("size", type=_size, metavar="MIN:MAX", help="as in --nnodes")
    reason_and_timeout(parser)


def _stacks(parser: argparse.ArgumentParser) -> None:
    _command(parser)
    _rank(parser)


def _signal(parser: argparse.ArgumentParser) -> None:
    job_argument(parser)
    parser.add_argument("signal", type=signal_number, metavar="SIG", help="a name or a number: USR1, SIGUSR1, 10")
    reason_and_timeout(parser)
    _rank(parser)


def _rank(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rank", type=_count, default=-1, metavar="N", help="this rank only")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 0")
    return int(text)


def seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected seconds")
    return float(text)


def _size(text: str) -> tuple[int, int]:
    from elaunch.cli.settings import parse_nodes

    try:
        return parse_nodes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def signal_number(text: str) -> int:
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    if name in signal.Signals.__members__:
        return int(signal.Signals[name])
    if text.isdecimal() and 1 <= int(text) <= 64:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no signal here: expected a name such as USR1, or a number")


_ARGUMENTS: dict[str, Any] = {
    "ps": _none,
    "status": _status,
    "top": _top,
    "events": _events,
    "abort": _abort,
    "restart": _restart,
    "drain": _node,
    "undrain": _node,
    "scale": _scale,
    "stacks": _stacks,
    "signal": _signal,
}
