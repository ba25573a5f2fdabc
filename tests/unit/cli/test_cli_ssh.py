"""``elaunch ssh`` from its command line to what each host is told."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from elaunch.cli.ssh import run
from elaunch.errors import UsageError


def _orders(capsys: pytest.CaptureFixture[str], *words: str, **environ: str) -> list[list[str]]:
    assert run([*words[:-1], "--ssh-dry-run", *words[-1:]], environ) == 0
    return [shlex.split(line) for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]


def test_hosts_meet_at_the_first_three(capsys: pytest.CaptureFixture[str]) -> None:
    orders = _orders(capsys, "--hosts=n[1-5]", "--spares", "1", "--rdzv-id=x", "train.py")
    assert len(orders) == 5
    first = orders[0]
    assert first[:4] == ["elaunch", "--nnodes=4", "--rdzv-backend=c10d", first[3]]
    (where,) = [word for word in first if word.startswith("--rdzv-endpoint=")]
    assert [part.partition(":")[0] for part in where.partition("=")[2].split(",")] == ["n1", "n2", "n3"]
    assert first[4:] == ["--spares", "1", "--rdzv-id=x", "--", "train.py"]
    assert all(order == first for order in orders)


def test_what_is_given_wins(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a slots=8\nb slots=8\n")
    orders = _orders(capsys, f"--hosts={file}", "--nproc-per-node=2", "--nnodes=1:2", "--rdzv-endpoint=e", "train.py")
    assert [word for word in orders[0] if word.startswith(("--nproc", "--nnodes", "--rdzv-e"))] == [
        "--nproc-per-node=2", "--nnodes=1:2", "--rdzv-endpoint=e"
    ]  # fmt: skip
    assert "--nproc-per-node=8" in _orders(capsys, f"--hosts={file}", "train.py")[0]
    assert "--nnodes=2" not in _orders(capsys, f"--hosts={file}", "train.py", PET_NNODES="1:2")[0]


def test_one_host_needs_no_meeting(capsys: pytest.CaptureFixture[str]) -> None:
    (order,) = _orders(capsys, "--hosts=a", "--rdzv-id=x", "train.py")
    assert order == ["elaunch", "--nnodes=1", "--rdzv-id=x", "--", "train.py"]


def test_the_static_backend_gets_its_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    orders = _orders(capsys, "--hosts=a,b", "--rdzv-backend=static", "train.py")
    assert not [word for word in orders[0] if word.startswith("--node-rank")]
    assert "--node-rank=1" in orders[1]
    assert {len([w for w in order if w.startswith("--rdzv-endpoint=a:")]) for order in orders} == {1}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["train.py"], "--hosts=FILE|HOST,... says on which hosts"),
        (["--hosts=a"], "no script given"),
        (["--hosts=/no/such", "t.py"], "--hosts=/no/such: No such file"),
        (["--hosts=hosts.txt", "t.py"], "--hosts=hosts.txt: No such file"),
        (["--hosts=a,a", "t.py"], "host a is there twice"),
        (["--hosts=a", "--nnodes=2", "t.py"], "--nnodes=2: --hosts has 1 of them"),
        (["--hosts=a,b", "--spares=2", "t.py"], "--spares=2: expected fewer than 2"),
        (["--hosts=a", "--ssh-silence=1", "t.py"], "--ssh-silence=1: expected 5 to"),
        (["--hosts=a", "--ssh-timeout=x", "t.py"], "ssh: --ssh-timeout: invalid int value"),
        (["--hosts=a", "--no-such", "t.py"], "unrecognized arguments: --no-such"),
    ],
)
def test_bad_input_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(UsageError) as error:
        run(words, {})
    assert why in str(error.value)


def test_slots_that_differ_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a slots=8\nb slots=4\n")
    with pytest.raises(UsageError, match="a 8, b 4"):
        run([f"--hosts={file}", "train.py"], {})


def test_a_file_of_another_systems_editor_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It begins with a mark, and its lines end with two characters."""
    file = tmp_path / "hosts"
    file.write_bytes(b"\xef\xbb\xbfa slots=2\r\nb slots=2\r\n")
    assert len(_orders(capsys, f"--hosts={file}", "train.py")) == 2
