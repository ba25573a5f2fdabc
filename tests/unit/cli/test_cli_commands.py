"""The one table of commands: each can be run, has its parsers, and stands in the help."""

from __future__ import annotations

import argparse
from importlib import import_module

import pytest

from elaunch.cli.commands import COMMANDS, Command
from elaunch.cli.parser import build_parser


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_can_be_run_and_has_parsers_by_its_words(command: Command) -> None:
    assert callable(import_module(f"elaunch.cli.{command.module}").run)
    found = command.parsers()
    assert command.name in found
    for words, parser in found.items():
        assert isinstance(parser, argparse.ArgumentParser)
        assert parser.prog == f"elaunch {words}"
        assert parser.description


def test_the_help_lists_every_command_with_its_line() -> None:
    lines = [line.split(maxsplit=1) for line in build_parser().format_help().splitlines() if line.startswith("  ")]
    for command in COMMANDS.values():
        assert [command.name, command.help] in lines
