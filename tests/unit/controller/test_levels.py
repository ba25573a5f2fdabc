"""How loud an event is on the page: as loud as who found it said."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from elaunch.controller.levels import level
from elaunch.topology import probe


def findings() -> list[tuple[str, str]]:
    """Code and severity of each ``Finding(code, text, severity, ...)`` in the code of the probe."""
    found = set()
    for path in Path(probe.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Finding" and len(call.args) > 2:
                code, severity = call.args[0], call.args[2]
                if isinstance(code, ast.Constant) and isinstance(severity, ast.Constant):
                    found.add((code.value, severity.value))
    return sorted(found)


@pytest.mark.parametrize(("code", "severity"), findings())
def test_findings_are_as_loud_as_they_are(code: str, severity: str) -> None:
    assert level(code) == severity


def test_there_are_findings() -> None:
    assert {"rails_crossed", "mtu_differs"} <= {code for code, _ in findings()}


@pytest.mark.parametrize(
    ("code", "loud"),
    [
        ("job_failed", "error"),
        ("link_fault", "warning"),
        ("port_down", "warning"),
        ("port_over", "info"),
        ("checkpoint_committed", "info"),
        ("command_failed", "warning"),
    ],
)
def test_what_is_trouble_is_no_note(code: str, loud: str) -> None:
    assert level(code) == loud
