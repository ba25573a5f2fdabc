"""``elaunch doctor`` on this machine, and what it prints of what a test says is wrong."""

from __future__ import annotations

import json

import pytest

from elaunch.cli.doctor import run
from elaunch.cli.main import main
from elaunch.doctor import gathering
from elaunch.doctor.facts import Host
from tests.unit.doctor.host import GOOD, but


def test_it_runs_here_and_its_findings_have_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["--json"], {})
    document = json.loads(capsys.readouterr().out)
    assert document["host"]
    worst = {finding["severity"] for finding in document["findings"]}
    assert code == int("error" in worst)
    assert all(finding["text"] and finding["code"] for finding in document["findings"])


@pytest.mark.parametrize(("host", "code"), [(GOOD, 0), (but(cpus=2), 0), (but(shm=None), 1)])
def test_the_exit_code_is_1_for_an_error_only(
    host: Host, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gathering, "gather", lambda _: host)
    assert main(["doctor"]) == code
    out = capsys.readouterr().out
    assert out.startswith("host gpu-01\n")
    assert ("nothing is wrong" in out) == (host is GOOD)


def test_what_to_do_stands_below_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gathering, "gather", lambda _: but(shm=1 << 20, name="x\033[2J"))
    run([], {})
    _, finding, advice, *_ = capsys.readouterr().out.splitlines()
    assert finding.startswith("warning  small_shm              /dev/shm has 1 MiB")
    assert advice.strip().startswith("-> docker run --shm-size")


def test_a_wrong_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--jobs=x"]) == 2
    assert "elaunch doctor" in capsys.readouterr().err
