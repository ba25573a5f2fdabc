"""What an operator may write to say where etcd is and who he is."""

from __future__ import annotations

from pathlib import Path

import pytest

from elaunch.errors import UsageError
from elaunch.rendezvous.endpoints import Credentials, parse_endpoints


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("host:2379", "dns:///host:2379"),
        (" 10.0.0.1:2379 ", "ipv4:10.0.0.1:2379"),
        ("[::1]:2379", "ipv6:[::1]:2379"),
        ("unix:/run/etcd.sock", "unix:/run/etcd.sock"),
    ],
)
def test_endpoints_are_taken(text: str, target: str) -> None:
    assert [endpoint.target for endpoint in parse_endpoints([text])] == [target]


@pytest.mark.parametrize("text", ["", "host", "host:", ":2379", "host:0", "host:65536", "::1:2379", "[]:1", "h:x"])
def test_other_texts_are_refused_and_shown(text: str) -> None:
    with pytest.raises(UsageError, match="is no etcd endpoint") as caught:
        parse_endpoints(["host:2379", text])
    assert repr(text) in str(caught.value)


def test_no_endpoint_is_refused() -> None:
    with pytest.raises(UsageError, match="no etcd endpoint given"):
        parse_endpoints([])


def test_credentials_hide_the_password_and_know_whether_they_want_tls() -> None:
    assert "secret" not in repr(Credentials(user="me", password="secret"))
    assert not Credentials().tls
    assert Credentials(https=True).tls
    assert Credentials(ca=Path("/ca")).tls


def test_bad_credentials_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"cannot read {tmp_path}/none"):
        Credentials(ca=tmp_path / "none").channel_credentials()
    with pytest.raises(UsageError, match="both its certificate and its key"):
        Credentials(cert=tmp_path / "cert").channel_credentials()
