"""Batch scripts, and the ready ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from elaunch.cli import slurm
from elaunch.cli.main import main
from elaunch.errors import UsageError
from elaunch.schedulers.sbatch import script_of, wishes_of

READY = Path(__file__).parents[3] / "deploy" / "slurm"
RENDERED = {
    "plain.sbatch": ["--nodes=4", "--time=04:00:00"],
    "elastic.sbatch": ["--nodes=4", "--spares=1", "--min-nodes=3", "--time=1-00:00:00", "--options=--slurm-drain"],
    "groups.sbatch": ["--nodes=1", "--array=0-3", "--time=1-00:00:00"],
}


@pytest.mark.parametrize("name", RENDERED)
def test_the_ready_scripts_are_what_is_rendered(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slurm", "render", *RENDERED[name]]) == 0
    assert capsys.readouterr().out == (READY / name).read_text()
    subprocess.run(["bash", "-n", str(READY / name)], check=True)


def test_words_stay_what_they_are() -> None:
    script = script_of(wishes_of({"program": ["my train.py", "a b", "$HOME"], "options": ["--role=a b"]}))
    assert "elaunch '--role=a b' 'my train.py' 'a b' '$HOME'\n" in script


def test_spares_are_more_nodes_and_a_lost_one_ends_nothing() -> None:
    script = script_of(wishes_of({"nodes": 4, "spares": 2, "min_nodes": 3, "gpus": 8, "cpus": 12}))
    assert "#SBATCH --nodes=6\n" in script
    assert "#SBATCH --gpus-per-node=8\n" in script
    assert "#SBATCH --no-kill\n" in script
    assert "--no-kill --cpus-per-task=12 elaunch --spares=2 --min-nodes=3 " in script


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"nodes": 0}, "nodes=0: expected a whole number, 1 or more"),
        ({"nodes": "4"}, "nodes='4': expected a whole number"),
        ({"nodes": True}, "nodes=True: expected a whole number"),
        ({"nodes": 2, "min_nodes": 3}, "min_nodes=3: expected 2 at most"),
        ({"time": "soon"}, "time=soon: expected minutes"),
        ({"name": "a b"}, "name='a b': expected a text without spaces"),
        ({"partition": "$(id)"}, "partition=.*expected a text without"),
        ({"nods": 2}, "nods: there is no such setting; there are .*nodes"),
        ({"program": "train.py"}, "program='train.py': expected a list of texts"),
        ({"setup": ["a\nb"]}, "setup=.*one line"),
        ({"array": "0-3", "spares": 1}, "array: groups are replaced as a whole"),
    ],
)
def test_wishes_that_make_no_job_are_named(values: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        wishes_of(values)


def test_a_file_and_what_is_given_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tomllib")
    file = tmp_path / "job.toml"
    file.write_text('nodes = 4\ntime = "60"\nprogram = ["train.py"]\nsetup = ["module load cuda"]\n')
    assert main(["slurm", "submit", "--dry-run", f"--file={file}", "--nodes=8"]) == 0
    script = capsys.readouterr().out
    assert "#SBATCH --nodes=8\n" in script
    assert "#SBATCH --time=60\n" in script
    assert "\nmodule load cuda\n" in script
    assert script.index("module load") < script.index("srun")
    file.write_text("nodes = \n")
    with pytest.raises(UsageError, match=f"--file={file}: is no TOML: .*; texts stand in quotes"):
        slurm.run(["render", f"--file={file}"], {})
    with pytest.raises(UsageError, match="No such file"):
        slurm.run(["render", "--file=/none.toml"], {})


def test_mistakes_are_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["slurm"], ["slurm", "render", "--nodes=x"], ["slurm", "render", "--min-nodes=9"]):
        assert main(arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(UsageError, match="SLURM_JOB_ID is not set"):
        slurm.run(["requeue", "85"], {})
