"""The ``elaunch`` command. What takes time to import is imported only when the input is known to be good."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from elaunch.cli.commands import COMMANDS
from elaunch.errors import ElaunchError, StartError

if TYPE_CHECKING:
    from elaunch.agent.options import LaunchOptions
    from elaunch.agent.outcome import Outcome

_NO_THREAD = "can't start new thread"  # how Python words it
_PATIENCE = 10.0  # seconds for a reader to take the last words


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: see docs/exit-codes.md."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except ElaunchError as error:
        return _complain(" ".join(str(error).splitlines()), error.exit_code)
    except OSError as error:  # a full disk, a limit on open files: the machine's, wherever it was met
        return _complain(f"this machine does not let the agent work: {error}", StartError.exit_code)
    except RuntimeError as error:
        if str(error) != _NO_THREAD:
            raise
        return _complain(
            f"this machine does not let the agent work: {error} (ulimit -u, pids.max)", StartError.exit_code
        )
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _run(arguments: Sequence[str]) -> int:
    if not arguments:
        from elaunch.cli.parser import HINT

        return _complain(f"no script given; {HINT}", 2)
    command = COMMANDS.get(arguments[0])
    return launch(arguments) if command is None else command.run(arguments[1:], os.environ)


def launch(arguments: Sequence[str]) -> int:
    """Start a job's ranks on this node, and stay until they are done."""
    options, outcome = conduct(arguments)

    from elaunch.agent.console import own_words
    from elaunch.cli import report

    if outcome.failures:
        own_words(_PATIENCE).write(
            report.render(options.program.target, outcome.failures, failed=outcome.failed) + "\n"
        )
    elif outcome.exit_code:
        return _complain(outcome.reason, outcome.exit_code)
    return outcome.exit_code


def conduct(arguments: Sequence[str]) -> tuple[LaunchOptions, Outcome]:
    """Run this node's part of the job that the command line asks for, and how that ended. Raises ElaunchError."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the agent handles it: an early Ctrl-C needs no traceback
    from elaunch.cli.options import parse

    options = parse(arguments, os.environ)

    import asyncio

    from elaunch.agent.console import hold_standard_streams
    from elaunch.agent.orphans import leave_no_orphan
    from elaunch.cli import output

    with output.silent_grpc(os.environ):
        from elaunch.agent.agent import run_agent

    hold_standard_streams()
    log = output.configure(options.log_level, os.environ.get(output.FORMAT_VARIABLE, output.AUTO), job=options.job)
    for warning in options.warnings:
        log.warning("option", text=warning)
    try:
        outcome = asyncio.run(run_agent(options))
    except ElaunchError as error:
        leave_no_orphan(options.scheduled, error.exit_code)
        raise
    leave_no_orphan(options.scheduled, outcome.exit_code)
    return options, outcome


def _complain(line: str, exit_code: int) -> int:
    from elaunch.agent.console import own_words

    own_words(_PATIENCE).write(f"elaunch: error: {line}\n")
    return exit_code
