"""``elaunch.launch``: an agent of this host as a process beside the program, and the ranks' results back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from elaunch.api.config import LaunchConfig
from elaunch.api.failures import raised
from elaunch.api.functions import packed, preparation
from elaunch.api.serving import CallServer, wait_for
from elaunch.errors import StartError, UsageError
from elaunch.worker import called
from elaunch.worker.frames import CALL, CALLED

T = TypeVar("T")
_PACKAGE = Path(__file__).resolve().parents[1]
_PREFIX_TEMPLATE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
_OURS = (CALL, CALLED)  # where a rank of another job launches this one
_GRACE = 30.0  # seconds of the ranks where the configuration says nothing
_MARGIN = 20.0  # seconds for the agent to leave, once the ranks are gone


@overload
def launch(config: LaunchConfig, entrypoint: str | Sequence[str], *args: object) -> dict[int, Any]: ...
@overload
def launch(config: LaunchConfig, entrypoint: Callable[..., T], *args: object) -> dict[int, T]: ...
def launch(config: LaunchConfig, entrypoint: Callable[..., Any] | str | Sequence[str], *args: object) -> dict[int, Any]:
    """Run this host's part of a job and wait for its end, as torch's ``elastic_launch(config, entrypoint)(*args)``.

    ``entrypoint`` is a function, which every rank calls with ``args``, or a command: its words, or the first of them
    with the rest in ``args``. A command that ends in ``.py`` is a program for this Python. Returns what the function
    returned on each rank of this host, by rank; an empty dict for a command.

    It may be called from any thread, changes no signal handler, and never forks this process. With a KeyboardInterrupt,
    or any other exception, the job is ended first.

    ``config`` may be torch's ``LaunchConfig`` as well. Raises :class:`ChildFailedError` with the root cause when ranks
    failed and no restart was left, UsageError for what cannot be launched, and else the ElaunchError that the command
    line would have ended with.
    """
    if called.preparing:
        raise UsageError(
            "launch: this is the import of the main file by a rank; put what launches under if __name__ == '__main__':"
        )
    if not isinstance(config, LaunchConfig):
        config = LaunchConfig.like(config)
    if callable(entrypoint):
        call = packed(entrypoint, args)
        with contextlib.closing(CallServer(json.dumps(preparation(call)).encode(), call)) as server:
            words = [str(_PACKAGE / "worker" / "call.py")]
            _run(config, words, {CALL: server.path, CALLED: _name(entrypoint)}, server)
            return server.results()
    _run(config, _command(entrypoint, args), {}, None)
    return {}


def _command(entrypoint: str | Sequence[str], args: Sequence[object]) -> list[str]:
    words = [entrypoint] if isinstance(entrypoint, str) else list(entrypoint)
    words += [str(arg) for arg in args]
    if not words or not all(isinstance(word, str) for word in words):
        raise UsageError(f"launch: {entrypoint!r}: expected a function, or a command as text or a list of texts")
    return words if words[0].endswith(".py") else ["--no-python", *words]


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _run(config: LaunchConfig, words: Sequence[str], env: Mapping[str, str], server: CallServer | None) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as answer:
        try:
            process = _agent(config, words, env, writing)
        finally:
            os.close(writing)
        with _ended(process, config):
            if server is not None:
                server.serve(reading)
            wait_for(reading)
            told = answer.read()
            process.wait()
    if server is not None:
        server.drain()
    if not told:
        raise StartError(f"launch: the agent ended with exit code {process.returncode} and said nothing")
    error = raised(json.loads(told))
    if error is not None:
        raise error


def _agent(config: LaunchConfig, words: Sequence[str], env: Mapping[str, str], fd: int) -> subprocess.Popen[bytes]:
    argv = [
        sys.executable,
        str(_PACKAGE / "cli" / "launched_process.py"),
        str(fd),
        str(os.getpid()),
        *config.options(),
        *words,
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PET_") and name not in _OURS}
    if config.log_line_prefix_template is not None:
        kept[_PREFIX_TEMPLATE] = config.log_line_prefix_template
    try:
        return subprocess.Popen(argv, env={**kept, **env}, stdin=subprocess.DEVNULL, pass_fds=(fd,))
    except OSError as error:
        raise StartError(f"launch: cannot start the agent: {error}") from error


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes], config: LaunchConfig) -> Any:
    """The agent has ended when the context is left, however that is: with it ends all that it started."""
    try:
        yield
    except BaseException as error:
        _stop(process, signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM, config)
        raise


def _stop(process: subprocess.Popen[bytes], signum: signal.Signals, config: LaunchConfig) -> None:
    grace = config.grace_period if config.grace_period is not None else config.shutdown_timeout
    try:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signum)
        process.wait((_GRACE if grace is None else grace) + _MARGIN)
    except subprocess.TimeoutExpired:
        pass  # what ended the launch is what its caller is to hear of
    finally:
        process.kill()  # where it lives still: its ranks are killed by the spawner process, which sees its end
        process.wait()
