"""Which addresses count as this machine's."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from elaunch.rendezvous.addresses import foreign


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost"])
def test_an_address_of_this_machine_is_not_foreign(host: str) -> None:
    assert foreign(host) == ""


def test_a_name_is_foreign_only_with_all_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*hosts: str) -> None:
        kind = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
        entries: list[Any] = [(*kind, (host, 0)) for host in hosts]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: entries)

    found("192.0.2.1", "127.0.0.1")
    assert foreign("node") == ""
    found("192.0.2.1")
    assert foreign("node") == "192.0.2.1 is no address of this host"
