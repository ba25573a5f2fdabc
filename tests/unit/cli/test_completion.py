"""The completion scripts in real shells: what each offers for a line that is half typed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from elaunch.cli import completion_scripts
from elaunch.cli.commands import COMMANDS
from elaunch.cli.main import main
from tests.e2e.spawning import ROOT

Complete = Callable[[list[str]], list[str]]

_BASH = """
source {script}
compopt() {{ :; }}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_elaunch
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
_ZSH = """
compdef() {{ :; }}
compadd() {{ local w; for w in "$@"; do [[ $w == -- ]] || print -r -- $w; done }}
_describe() {{ print -rl -- ${{${{(P)2}}%%:*}} }}
_files() {{ print -r -- FILES }}
compset() {{ PREFIX=${{PREFIX#*=}} }}
source {script}
words=({words}); CURRENT=${{#words}}; PREFIX=${{words[CURRENT]}}
_elaunch
"""


def _run(shell: str, text: str, folder: Path) -> list[str]:
    (folder / "elaunch").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m elaunch "$@"\n')
    (folder / "elaunch").chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run([shell, "-c", text], capture_output=True, text=True, env=env, timeout=60)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.fixture(params=["bash", "zsh", "fish"])
def complete(request: pytest.FixtureRequest, tmp_path: Path) -> Complete:
    shell: str = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(getattr(completion_scripts, shell)())

    def run(words: list[str]) -> list[str]:
        if shell == "fish":
            line = shlex.quote(" ".join(words))
            found = _run(shell, f"source {script}; complete -C {line}", tmp_path)
            return [row.split("\t")[0] for row in found]
        words = [part for word in words for part in _broken(word, shell)]
        text = (_BASH if shell == "bash" else _ZSH).format(script=script, words=shlex.join(words))
        begun = words[-1].rpartition("=")[2]
        return [word for word in _run(shell, text, tmp_path) if word.startswith(begun)]

    return run


def _broken(word: str, shell: str) -> list[str]:
    """bash takes ``=`` for a word of its own."""
    name, equals, value = word.partition("=")
    return [name, "=", value] if equals and shell == "bash" else [word]


def test_commands_come_first(complete: Complete) -> None:
    assert set(COMMANDS) <= set(complete(["elaunch", ""]))


def test_options_of_the_launcher_and_of_commands(complete: Complete) -> None:
    assert {"--rdzv-backend", "--rdzv-conf", "--rdzv-endpoint", "--rdzv-id"} == set(complete(["elaunch", "--rdzv-"]))
    assert complete(["elaunch", "ckpt", "rm", "dir", "--fo"]) == ["--force"]
    assert complete(["elaunch", "slurm", "render", "--qo"]) == ["--qos"]
    assert "--nnodes" not in complete(["elaunch", "ps", "--"])
    assert "--follow" in complete(["elaunch", "events", "--"])


def test_parts_of_commands_and_words_that_they_want(complete: Complete) -> None:
    assert {"ls", "show", "verify", "rm", "export"} <= set(complete(["elaunch", "ckpt", ""]))
    assert set(complete(["elaunch", "completion", ""])) >= {"bash", "zsh", "fish"}


def test_values_that_an_option_may_have(complete: Complete) -> None:
    assert set(complete(["elaunch", "--start", ""])) == {"warm", "exec"}
    assert {word.rpartition("=")[2] for word in complete(["elaunch", "--on-failure=st"])} == {"stop"}


def test_a_script_ends_it(complete: Complete) -> None:
    assert not [word for word in complete(["elaunch", "train.py", "--rdz"]) if word.startswith("--rdzv")]


def test_jobs_of_this_host(complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from elaunch.agent.local_jobs import registered
    from elaunch.agent.options import EtcdAccess

    monkeypatch.setenv("ELAUNCH_RUNTIME_DIR", str(tmp_path / "run"))
    with registered("my-job", lambda: ("unix:/x",), EtcdAccess(), tmp_path / "run" / "jobs"):
        assert complete(["elaunch", "status", ""]) == ["my-job"]


HOSTILE = ("$(echo>{})", "`echo>{}`", "x;echo>{}", "*", "-rf", "$HOME", "a'b", 'a"b', "a\\b")


def test_jobs_whose_names_a_shell_would_run_are_not_offered(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from elaunch.agent.local_jobs import local_jobs, registered
    from elaunch.agent.options import EtcdAccess

    monkeypatch.setenv("ELAUNCH_RUNTIME_DIR", str(tmp_path / "run"))
    place = tmp_path / "run" / "jobs"
    for number, name in enumerate((*HOSTILE, "harmless")):
        with registered(name.replace("{}", str(tmp_path / "ran")), lambda: ("unix:/x",), EtcdAccess(), place):
            (place / f"{os.getpid()}.json").rename(place / f"job{number}.json")  # as that of one more agent
    assert len(local_jobs(place)) == len(HOSTILE) + 1
    assert [word for word in complete(["elaunch", "status", ""]) if word not in ("", "FILES")] == ["harmless"]
    assert not (tmp_path / "ran").exists()


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == completion_scripts.bash()
    assert main(["completion", "csh"]) == 2
