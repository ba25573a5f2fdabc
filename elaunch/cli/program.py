"""The program to run, and how its ranks start. It is looked for, never imported."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

from elaunch.agent.options import StartMode
from elaunch.agent.program import Kind, Program
from elaunch.cli.commands import COMMANDS
from elaunch.cli.modules import missing_module
from elaunch.cli.parser import HINT, Values
from elaunch.cli.spelling import suggestion
from elaunch.errors import UsageError


def resolve_program(values: Values, environ: Mapping[str, str]) -> Program:
    """The program that the command line names. Raises UsageError where it cannot be run."""
    if not values.command:
        raise UsageError(f"no script given; {HINT}")
    target, *args = values.command
    kind = _kind(values)
    if kind == "command":
        _check_command(target, environ)
    elif kind == "module":
        _check_module(target, environ)
    else:
        _check_script(target)
    return Program(kind, target, tuple(args), _interpreter(environ, kind))


def _kind(values: Values) -> Kind:
    if values["run_path"]:
        return "run_path"
    if values["no_python"] and values["module"]:
        raise UsageError("--no-python and --module: a command is no module; give one of them")
    if values["no_python"]:
        return "command"
    return "module" if values["module"] else "script"


def _check_script(path: str) -> None:
    if not os.path.exists(path):
        meant = suggestion(path, list(COMMANDS))
        raise UsageError(f"script {path}: no such file (seen from {os.getcwd()}){f'; {meant}' if meant else ''}")
    if os.path.isdir(path) and not os.path.isfile(os.path.join(path, "__main__.py")):
        raise UsageError(f"script {path}: is a folder without a __main__.py")
    if not os.access(path, os.R_OK):
        raise UsageError(f"script {path}: cannot be read by this user")


def _check_module(name: str, environ: Mapping[str, str]) -> None:
    if os.sep in name or not all(name.split(".")):
        raise UsageError(f"--module {name}: expected a module's name such as package.train, not a path")
    if (environ.get("PYTHON_EXEC") or sys.executable) != sys.executable:
        return  # another interpreter has other modules
    if missing := missing_module(name, environ, run=True):
        raise UsageError(f"--module {name}: no module named {missing!r} (seen from {os.getcwd()})")


def _check_command(name: str, environ: Mapping[str, str]) -> None:
    if shutil.which(name, path=environ.get("PATH", os.defpath)) is None:
        where = "is no executable file" if os.sep in name else "not found on PATH"
        raise UsageError(f"--no-python {name}: {where}")


def _interpreter(environ: Mapping[str, str], kind: Kind) -> str:
    chosen = environ.get("PYTHON_EXEC")
    if not chosen:
        return sys.executable
    if kind != "command" and shutil.which(chosen, path=environ.get("PATH", os.defpath)) is None:
        raise UsageError(f"PYTHON_EXEC={chosen}: expected a Python interpreter that can be run")
    return chosen


def resolve_start(values: Values, program: Program) -> tuple[StartMode, tuple[str, ...]]:
    """How ranks start, and why not as asked. Only this very Python's programs can start warm."""
    mode: StartMode = values["start"]
    foreign = program.kind == "command" or program.interpreter != sys.executable
    if mode == "warm" and foreign:
        asked = values.given("start")
        what = "a command" if program.kind == "command" else f"PYTHON_EXEC={program.interpreter}"
        return "exec", (f"{what} cannot start warm; its ranks start with exec",) if asked else ()
    return mode, ()


def resolve_preload(values: Values, mode: StartMode, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The modules to import ahead. Raises UsageError for what is no module, or where nothing starts warm."""
    names: tuple[str, ...] = tuple(name.strip() for name in values["preload"] if name.strip())
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise values.error("preload", f"{name!r} is no module's name")
    if names and mode == "exec":
        raise values.error("preload", "only a warm start can preload; leave it out, or start Python with --start=warm")
    for name in names:
        if missing := missing_module(name, environ, run=False):
            raise values.error("preload", f"no module named {missing!r}; the working directory is not looked in")
    return names
