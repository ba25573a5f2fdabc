"""The reference and the man page, made from the parsers: complete, current, and right for those who read them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elaunch.cli.commands import COMMANDS
from elaunch.cli.flags import FLAGS
from elaunch.cli.main import main
from elaunch.cli.manpage import manpage
from elaunch.cli.pages import pages
from elaunch.cli.reference import reference
from tests.e2e.spawning import ROOT


def test_every_command_part_and_option_is_there() -> None:
    text = reference()
    for flag in FLAGS.values():
        assert f"--{flag.dest.replace('_', '-')}" in text
        assert all(f"`{variable}`" in text for variable in flag.variables)
    for command in COMMANDS.values():
        assert f"\n## elaunch {command.name}\n" in text
    for words in ("ckpt rm", "ckpt export", "slurm submit", "slurm requeue"):
        assert f"\n### elaunch {words}\n" in text
    assert "%(default)s" not in text


def test_pages_know_their_parts_values_and_usage() -> None:
    found = {page.words: page for page in pages()}
    assert found["ckpt"].parts == ("ls", "show", "verify", "rm", "export")
    assert found["slurm"].parts == ("render", "submit", "requeue")
    assert found["ckpt rm"].usage == "elaunch ckpt rm [OPTIONS] DIR STEP..."
    assert found["controller"].usage == "elaunch controller [OPTIONS] --etcd HOST:PORT[,...]"
    assert next(o for o in found[""].options if "--start" in o.names).values == ("warm", "exec")


def test_what_is_in_docs_is_current() -> None:
    """As `make check` sees it; a stale page is told with what to do."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "reference.py", "--check"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_stale_page_is_told(tmp_path: Path) -> None:
    for name in ("tools", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "elaunch").symlink_to(ROOT / "elaunch")
    shutil.copy(ROOT / "tools" / "reference.py", tmp_path / "tools")
    (tmp_path / "docs" / "reference.md").write_text(reference())
    (tmp_path / "docs" / "elaunch.1").write_text(manpage().replace("nnodes", "nodes"))
    argv = [sys.executable, tmp_path / "tools" / "reference.py"]
    done = subprocess.run([*argv, "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "docs/elaunch.1 is not what the parsers say: python tools/reference.py\n"
    assert subprocess.run(argv, timeout=60).returncode == 0
    assert (tmp_path / "docs" / "elaunch.1").read_text() == manpage()


def test_roff_has_nothing_to_complain_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    assert main(["manpage"]) == 0
    page = capsys.readouterr().out
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-rLL=100n"], input=page, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    plain = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)
    assert "--rdzv-endpoint HOST:PORT" in plain
    assert "elaunch ckpt rm [OPTIONS] DIR STEP..." in plain


def test_versions_for_a_bug_report_without_importing_what_they_are_of() -> None:
    text = (
        "import sys; from elaunch.cli.main import main\n"
        "try: main(['--version'])\nexcept SystemExit as end: print(end.code)\n"
        "print(sorted({'torch', 'grpc', 'google.protobuf'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, timeout=60)
    first, *rest, code, heavy = done.stdout.splitlines()
    assert re.fullmatch(r"elaunch \d+\.\d+\.\d+", first)
    assert (code, heavy) == ("0", "[]")
    names = {line.split()[0] for line in rest}
    assert {"torch", "python", "grpcio", "protobuf", "etcd", "nccl", "driver", "kernel", "libc"} <= names
    assert all(len(line.split(maxsplit=1)) == 2 for line in rest)
