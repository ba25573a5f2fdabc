"""A bug report of a real job, with secrets planted wherever one may stand: none of them gets into the archive."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import ROOT, Job, wait_until

pytestmark = pytest.mark.slow

_PROGRAM = """
import base64, json, os, pathlib, sys, time
token, out = os.environ["HF_TOKEN"], pathlib.Path(os.environ["OUT"])
print("plain", token, flush=True)
print(json.dumps({"inner": os.environ["ODD_SECRET"]}), flush=True)
print("encoded", base64.b64encode(token.encode()).decode(), flush=True)
print("address", os.environ["DATABASE_URL"], flush=True)
print("unknown password=planted-unknown-1 and Authorization: Bearer planted-unknown-2x", flush=True)
print("file", pathlib.Path(os.environ["JOB_TOKEN_FILE"]).read_text(), file=sys.stderr, flush=True)
print("useful line of the log", flush=True)
(out / f"rank{os.environ['RANK']}").touch()
while not (out / "stop").exists():
    time.sleep(0.05)
raise ValueError(f"cannot log in with {token}")
"""


class Planted:
    """A job with secrets in its environment, its files and its logs."""

    def __init__(self, make: MakeJob, tmp_path: Path, etcd: str) -> None:
        words = [uuid.uuid4().hex for _ in range(6)]
        token, odd, password, access, agent_token, operator_token = words
        self.odd = f'{odd[:8]}"quo\\te {odd[8:]}'
        self.secrets = [token, odd[:8], odd[8:], password, access, agent_token, operator_token, "planted-unknown"]
        self.folder = tmp_path / "here"
        self.folder.mkdir()
        tokens = tmp_path / "tokens"
        tokens.write_text(f"agent {agent_token}\noperator {operator_token}\n")
        tokens.chmod(0o600)
        script = tmp_path / "train.py"
        script.write_text(_PROGRAM)
        self.logs = tmp_path / "logs"
        self.job_id = f"bug-{token[:6]}"
        self.job: Job = make(
            "--nproc-per-node=2",
            "--start=exec",
            "--tee=3",
            f"--log-dir={self.logs}",
            f"--rdzv-id={self.job_id}",
            f"--token-file={tokens}",
            "--rdzv-backend=etcd",
            f"--rdzv-endpoint={etcd}",
            program=(str(script), "--api-key", access),
        )
        self.job.env.update(
            HF_TOKEN=token,
            ODD_SECRET=self.odd,
            DATABASE_URL=f"postgres://me:{password}@db/x",
            JOB_TOKEN_FILE=str(tokens),
            ELAUNCH_TOKEN_FILE=str(tokens),
            ELAUNCH_RUNTIME_DIR=str(tmp_path / "runtime"),
        )

    def report(self, *options: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "elaunch", "bug-report", self.job_id, *options]
        full = {**os.environ, **self.job.env, "PYTHONPATH": str(ROOT), **(env or {})}
        return subprocess.run(argv, capture_output=True, text=True, env=full, cwd=self.folder, timeout=100)


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        assert all(member.isfile() and member.mtime == 0 and member.uid == 0 for member in archive)
        names = archive.getnames()
        assert names == sorted(names)
        files = {member.name: archive.extractfile(member) for member in archive}
        return {name.partition("/")[2]: file.read() for name, file in files.items() if file is not None}


def nowhere(secrets: Sequence[str], path: Path) -> None:
    raw = gzip.decompress(path.read_bytes())
    for secret in secrets:
        assert secret.encode() not in raw, secret
        for cut in range(3):  # base64 of it, wherever it begins in what was encoded
            encoded = base64.b64encode(b"x" * cut + secret.encode())[4:-4]
            assert len(encoded) < 8 or encoded not in raw, secret


@pytest.fixture
def planted(job: MakeJob, tmp_path: Path, etcd: str) -> Planted:
    return Planted(job, tmp_path, etcd)


def test_of_a_job_that_runs_and_when_it_is_over(planted: Planted, tmp_path: Path) -> None:
    agent = planted.job.agent()
    out = planted.job.out
    wait_until("ranks", lambda: all((out / f"rank{n}").exists() for n in range(2)))
    (folder,) = planted.logs.iterdir()
    outside = tmp_path / "outside"
    outside.write_text("what a link leads to")
    (folder / "link").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(folder / "pipe")
    (folder / "large.log").write_bytes(b"a" * (3 << 20) + b"the end")

    done = planted.report("--etcd", planted.job.options[-1].partition("=")[2])
    assert done.returncode == 0, done.stderr
    path = planted.folder / f"elaunch-bug-{planted.job_id}.tar.gz"
    assert path.stat().st_mode & 0o777 == 0o600
    found = contents(path)
    nowhere(planted.secrets, path)
    assert {"versions.txt", "environment.json", "agents.json", "topology.json", "doctor.json"} <= set(found)
    assert {"status.json", "status.txt", "events.txt", "etcd/state", "etcd/spec", "CONTENTS.txt"} <= set(found)
    assert any(name.startswith("etcd/plans/") for name in found)
    assert b"running" in found["status.txt"]
    stdout = next(data for name, data in found.items() if name.endswith("0/stdout.log"))
    assert b"useful line of the log" in stdout
    assert b"plain ***" in stdout
    assert json.loads(found["environment.json"])["HF_TOKEN"] == "***"
    assert "postgres://***@db/x" in json.loads(found["environment.json"])["DATABASE_URL"]
    assert b"what a link leads to" not in b"".join(found.values())
    (large,) = (data for name, data in found.items() if name.endswith("large.log"))
    assert len(large) < (1 << 20) + 100
    assert large.endswith(b"the end")
    listing = found["CONTENTS.txt"].decode()
    for name, why in {"link": "a link", "pipe": "no regular file", "large.log": "bytes left out"}.items():
        assert any(name in line and why in line for line in listing.splitlines()), listing

    planted.job.finish()
    assert agent.wait(60) == 1
    for name in ("link", "linked", "pipe"):
        (folder / name).unlink()
    endpoint = planted.job.options[-1].partition("=")[2]
    over = [
        planted.report(f"--etcd={endpoint}", f"--log-dir={planted.logs}", f"--output=over{n}.tar.gz") for n in (1, 2)
    ]
    assert [one.returncode for one in over] == [0, 0], over[0].stderr
    found = contents(planted.folder / "over1.tar.gz")
    nowhere(planted.secrets, planted.folder / "over1.tar.gz")
    assert b"failed" in found["status.txt"]
    assert any(name.endswith(("0/error.json", "0/stderr.log")) for name in found)
    assert sorted(found) == sorted(contents(planted.folder / "over2.tar.gz"))


def test_without_an_etcd_there_is_still_a_report_that_says_so(planted: Planted) -> None:
    done = planted.report("--json", env={"ELAUNCH_ENDPOINT": "127.0.0.1:9"})
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "127.0.0.1:9" in told["missing"]["status"]
    assert "--log-dir" in told["missing"]["logs"]
    assert "versions.txt" in told["parts"]
    nowhere(planted.secrets, planted.folder / told["file"])


def test_where_it_cannot_be_written(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    done = planted.report("--output=/no/such/folder/x.tar.gz", env={"ELAUNCH_ENDPOINT": "127.0.0.1:9"})
    assert done.returncode == 74
    assert "cannot write /no/such/folder/x.tar.gz" in done.stderr


def test_a_link_in_the_place_of_the_report_is_replaced_and_not_followed(planted: Planted, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    (planted.folder / "x.tar.gz").symlink_to(kept)
    assert planted.report("--output=x.tar.gz", env={"ELAUNCH_ENDPOINT": "127.0.0.1:9"}).returncode == 0
    assert kept.read_text() == "mine"
    assert "versions.txt" in contents(planted.folder / "x.tar.gz")


@pytest.mark.parametrize("named", [True, False], ids=["of an etcd", "of this host"])
def test_of_a_job_that_nobody_knows_there_is_what_the_host_tells_and_the_code_of_status(
    planted: Planted, etcd: str, named: bool
) -> None:
    """It says so in one line; a mistyped name is otherwise found out by whoever gets the report."""
    options = [f"--etcd={etcd}"] if named else []
    done = planted.report(*options, "--json")
    (line,) = done.stderr.splitlines()
    assert f"nothing is known of a job '{planted.job_id}'" in line
    assert "versions.txt" in contents(planted.folder / json.loads(done.stdout)["file"])
    argv = [sys.executable, "-m", "elaunch", "status", planted.job_id, *options]
    env = {**os.environ, **planted.job.env, "PYTHONPATH": str(ROOT)}
    status = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=planted.folder, timeout=100)
    assert done.returncode == status.returncode == 66
