"""A bug report of what is odd: names that are no text, pipes where files should be, files that are cut short."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from elaunch.cli import bug_logs
from elaunch.cli.bug_facts import known_secrets
from elaunch.cli.bug_logs import read_folders
from elaunch.cli.bug_report import Report
from elaunch.cli.bundle import write_bundle
from elaunch.cli.redaction import HIDDEN, Redactor, secret_name


def test_a_log_whose_name_is_no_text_is_packed(tmp_path: Path) -> None:
    folder = tmp_path / "job_x"
    folder.mkdir()
    with open(os.fsencode(folder) + b"/\xff.log", "w") as file:
        file.write("said")
    report = Report("job", Redactor(()))
    for found in read_folders([folder]):
        report.add(f"logs/{found.name}", found.data)
    write_bundle(tmp_path / "out.tar.gz", "bug", report.packed())
    assert (tmp_path / "out.tar.gz").stat().st_size > 0


def test_no_part_leaves_the_folder_that_it_is_unpacked_to() -> None:
    report = Report("job", Redactor(()))
    report.add("etcd/nodes/../../../x", "a")
    assert not any(".." in name.split("/") for name in report.packed())


def test_a_pipe_in_the_place_of_a_secret_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = argparse.Namespace(token_file=str(pipe), tls_key=None, rdzv_conf="")
    assert known_secrets(words, {"HF_TOKEN_FILE": str(pipe)}, []) == set()


def test_a_log_that_is_cut_short_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 1000)
    before = os.fstat

    def then_cut(fd: int) -> os.stat_result:
        about = before(fd)
        os.truncate(path, 10)
        return about

    monkeypatch.setattr(bug_logs.os, "fstat", then_cut)
    data, why = bug_logs._read(path, 100)
    assert data.startswith(b"x" * 10)
    assert why


@pytest.mark.parametrize("name", ["DB_PASS", "USERPASS", "AWS_CREDS", "SLACK_WEBHOOK_URL", "DB_CONNECTION_STRING"])
def test_more_names_of_secrets(name: str) -> None:
    assert secret_name(name)


@pytest.mark.parametrize("name", ["COMPASS", "NUM_PASSES", "PASSENGERS", "PGPASSFILE", "PASS_COUNT", "BYPASS"])
def test_names_that_only_look_so(name: str) -> None:
    assert not secret_name(name)


@pytest.mark.parametrize(
    "text",
    [
        "postgres://me:S3@cr/et@db/x",
        "https://store/x?se=1&sig=S3cret",
        "https://store/x?X-Amz-Signature=S3cret",
        "https://hooks.slack.com/services/T0/B0/S3cret",
        "AccountName=me;AccountKey=S3cret==",
        "{'DB_PASS': 'S3cret'}",
        "environ({'MYSQL_PASS': 'S3cret'})",
    ],
)
def test_more_that_looks_like_a_secret(text: str) -> None:
    hidden = Redactor(()).text(text)
    assert HIDDEN in hidden
    assert not any(part in hidden for part in ("S3cret", "cr/et", "S3@"))


@pytest.mark.parametrize(
    "text",
    [
        "tcp://a:1,b:2 joined by root@gpu-01",
        "see http://a:80/x and mail me@host",
        "bypass=1 compass=2",
        "pass_count=3",
        "http://[::1]:8080/x",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor(()).text(text) == text
