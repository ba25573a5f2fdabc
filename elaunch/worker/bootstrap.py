"""Run a user's program as ``__main__`` in a process forked from one that has imported torch.

What the program sees is what ``python -u program`` would show it; docs/warm-start.md lists what stays
different. The spawner process imports this before it forks, so that nothing is imported in between.
"""

from __future__ import annotations

import builtins
import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType, TracebackType

Body = Callable[[], None]

_kept: list[CodeType] = []  # so that the memory it stands in is not given back


def prepare(
    *,
    kind: str,
    target: str,
    args: Sequence[str],
    command: Sequence[str],
    env: Mapping[str, str],
    env_at_start: Mapping[str, str],
) -> Body:
    """Make the forked process look like a fresh interpreter; returns what runs the program and ends it.

    ``command`` is the command line of a plain start, ``env`` the rank's whole environment, ``env_at_start``
    what this process was started with.
    """
    _replace_environment(env, env_at_start)
    _reseed()
    importlib.invalidate_caches()
    sys.orig_argv[:] = list(command)
    main = ModuleType("__main__")
    main.__dict__.update({"__annotations__": {}, "__builtins__": builtins})
    for name in ("__main__", "__mp_main__"):  # the second is multiprocessing's name for the first
        if name in sys.modules:
            sys.modules[name] = main
    body = {"script": _script, "module": _module}[kind](main, target, args, command)
    _load_elaunch()
    return lambda: _run(body)


def rehearse() -> None:
    """Do beforehand, without effect, what ``prepare`` will: the memory that it writes to is this process's own then.

    A forked process copies a page when it first writes to it, and there are a thousand of them on the way.
    """
    _replace_environment(dict(os.environ), {})
    importlib.invalidate_caches()
    with open(__file__, "rb") as file:
        _kept.append(compile(file.read(), __file__, "exec", dont_inherit=True))


def _replace_environment(env: Mapping[str, str], env_at_start: Mapping[str, str]) -> None:
    """``env``, with what the imports changed in the environment, as they would have done in this process."""
    imported = {k: v for k, v in os.environ.items() if env_at_start.get(k) != v and k not in env}
    os.environ.clear()
    os.environ.update({**env, **imported})


def _reseed() -> None:
    """Give this process random state of its own where a fresh process would draw it from the system.

    ``random`` does so itself after a fork.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)


def _load_elaunch() -> None:
    """What ``import torch`` does for an installed elaunch; torch was imported before this was a rank."""
    from elaunch.worker.autoload import autoload
    from elaunch.worker.claim import begin

    begin()
    autoload()


def _script(main: ModuleType, target: str, args: Sequence[str], command: Sequence[str]) -> Body:
    # The interpreter makes the path absolute without normalising it.
    path = target if os.path.isabs(target) else os.path.join(os.getcwd(), target)
    sys.argv[:] = [target, *args]
    _add_first_path(os.path.dirname(os.path.realpath(target)))
    loader = SourceFileLoader("__main__", path)
    main.__dict__.update({"__loader__": loader, "__file__": path, "__cached__": None})

    def body() -> None:
        try:
            with open(path, "rb") as file:
                code = compile(file.read(), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OSError):
            # Nothing has run yet: let a plain start say what is wrong, in its own words.
            os.execv(command[0], list(command))
        exec(code, main.__dict__)

    return body


def _module(main: ModuleType, target: str, args: Sequence[str], command: Sequence[str]) -> Body:
    sys.argv[:] = ["-m", *args]
    _add_first_path(os.getcwd())
    return lambda: runpy._run_module_as_main(target)  # type: ignore[attr-defined]


def _add_first_path(path: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, path)


def _run(body: Body) -> None:
    """Run the program and end as the interpreter would end it, by leaving the outermost frame."""
    uncaught: BaseException | None = None
    rank = os.getpid()
    try:
        body()
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - outermost: this stands for the interpreter's own handler
        uncaught = error
    # Reported out here, so that what the hook raises has no context, as with the interpreter.
    if uncaught is None:
        return
    if isinstance(uncaught, Exception) and os.getpid() == rank:  # no child that the program has forked
        from elaunch.worker.error_file import leave

        leave(uncaught, _without_ours(uncaught.__traceback__))
    _report(uncaught)
    if isinstance(uncaught, KeyboardInterrupt):
        # The interpreter ends itself by SIGINT when this leaves the last frame; it was reported above.
        sys.excepthook = lambda *_: None
        raise uncaught
    sys.exit(1)


def _report(error: BaseException) -> None:
    """Hand an uncaught exception to ``sys.excepthook``, without our frames."""
    trace = _without_ours(error.__traceback__)
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.last_exc = error  # type: ignore[attr-defined,unused-ignore]
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit:
        raise
    except BaseException as second:  # noqa: BLE001 - as the interpreter does
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(type(second), second, _without_ours(second.__traceback__))
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, trace)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace
