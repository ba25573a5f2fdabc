"""The command line into values: argparse finds the options, ``PET_*`` and the defaults fill the rest.

argparse collects text only. Converting it here gives one kind of error for both sources, one that names the
option or the variable.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from elaunch.cli.commands import COMMANDS
from elaunch.cli.convert import convert
from elaunch.cli.flag import Flag
from elaunch.cli.flags import FLAGS, GROUPS, START_METHODS
from elaunch.errors import UsageError

HINT = "usage: elaunch [OPTIONS] SCRIPT [ARGS...]; elaunch --help shows the options"
_USAGE = "elaunch [OPTIONS] SCRIPT [ARGS...]"
_EPILOG = (
    "A command stands in SCRIPT's place; elaunch COMMAND --help tells more. A script of such a name is run as ./NAME. "
    "Options come before SCRIPT; what follows it is the script's own. "
    "An option can also be given as an environment variable, PET_ and its name in "
    "capitals (PET_MAX_RESTARTS=3); the command line wins. "
    "Underscores are read as dashes (--max_restarts), and unambiguous prefixes as what they begin."
)


@dataclass(frozen=True, slots=True)
class Values:
    """Every option's value, and the name and the text under which it was given, for errors about it."""

    values: Mapping[str, Any]
    sources: Mapping[str, str]
    texts: Mapping[str, str]
    command: tuple[str, ...]

    def __getitem__(self, dest: str) -> Any:
        return self.values[dest]

    def given(self, dest: str) -> bool:
        """Whether the command line or the environment said it."""
        return dest in self.sources

    def error(self, dest: str, expectation: str) -> UsageError:
        """An error about the option's value, in one line: name, value, ``expectation``."""
        name = self.sources.get(dest, "--" + dest.replace("_", "-"))
        return UsageError(f"{name}={self.texts.get(dest, self.values[dest])!s}: {expectation}")


class Help(argparse.HelpFormatter):
    def _format_action_invocation(self, action: argparse.Action) -> str:
        """The spelling with dashes only, and the value once."""
        names = [name for name in action.option_strings if "_" not in name]
        value = f" {action.metavar}" if action.nargs is None else ""
        return ", ".join(names) + value


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        """As argparse has it, with the commands between the options and the epilog."""
        text, epilog = super().format_help(), self.epilog or ""
        formatter = self._get_formatter()
        formatter.add_text(epilog)
        last = formatter.format_help()
        return text.removesuffix(last) + _commands() + last

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument ").replace("\n", " "))

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        """The candidates for a prefix. Two spellings are one option, and ours give way to torchrun's."""
        found: list[Any] = super()._get_option_tuples(option_string)
        theirs = [match for match in found if match[0].dest in FLAGS and not FLAGS[match[0].dest].ours]
        matches = theirs or found
        return matches[:1] if len({match[0].dest for match in matches}) == 1 else matches

    def takes_value(self, argument: str) -> bool:
        """Whether the option in ``argument`` is followed by its value as an argument of its own."""
        if argument.startswith("--"):
            action = self._long(argument)
            return action is not None and action.nargs != 0 and "=" not in argument
        for position, letter in enumerate(argument[1:], start=1):
            action = self._option_string_actions.get("-" + letter)
            if action is None or action.nargs != 0:
                return action is not None and position == len(argument) - 1
        return False

    def _long(self, argument: str) -> argparse.Action | None:
        name = argument.partition("=")[0]
        if name in self._option_string_actions:
            return self._option_string_actions[name]
        matches = self._get_option_tuples(name)
        return matches[0][0] if len(matches) == 1 else None


class _Version(argparse.Action):
    """Shows them, and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **more)

    def __call__(self, *_: Any) -> NoReturn:
        from elaunch.cli.version import show

        show()
        raise SystemExit(0)


def _commands() -> str:
    """The table of commands, for the help."""
    width = max(map(len, COMMANDS))
    lines: list[str] = []
    for group in dict.fromkeys(command.group for command in COMMANDS.values()):
        lines.append(f"commands: {group}")
        lines += [f"  {c.name:{width}}  {c.help}" for c in COMMANDS.values() if c.group == group]
        lines.append("")
    return "\n".join(lines) + "\n"


def build_parser() -> _Parser:
    """The parser of the options before the script. It leaves out what was not given."""
    parser = _Parser(
        prog="elaunch",
        usage=_USAGE,
        description="Start a distributed PyTorch job and keep it alive; takes torchrun's place.",
        epilog=_EPILOG,
        argument_default=argparse.SUPPRESS,
        formatter_class=Help,
    )
    parser.add_argument("--version", action=_Version, help="show the versions that a bug report needs")
    for title, flags in GROUPS.items():
        group = parser.add_argument_group(title)
        for flag in flags:
            add_flag(group, flag)
    return parser


def add_flag(group: argparse._ArgumentGroup, flag: Flag) -> None:
    """Add a row of ``flags`` with all its spellings."""
    text = flag.help
    if flag.kind != "flag" and flag.default not in (None, "", ()):
        text += f" (default: {flag.default})"
    if flag.kind == "flag":
        group.add_argument(*flag.spellings, dest=flag.dest, action="store_const", const="1", help=text)
    else:
        metavar = "{" + ",".join(flag.choices) + "}" if flag.choices else flag.metavar
        group.add_argument(*flag.spellings, dest=flag.dest, metavar=metavar, help=text)


def split_command(parser: _Parser, argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options, and the program with its arguments.

    argparse's REMAINDER looks at the program's arguments too, and refuses those that could be short for two
    of our options; so the place where the program begins is found first.
    """
    arguments = list(argv)
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            return arguments[:position], arguments[position + 1 :]
        if argument == "-" or not argument.startswith("-"):
            break
        position += 2 if parser.takes_value(argument) else 1
    program = arguments[position:]
    if program[1:2] == ["--"]:  # torchrun drops one there
        del program[1]
    return arguments[:position], program


def read(argv: Sequence[str], environ: Mapping[str, str]) -> Values:
    """All values of ``argv``, else of ``environ``, else by default.

    Raises UsageError for an unknown option or a value of the wrong kind; SystemExit(0) after ``--help`` and
    ``--version``.
    """
    parser = build_parser()
    options, command = split_command(parser, argv)
    found, unknown = parser.parse_known_args(options)
    if unknown:
        raise UsageError(_unrecognized(unknown))
    texts = vars(found)
    _move_abbreviated_start_method(texts)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for dest, flag in FLAGS.items():
        if dest in texts:
            sources[dest] = "--" + dest.replace("_", "-")
        elif variable := next((name for name in flag.variables if name in environ), None):
            sources[dest], texts[dest] = variable, environ[variable]
        else:
            values[dest] = flag.default
            continue
        values[dest] = _convert(flag, sources[dest], texts[dest])
    return Values(values, sources, texts, tuple(command))


def _unrecognized(unknown: Sequence[str]) -> str:
    """Names what is unknown, and the options that the first of it may have been meant for."""
    from elaunch.cli.spelling import suggestion

    text = f"unrecognized arguments: {' '.join(unknown)}"
    name = unknown[0].partition("=")[0]
    known = ["--" + dest.replace("_", "-") for dest in FLAGS]
    near = suggestion("--" + name.lstrip("-").replace("_", "-"), known)
    return f"{text}; {near or 'elaunch --help shows the options'}"


def _move_abbreviated_start_method(texts: dict[str, str]) -> None:
    """``--start fork`` is torchrun's ``--start-method fork``, shortened."""
    if texts.get("start") in START_METHODS:
        texts.setdefault("start_method", texts.pop("start"))


def _convert(flag: Flag, source: str, text: str) -> Any:
    try:
        return convert(flag, text)
    except ValueError as error:
        raise UsageError(f"{source}={text}: {error}") from None
