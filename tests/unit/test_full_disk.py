"""A rank's output to a file that takes no more: nothing is raised, and what fits is there."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from elaunch.worker.full_disk import outlast
LAST
for n in range(2000):
    print("line", n)
sys.stderr.write("x" * 10000)
sys.stdout.flush()
open(sys.argv[1], "w").write("through")
"""


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


@pytest.mark.parametrize("options", [(), ("-u",)])
@pytest.mark.parametrize("outlasts", [True, False])
def test_a_program_goes_on_though_its_output_does_not_fit(
    tmp_path: Path, options: tuple[str, ...], outlasts: bool
) -> None:
    text = PROGRAM.replace("LAST", "outlast()" if outlasts else "")
    argv = [sys.executable, "-B", *options, "-c", text, str(tmp_path / "done")]
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        done = subprocess.run(argv, stdout=out, stderr=err, preexec_fn=limit, timeout=60)
    assert (tmp_path / "done").exists() == outlasts
    assert (done.returncode == 0) == outlasts
    assert (tmp_path / "out").read_text().startswith("line 0\nline 1\n")
    assert (tmp_path / "out").stat().st_size == 8192
