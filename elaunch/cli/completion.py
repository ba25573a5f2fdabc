"""``elaunch completion bash|zsh|fish``: a script that completes commands, options, their values and jobs."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from elaunch.errors import UsageError

_SHELLS = ("bash", "zsh", "fish")
_EPILOG = (
    'bash: eval "$(elaunch completion bash)" in ~/.bashrc. zsh: the same with zsh in ~/.zshrc, after compinit. '
    "fish: elaunch completion fish > ~/.config/fish/completions/elaunch.fish."
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"completion: {message.removeprefix('argument ')}")


_PLAIN = re.compile(r"[\w/.][\w@%+:,./-]*")


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its one parser."""
    parser = _Parser(
        prog="elaunch completion", description="Print a completion script.", epilog=_EPILOG, allow_abbrev=False
    )
    parser.add_argument("shell", choices=_SHELLS, metavar="|".join(_SHELLS), help="for this shell")
    return {"completion": parser}


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code. Raises UsageError."""
    if list(argv) == ["--jobs"]:  # asked for by the scripts
        return _jobs()
    shell = parsers()["completion"].parse_args(argv).shell

    from elaunch.cli.completion_scripts import bash, fish, zsh

    sys.stdout.write({"bash": bash, "zsh": zsh, "fish": fish}[shell]())
    return 0


def _jobs() -> int:
    """The jobs of this user's agents on this host, a line each; as they are found without asking any etcd.

    Names that a shell would not take as they are stay away: bash expands what it completes with, so that
    ``$(...)`` would run.
    """
    from elaunch.agent.local_jobs import local_jobs

    names = sorted({local.job for local in local_jobs()})
    sys.stdout.write("".join(f"{name}\n" for name in names if _PLAIN.fullmatch(name)))
    return 0
