"""`elaunch qualify` before it starts anything: what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from elaunch.cli import qualify
from elaunch.errors import UsageError


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--local=0"], "--local=0: expected 1 to 1024 ranks"),
        (["--nproc-per-node=2"], "--nproc-per-node goes with --hosts"),
        (["--ssh-option=Port=22"], "--ssh-option and --ssh-python go with --hosts"),
        (["--hosts=a", "--nproc-per-node=0"], "--nproc-per-node=0: expected 1 to 1024 ranks"),
        (["--hosts="], "--hosts=: "),
        (["--hosts=,"], "--hosts=,: "),
        (["--hosts=/nowhere/hosts"], "--hosts=/nowhere/hosts: No such file or directory"),
        (["--shared=/nowhere"], "--shared=/nowhere: not a directory"),
        (["--only=nothing"], "no cell of --quick matches --only=nothing"),
        (["--spoil=nothing"], "--spoil=nothing: no such cell is to be run"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words: Sequence[str], text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        qualify.run([*words, f"--output={tmp_path / 'out'}"], {})
    assert str(caught.value).startswith(f"qualify: {text}")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_hosts_of_different_slots_take_a_number(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("a slots=4\nb slots=8\n")
    with pytest.raises(UsageError, match="hosts have 4, 8 slots; say --nproc-per-node N"):
        qualify.run([f"--hosts={hosts}", f"--output={tmp_path / 'out'}"], {})
