"""``--tls-*`` and ``--token-file`` at the door: what cannot work is refused in one line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from elaunch.cli.options import parse
from elaunch.controller.access import Role, Security
from elaunch.errors import UsageError
from tests.etcd.servers import make_certificates


def security(script: Path, *options: str, **environ: str) -> Security:
    return parse([*options, str(script)], environ).security


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.touch()
    return path


def self_signed(directory: Path, name: str = "elaunch") -> tuple[str, str]:
    """As docs/security.md tells to make it."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=elaunch"
    more = ["-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *words.split(), *more], check=True, capture_output=True)
    return str(cert), str(key)


def test_an_authority_means_certificates_on_both_sides(script: Path, tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "a", "elaunch")
    options = [f"--tls-cert={made.cert}", f"--tls-key={made.key}", f"--tls-ca={made.ca}"]
    tls = security(script, *options).tls
    assert tls is not None
    assert tls.paths == (str(made.cert), str(made.key), str(made.ca))
    variables = {"ELAUNCH_TLS_CERT": str(made.cert), "PET_TLS_KEY": str(made.key), "ELAUNCH_TLS_CA": str(made.ca)}
    assert security(script, **variables).tls == tls


def test_a_certificate_may_be_its_own_authority(script: Path, tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    tls = security(script, "--tls-cert", cert, "--tls-key", key).tls
    assert tls is not None
    assert tls.ca is None


def test_nothing_is_asked_for_by_default(script: Path) -> None:
    assert security(script) == Security()
    assert security(script, ELAUNCH_TLS_CERT="", ELAUNCH_TOKEN_FILE="") == Security()


@pytest.mark.parametrize(
    ("cert", "key", "ca", "expected"),
    [
        ("a/cert.pem", "b/key.pem", "a/ca.pem", "do not belong together"),
        ("a/cert.pem", "a/key.pem", "b/ca.pem", "is not trusted by .*b/ca.pem"),
        ("a/cert.pem", "a/key.pem", "", "--tls-ca"),
        ("wrong/cert.pem", "wrong/key.pem", "wrong/ca.pem", "does not name the host elaunch"),
        ("old/cert.pem", "old/key.pem", "old/ca.pem", "expired"),
        ("none", "a/key.pem", "a/ca.pem", "none: no such file"),
        ("a/cert.pem", "a/key.pem", "train.py", "train.py: expected certificates in PEM form"),
        ("train.py", "a/key.pem", "a/ca.pem", "expected PEM files"),
        ("a/cert.pem", "encrypted.pem", "a/ca.pem", "key is encrypted"),
        ("a/cert.pem", "", "", "--tls-cert=.*both needed"),
        ("", "", "a/ca.pem", "--tls-ca=.*both needed"),
    ],
)
def test_what_cannot_work_is_refused(script: Path, tmp_path: Path, cert: str, key: str, ca: str, expected: str) -> None:
    for name in ("a", "b"):
        make_certificates(tmp_path / name, "elaunch")
    make_certificates(tmp_path / "wrong", "localhost")
    make_certificates(tmp_path / "old", "elaunch", days=0)
    words = f"pkcs8 -topk8 -passout pass:1234 -in {tmp_path}/a/key.pem -out {tmp_path}/encrypted.pem"
    subprocess.run(["openssl", *words.split()], check=True)
    given = {"--tls-cert": cert, "--tls-key": key, "--tls-ca": ca}
    options = [f"{option}={tmp_path / name}" for option, name in given.items() if name]
    with pytest.raises(UsageError, match=expected) as error:
        security(script, *options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "option",
    [
        "--rdzv-conf=user=u,password=hunter2",
        "--rdzv-conf=password = hunter2,bad",
        "--rdzv-conf=user=u, password=hun,hunter2",
        "--rdzv-endpoint=root:hunter2@etcd:2379",
        "--rdzv-endpoint=http://root:hunter2@etcd",
    ],
)
def test_a_password_on_the_command_line_is_refused_and_not_shown(script: Path, option: str) -> None:
    with pytest.raises(UsageError, match="password_file=PATH") as error:
        security(script, "--nnodes=2", "--rdzv-backend=etcd", option)
    assert "hunter2" not in str(error.value)


def test_tokens_come_from_a_file_that_others_cannot_read(script: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("agent " + "a" * 20)
    path.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        security(script, f"--token-file={path}")
    path.chmod(0o600)
    for found in (security(script, f"--token-file={path}"), security(script, ELAUNCH_TOKEN_FILE=str(path))):
        assert found.tokens is not None
        assert found.tokens.of(Role.AGENT) == "a" * 20
        assert "a" * 20 not in repr(found)


def test_tokens_beside_an_open_etcd_are_warned_of(script: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("agent " + "a" * 20)
    path.chmod(0o600)
    made = make_certificates(tmp_path / "a", "elaunch")
    tls = (f"--tls-cert={made.cert}", f"--tls-key={made.key}", f"--tls-ca={made.ca}")

    def warned(*options: str) -> bool:
        common = (f"--token-file={path}", "--rdzv-id=x", *options)
        return any("embedded etcd" in text for text in parse([*common, str(script)], {}).warnings)

    two = ("--nnodes=2", "--rdzv-endpoint=h:1")
    assert warned(*two, "--rdzv-backend=c10d")
    assert not warned(*two, "--rdzv-backend=c10d", *tls)
    assert not warned(*two, "--rdzv-backend=etcd")
    assert not warned("--standalone")
