"""The codes that elaunch can show, collected from its code: events of a job's history, reasons, exit codes.

A place that makes such a code must be understood: a literal, a constant, or an expression of the tables below.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from elaunch import errors, links, reports
from elaunch.controller import findings, hang, preemption, restarting
from elaunch.controller.restarts import Cause
from elaunch.errors import ElaunchError, NoRouteError, StartError
from elaunch.rendezvous.journal import Standing
from elaunch.rendezvous.records import Phase

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "elaunch"


def _port_events() -> set[str]:
    troubles = {links.DOWN, links.FLAPPING, links.ERRORS, links.SLOW, links.CONGESTED}
    made = (findings.Finding(c, "", "", "", (), "", 0.0, over=over) for c in troubles for over in (False, True))
    return {finding.event for finding in made}


def _standings() -> set[str]:
    """A command is no news before a leader has seen it."""
    return {f"command_{standing.value}" for standing in Standing if standing is not Standing.PENDING}


def _told_by_nodes() -> set[str]:
    """What ranks and agents tell; that a restore begins is no line of the history."""
    named = {reports.MISSING, reports.PENDING, *_constants("elaunch.agent.injecting", "BEGAN", "ENDED")}
    literals = {
        code
        for folder in ("checkpoint", "worker", "agent")
        for _, call in _calls(PACKAGE / folder, None)
        if call.args and (code := _literal(call.args[0])) and reports._KIND.fullmatch(code)
    }
    return (named | literals) - {reports.RESTORING, reports.RESTORED}


def _constants(module: str, *names: str) -> set[str]:
    return {getattr(importlib.import_module(module), name) for name in names}


# file below elaunch/controller and expression: the values that it can have
EVENTS = {
    ("history.py", "f'job_{after.phase.value}'"): lambda: {f"job_{phase.value}" for phase in Phase},
    ("history.py", "finding.code"): lambda: _made("Finding", PACKAGE / "topology" / "probe", {}),
    ("history.py", "code"): lambda: {*_standings(), "injection_began", "injection_ended", "node_joined", "node_gone"},
    ("registrar.py", "line.kind"): _told_by_nodes,
    ("course.py", "code"): lambda: {"straggler", "straggler_recovered"},
    ("course.py", "event"): _port_events,
}
REASONS = {
    ("course.py", "hang.code"): lambda: restarting.HANGS,
    # Of the other causes the reason's own code is shown: elaunch.controller.restarting.foresee.
    ("restarts.py", "cause.value"): lambda: {
        Cause.CODE_ERROR.value,
        Cause.CRASH_LOOP.value,
        Cause.DIRECTORY_IN_USE.value,
    },
    ("faults.py", "status.leaving_code or 'operator_stop'"): lambda: {
        "operator_stop",
        preemption.WARNED,
        preemption.TERMINATED,
        preemption.NODE_REPLACED,
    },
    ("unstartable.py", "status.start_code or StartError.code"): lambda: {StartError.code, NoRouteError.code},
}


def events() -> set[str]:
    """Every code that a line of ``elaunch events`` can have."""
    return _made("Entry", PACKAGE / "controller", EVENTS)


def reasons() -> set[str]:
    """Every code that the reason of a job's phase can have."""
    assert hang.ALL_WAITING in restarting.HANGS
    return _made("Reason", PACKAGE / "controller", REASONS)


def exit_codes() -> set[int]:
    """Every exit code that elaunch has a meaning for, its ranks' own left out."""
    found = {0, 130, 143}
    for module in (errors, importlib.import_module("elaunch.agent.far_host")):
        kinds = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, ElaunchError)]
        found |= {kind.exit_code for kind in kinds}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and type(node.value.value) is int:
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                found |= {node.value.value for name in names if name.startswith("EXIT_")}
    return found


def _made(what: str, folder: Path, dynamic: dict[tuple[str, str], object]) -> set[str]:
    """The first arguments of all calls of ``what`` in a folder. Raises AssertionError for one not understood."""
    found: set[str] = set()
    used = set()
    for path, call in _calls(folder, what):
        argument = call.args[0] if call.args else next(k.value for k in call.keywords if k.arg == "code")
        code = _literal(argument) or _resolved(argument, _module(path))
        if code is not None:
            found.add(code)
            continue
        key = (path.name, ast.unparse(argument))
        assert key in dynamic, (
            f"{path.relative_to(ROOT)}:{call.lineno}: which codes can {key[1]} be? Say it in {__file__}"
        )
        used.add(key)
        found |= dynamic[key]()  # type: ignore[operator]
    assert used == set(dynamic), f"nothing of this is there any more: {set(dynamic) - used}"
    return found


def _calls(folder: Path, name: str | None) -> Iterator[tuple[Path, ast.Call]]:
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (
                name is None or (isinstance(node.func, ast.Name) and node.func.id == name)
            ):
                yield path, node


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _resolved(node: ast.expr, module: ModuleType) -> str | None:
    """The value of a constant of a module, or of one that it imports."""
    if isinstance(node, ast.Name):
        value = getattr(module, node.id, None)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        value = getattr(getattr(module, node.value.id, None), node.attr, None)
    else:
        return None
    return value if isinstance(value, str) else None


def _module(path: Path) -> ModuleType:
    return importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
