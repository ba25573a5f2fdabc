"""Secrets do not get through, in whatever form they stand; what is none does."""

from __future__ import annotations

import argparse
import base64
import json
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from elaunch.cli.bug_facts import Local, known_secrets
from elaunch.cli.redaction import HIDDEN, Redactor, secret_name, secrets_in

SECRET = 'corr"ect/horse+9 battery'


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "ELAUNCH_ETCD_PASSWORD", "DB_PASSWD", "apikey"),
        *("GITHUB_PAT", "SSH_PRIVATE", "SESSION_COOKIE", "AZURE_SAS", "SENTRY_DSN", "MY_PASSPHRASE", "SIGNING_KEY"),
    ],
)
def test_variables_that_hold_secrets(name: str) -> None:
    assert secret_name(name)
    assert Redactor([]).environment({name: "abc"}) == {name: HIDDEN}


@pytest.mark.parametrize(
    "name", ["PATH", "PWD", "OLDPWD", "KEYBOARD", "ELAUNCH_TOKEN_FILE", "MONKEY_COUNT", "TOKENIZERS_PARALLELISM"]
)
def test_variables_that_hold_none(name: str) -> None:
    assert not secret_name(name)
    assert Redactor([]).environment({name: "/abc"}) == {name: "/abc"}


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        f"say {SECRET}!",
        json.dumps({"x": SECRET}),
        json.dumps(json.dumps({"x": SECRET})).replace('\\\\\\"', '\\"'),
        repr([SECRET]),
        f"https://h/?q={quote(SECRET, safe='')}",
        base64.b64encode(SECRET.encode()).decode(),
        f"basic {base64.urlsafe_b64encode(SECRET.encode()).decode()}",
    ],
)
def test_a_known_secret_is_found_in_every_form(shown: str) -> None:
    hidden = Redactor([SECRET]).text(shown)
    assert HIDDEN in hidden
    for part in ("horse", quote("horse+9"), base64.b64encode(SECRET.encode()).decode()[:12]):
        assert part not in hidden


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("postgres://me:hunter2@db:5432/x", "postgres://***@db:5432/x"),
        ("fetch https://hunter2@host/repo.git now", "fetch https://***@host/repo.git now"),
        ("Authorization: Bearer hunter2hunter2", None),
        ("password=hunter2, user=me", "password=***, user=me"),
        ('{"password": "hunter2 and more", "a": 1}', '{"password": "***", "a": 1}'),
        ("{'api_key': 'hunter2'}", "{'api_key': '***'}"),
        ("WANDB_API_KEY=hunter2 python x.py", "WANDB_API_KEY=*** python x.py"),
        ("x --auth-token hunter2 --y 3", "x --auth-token *** --y 3"),
        ("x --wandb-key hunter2 --y 3", "x --wandb-key *** --y 3"),
        ("x --license-key=hunter2 --y 3", "x --license-key=*** --y 3"),
        ('["x", "--token", "hunter2"]', '["x", "--token", "***"]'),
        ("key AKIAHUNTER2HUNTER2AB end", None),
        ("hf_hunter2hunter2hunter2", "***"),
        ("jwt eyJhunter2abcdef.eyJhunter2abcdef.sig", "jwt ***"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"),
        ("-----BEGIN PRIVATE KEY-----\nhunter2 is cut off", "***"),
    ],
)
def test_what_looks_like_a_secret_is_taken_for_one(text: str, kept: str | None) -> None:
    hidden = Redactor([]).text(text)
    assert "hunter2" not in hidden.lower()
    assert kept is None or hidden == kept


@pytest.mark.parametrize(
    "text",
    [
        "rank 3 (local rank 1, pid 4711 on gpu-02) was killed by SIGKILL",
        "http://[::1]:2379/health",
        "step 12 loss=0.31 tokens/s 5100",
        "the key /elaunch/run7/state",
        "elaunch --tls-key /etc/elaunch/tls.pem --tls-cert=/etc/elaunch/cert.pem",
        '{"generation": 3, "key": "plans/0000000001"}',
    ],
)
def test_the_rest_stays(text: str) -> None:
    assert Redactor(["unrelated"]).text(text) == text


def test_secrets_come_from_names_and_from_addresses() -> None:
    environ = {"A_TOKEN": "tok-1", "DATABASE_URL": "pg://u:p%40ss@h/db", "HOME": "/root", "FLAG_KEY": "true"}
    assert {"tok-1", "p@ss", "p%40ss"} <= secrets_in(environ)
    assert Redactor(secrets_in(environ)).text("true /root tok-1 p@ss") == "true /root *** ***"
    assert Redactor(secrets_in({"MAX_TOKENS": "4096"})).text("4096 MiB") == "4096 MiB"


def test_bytes_that_are_no_text_go_through_but_for_the_secret() -> None:
    assert Redactor([SECRET]).data(b"\xff\x00" + SECRET.encode() + b"\xfe") == b"\xff\x00***\xfe"


@pytest.mark.parametrize("piece", ["a.b-", "token", "x" * 9, "https://", "password='", "eyJ", "--a-"])
def test_no_text_takes_long(piece: str) -> None:
    def taken() -> float:
        began = time.process_time()
        Redactor([SECRET]).text(piece * (100_000 // len(piece)))
        return time.process_time() - began

    # The slowest takes half a second, and what grows with the square of its length far longer than five.
    assert min(taken() for _ in range(2)) < 5


def test_files_that_an_agent_names_are_found_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("operator hunter2hunter2\n")
    arguments = argparse.Namespace(token_file=None, tls_key=None, rdzv_conf="")
    agent = Local(1, (), (), str(tmp_path), {"PET_TOKEN_FILE": "tokens"})
    assert "hunter2hunter2" in known_secrets(arguments, {}, [agent])
