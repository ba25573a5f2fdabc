"""The ``elaunch`` command. What takes time to import is imported only when the input is known to be good."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

from elaunch.cli.operator_names import OPERATOR_COMMANDS
from elaunch.cli.options import parse
from elaunch.cli.parser import HINT
from elaunch.errors import ElaunchError, StartError

Command = Callable[[Sequence[str]], int]
_SILENT_GRPC = ("GRPC_VERBOSITY", "NONE")  # else it writes a line for each handshake that fails
_NO_THREAD = "can't start new thread"  # how Python words it
_PATIENCE = 10.0  # seconds for a reader to take the last words


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: see docs/exit-codes.md."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = COMMANDS.get(arguments[0], launch) if arguments else _hint
    try:
        return command(arguments)
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


def launch(arguments: Sequence[str]) -> int:
    """Start a job's ranks on this node, and stay until they are done."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the agent handles it: an early Ctrl-C needs no traceback
    options = parse(arguments, os.environ)

    import asyncio

    from elaunch.agent.console import hold_standard_streams, own_words
    from elaunch.agent.orphans import leave_no_orphan
    from elaunch.cli import output, report

    with output.silent_grpc(os.environ):
        from elaunch.agent.agent import run_agent

    hold_standard_streams()
    log = output.configure(options.log_level, os.environ.get(output.FORMAT_VARIABLE, "console"), job=options.job)
    for warning in options.warnings:
        log.warning("option", text=warning)
    try:
        outcome = asyncio.run(run_agent(options))
    except ElaunchError as error:
        leave_no_orphan(options.scheduled, error.exit_code)
        raise
    leave_no_orphan(options.scheduled, outcome.exit_code)
    if outcome.failures:
        own_words(_PATIENCE).write(report.render(options.program.target, outcome.failures) + "\n")
    elif outcome.exit_code:
        return _complain(outcome.reason, outcome.exit_code)
    return outcome.exit_code


def _hint(_: Sequence[str]) -> int:
    return _complain(f"no script given; {HINT}", 2)


def _complain(line: str, exit_code: int) -> int:
    from elaunch.agent.console import own_words

    own_words(_PATIENCE).write(f"elaunch: error: {line}\n")
    return exit_code


def operate(arguments: Sequence[str]) -> int:
    """A command for a job that runs."""
    from elaunch.cli.operator import main as command

    os.environ.setdefault(*_SILENT_GRPC)
    return command(arguments, os.environ)


def lead(arguments: Sequence[str]) -> int:
    """A controller of many jobs."""
    from elaunch.cli.controller import run

    os.environ.setdefault(*_SILENT_GRPC)
    return run(arguments)


def look_after_checkpoints(arguments: Sequence[str]) -> int:
    """A command for a checkpoint directory."""
    from elaunch.cli.ckpt import run

    return run(arguments[1:])


def show_topology(arguments: Sequence[str]) -> int:
    """What this machine, or another, is made of."""
    from elaunch.cli.topo import run

    return run(arguments[1:], os.environ)


def examine(arguments: Sequence[str]) -> int:
    """What is wrong with this host, or between a job's."""
    from elaunch.cli.doctor import run

    os.environ.setdefault(*_SILENT_GRPC)
    return run(arguments[1:], os.environ)


def speak_to_slurm(arguments: Sequence[str]) -> int:
    """Batch scripts, and what they need."""
    from elaunch.cli.slurm import run

    return run(arguments[1:], os.environ)


COMMANDS: dict[str, Command] = {
    **dict.fromkeys(OPERATOR_COMMANDS, operate),
    "controller": lead,
    "ckpt": look_after_checkpoints,
    "topo": show_topology,
    "doctor": examine,
    "slurm": speak_to_slurm,
}
"""What may stand in the script's place. A script of that name is run as ``./name``."""
