"""Modules are looked for by their files, before anything starts, and never imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elaunch.cli.modules import missing_module
from elaunch.cli.options import parse
from elaunch.errors import UsageError

IMPORTED = "raise SystemExit('this must not be imported')\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a package, one that makes its modules itself, and folders without code."""
    for path, text in {
        "single.py": IMPORTED,
        "package/__init__.py": IMPORTED,
        "package/__main__.py": IMPORTED,
        "package/train.py": IMPORTED,
        "package/inner/__init__.py": IMPORTED,
        "clever/__init__.py": "import sys\nsys.modules['clever.made'] = object()\n",
        "plain/deep.py": IMPORTED,
        "plain/deeper/deepest.py": IMPORTED,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["single", "package", "package.train", "clever.made", "plain.deep", "plain.deeper.deepest", "json.tool", "timeit"],
)
def test_what_can_be_run_is_not_missing(folder: Path, name: str) -> None:
    before = set(sys.modules)
    assert missing_module(name, {}, run=True) == ""
    assert set(sys.modules) - before == set()


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("nosuch.mod", "nosuch"),
        ("package.nosuch", "package.nosuch"),
        ("package.inner", "package.inner.__main__"),
        ("package.inner.nosuch.more", "package.inner.nosuch"),
        ("single.nosuch", "single.nosuch"),
        ("plain.nosuch", "plain.nosuch"),
        ("json", "json.__main__"),
    ],
)
def test_what_cannot_be_run_is_named(folder: Path, name: str, missing: str) -> None:
    path = list(sys.path)
    assert missing_module(name, {}, run=True) == missing
    assert sys.path == path
    with pytest.raises(UsageError, match=f"--module {name}: no module named '{missing}'"):
        parse(["-m", name], {})


def test_what_is_preloaded_is_not_looked_for_in_the_working_directory(folder: Path, script: str) -> None:
    assert missing_module("json", {}, run=False) == ""
    with pytest.raises(UsageError, match="--preload=json,single: no module named 'single'"):
        parse(["--preload=json,single", script], {})


def test_another_interpreter_has_other_modules(folder: Path) -> None:
    assert parse(["-m", "nosuch"], {"PYTHON_EXEC": "/bin/sh"}).program.target == "nosuch"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH came with Python 3.11")
def test_a_safe_path_leaves_the_working_directory_out(folder: Path) -> None:
    assert missing_module("single", {"PYTHONSAFEPATH": "1"}, run=True) == "single"
