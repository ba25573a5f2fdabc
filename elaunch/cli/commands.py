"""Every command of ``elaunch``: the one table that the command line, its help, completion, man page and reference use.

A command's module has ``run(words, environ) -> exit code``, and ``parsers()``: its argparse parsers by their words
(``{"ckpt ls": ...}``; the subparsers of one need no entry of their own). It is imported when its command is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from elaunch.cli.operator_names import OPERATOR_COMMANDS

if TYPE_CHECKING:
    from argparse import ArgumentParser

OPERATOR = "jobs that run"
TOOLS = "hosts, checkpoints, help"


@dataclass(frozen=True, slots=True)
class Command:
    """One command. ``help`` is a line; ``flags`` the module with ``parsers()``, where that is not ``module``.

    With ``named``, ``run`` gets the command's name before its words.
    """

    name: str
    help: str
    module: str
    flags: str = ""
    group: str = TOOLS
    named: bool = False

    def run(self, words: Sequence[str], environ: Mapping[str, str]) -> int:
        """Run it with the words after its name; the exit code. Raises ElaunchError."""
        code: int = _load(self.module).run([self.name, *words] if self.named else list(words), environ)
        return code

    def parsers(self) -> dict[str, ArgumentParser]:
        """Its parsers by the words that lead to them."""
        found: dict[str, ArgumentParser] = _load(self.flags or self.module).parsers()
        return {words: parser for words, parser in found.items() if words.split()[0] == self.name}


def _load(module: str) -> Any:
    return import_module(f"elaunch.cli.{module}")


_TABLE = (
    *(Command(name, text, "operator", "operator_flags", OPERATOR, True) for name, text in OPERATOR_COMMANDS.items()),
    Command("controller", "lead jobs from a host of its own", "controller"),
    Command("ckpt", "look after the checkpoints in a directory", "ckpt", "ckpt_flags"),
    Command("topo", "show a machine, and what its ranks get", "topo", "topo_flags"),
    Command("doctor", "say what is wrong with this host, or between a job's", "doctor"),
    Command("inject", "make something fail on purpose, in a job that allows it", "inject", group=OPERATOR),
    Command("qualify", "try all that must work here or on hosts, and write a report", "qualify"),
    Command("slurm", "write batch scripts for Slurm", "slurm"),
    Command("kubernetes", "write and submit jobs for Kubernetes; its operator", "kubernetes_command", "kubernetes"),
    Command("ssh", "start a job on hosts of a list", "ssh"),
    Command("bug-report", "pack what is known of a job, without secrets", "bug_report"),
    Command("completion", "print a shell's completion of these commands", "completion"),
    Command("manpage", "print the man page", "manpage"),
)

COMMANDS: dict[str, Command] = {command.name: command for command in _TABLE}
"""What may stand in the script's place. A script of that name is run as ``./name``."""
