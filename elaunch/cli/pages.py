"""Every command with its options as values, read off the parsers: for the reference, man page and completion."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from elaunch.cli.commands import COMMANDS
from elaunch.cli.flags import FLAGS
from elaunch.cli.parser import build_parser


@dataclass(frozen=True, slots=True)
class Option:
    """An option or a positional argument (then ``names`` is empty). ``values`` are the only ones that it takes.

    ``metavar`` is empty for an option without a value. ``variables`` can stand in for it. ``many``: there may be more.
    """

    names: tuple[str, ...]
    metavar: str
    help: str
    values: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    required: bool = True
    many: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One command. ``words`` lead to it, "" being ``elaunch SCRIPT`` itself; ``groups`` are titled options."""

    words: str
    help: str
    description: str
    epilog: str
    positionals: tuple[Option, ...]
    groups: tuple[tuple[str, tuple[Option, ...]], ...]
    parts: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(option for _, options in self.groups for option in options)

    @property
    def usage(self) -> str:
        """In one line, whatever the terminal."""
        if not self.words:
            return "elaunch [OPTIONS] SCRIPT [ARGS...]"
        required = [f"{o.names[0]} {o.metavar}" for o in self.options if o.names and o.required]
        given = [_in_usage(option) for option in self.positionals]
        return " ".join(["elaunch", self.words, "[OPTIONS]", *required, *given])


@functools.cache
def pages() -> tuple[Page, ...]:
    """``elaunch`` itself first, then the commands as their table has them, each with its parts after it."""
    found = list(_pages("", "", build_parser()))
    for command in COMMANDS.values():
        parsers = command.parsers()
        own: list[Page] = []
        for words, parser in parsers.items():
            text = command.help if words == command.name else parser.description or ""
            own += _pages(words, text, parser)
        found += _with_parts(own)
    return tuple(found)


def _with_parts(own: Sequence[Page]) -> list[Page]:
    """Where a command has several parsers, those that are parts of others."""
    below = {page.words: [o.words.split()[-1] for o in own if o.words.rpartition(" ")[0] == page.words] for page in own}
    return [replace(page, parts=tuple(below[page.words]) or page.parts) for page in own]


def _pages(words: str, text: str, parser: argparse.ArgumentParser) -> Iterator[Page]:
    parts: dict[str, argparse.ArgumentParser] = {}
    helps: dict[str, str] = {}
    groups: list[tuple[str, tuple[Option, ...]]] = []
    positionals: list[Option] = []
    for group in parser._action_groups:
        options: list[Option] = []
        for action in group._group_actions:
            if isinstance(action, argparse._SubParsersAction):
                parts = dict(action.choices)
                helps = {one.dest: one.help or "" for one in action._choices_actions}
                positionals.append(Option((), "|".join(parts), "", tuple(parts)))
            elif action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
                continue
            elif action.option_strings:
                options.append(_option(parser, action, flags=not words))
            else:
                positionals.append(_option(parser, action, flags=False))
        if options:
            groups.append((_title(group.title), tuple(options)))
    yield Page(
        words,
        text,
        " ".join((parser.description or "").split("\n\ncommands:")[0].split()),
        " ".join((parser.epilog or "").split()),
        tuple(positionals),
        tuple(groups),
        tuple(parts),
    )
    for name, part in parts.items():
        yield from _pages(f"{words} {name}", helps.get(name, ""), part)


def _title(title: str | None) -> str:
    return "" if title in (None, "options", "optional arguments") else str(title)


def _option(parser: argparse.ArgumentParser, action: argparse.Action, *, flags: bool) -> Option:
    formatter = parser._get_formatter()
    flag = FLAGS.get(action.dest) if flags else None
    many = action.nargs in ("*", "+", argparse.REMAINDER) or isinstance(action, argparse._AppendAction)
    return Option(
        names=tuple(name for name in action.option_strings if "_" not in name),
        metavar="" if action.nargs == 0 else _metavar(action),
        help=" ".join(formatter._expand_help(action).split()) if action.help else "",
        values=flag.choices if flag else tuple(map(str, action.choices or ())),
        variables=flag.variables if flag else (),
        required=action.required,
        many=many,
    )


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar:
        return action.metavar
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()


def _in_usage(option: Option) -> str:
    text = option.metavar + ("..." if option.many and not option.metavar.endswith("...") else "")
    return text if option.required else f"[{text}]"
