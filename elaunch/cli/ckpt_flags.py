"""The options of ``elaunch ckpt``, as argparse has them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from elaunch.errors import UsageError

COMMANDS = {
    "ls": "list the checkpoints of a directory, and in what state each is",
    "show": "show what a checkpoint holds: tensors, other values, who saved it",
    "verify": "read all of a checkpoint, and check every sum",
    "rm": "remove checkpoints",
    "export": "write a checkpoint as one plain file, for torch.load or safetensors",
}
_EPILOG = (
    "Exit codes: 0 done, 2 bad input, 65 damaged, 66 no such directory or checkpoint, 68 refused, 74 an I/O error, "
    "77 permission denied. See docs/checkpoints.md."
)
_STEP = "a step, or the name of a checkpoint as ls shows it"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog.removeprefix('elaunch ')}: " + message.replace("\n", " "))


def parse_ckpt(argv: Sequence[str]) -> argparse.Namespace:
    """``argv`` after ``ckpt``. Raises UsageError; SystemExit(0) after ``--help``."""
    command, rest = (argv[0], argv[1:]) if argv else ("", ())
    if command in ("-h", "--help"):
        _overview().print_help()
        raise SystemExit(0)
    if command not in COMMANDS:
        said = f"{command!r} is not one of its commands" if command else "a command is missing"
        raise UsageError(f"ckpt: {said}; expected {', '.join(COMMANDS)} (elaunch ckpt --help)")
    parser = _parser(command)
    arguments = parser.parse_intermixed_args(list(rest))
    arguments.command = command
    return arguments


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parsers of what all commands share, and of each."""
    return {"ckpt": _overview(), **{f"ckpt {command}": _parser(command) for command in COMMANDS}}


def _overview() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:8} {text}" for name, text in COMMANDS.items())
    return _Parser(
        prog="elaunch ckpt",
        usage="elaunch ckpt COMMAND DIR ...",
        description=f"Look after the checkpoints that elaunch.checkpoint writes.\n\ncommands:\n{lines}",
        epilog=f"elaunch ckpt COMMAND --help tells more.\n{_EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _parser(command: str) -> _Parser:
    text = COMMANDS[command]
    parser = _Parser(
        prog=f"elaunch ckpt {command}",
        description=text[0].upper() + text[1:] + ".",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("dir", metavar="DIR", help="the directory of a run, or of one checkpoint")
    _ARGUMENTS[command](parser)
    parser.add_argument("--json", action="store_true", help="for machines")
    return parser


def _ls(parser: argparse.ArgumentParser) -> None:
    return


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("step", metavar="STEP", nargs="?", default="", help=f"{_STEP} (the newest good one)")


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("steps", metavar="STEP", nargs="*", help=f"{_STEP} (all)")
    parser.add_argument("--mark", action="store_true", help="set damaged ones aside: no restore takes them any more")
    parser.add_argument("--unmark", action="store_true", help="good ones that were set aside may be restored again")


def _rm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("steps", metavar="STEP", nargs="+", help=_STEP)
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument(
        "--force", action="store_true", help="the last good one too, and while a program writes to the directory"
    )


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("step", metavar="STEP", nargs="?", default="", help=f"{_STEP} (the newest good one)")
    parser.add_argument("out", metavar="OUT", help="the file to write: its name ends in .pt, .pth or .safetensors")
    parser.add_argument("--only", metavar="STATE", default="", help="this state alone, as model or optim")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


_ARGUMENTS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "ls": _ls,
    "show": _show,
    "verify": _verify,
    "rm": _rm,
    "export": _export,
}
