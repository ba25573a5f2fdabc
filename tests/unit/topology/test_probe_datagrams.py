"""The datagrams of a probe: nobody without its secret is answered, and no answer is longer than its question."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.controller.commands import Probe
from elaunch.controller.probe_messages import pack_interface, pack_probe, unpack_interface, unpack_probe
from elaunch.topology.probe.datagram import LEAST, answer, mark_of, probe_of, question, read_answer
from elaunch.topology.probe.echo import Responder
from elaunch.topology.probe.facts import Interface, Target
from elaunch.topology.probe.netlink import Link
from elaunch.topology.probe.prober import _Prober


def has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


SECRET, NONCE = b"of the job", b"12345678"


@given(st.integers(0, 9000), st.text(st.characters(codec="utf-8"), max_size=20))
def test_an_answer_says_where_the_question_came_in_and_is_no_longer(size: int, name: str) -> None:
    asked = question("probe", SECRET, NONCE, size)
    assert len(asked) == max(size, LEAST)
    assert probe_of(asked) == mark_of("probe")
    reply = answer(asked, SECRET, name)
    assert reply is not None
    assert len(reply) <= len(asked)
    told = read_answer(reply, "probe", SECRET)
    assert told is not None
    assert (told.nonce, told.size) == (NONCE, len(asked))
    assert name.encode()[:15].decode(errors="replace") == told.arrived


@given(st.integers(0, LEAST - 1), st.integers(1, 255))
def test_a_byte_that_was_changed_is_refused(place: int, change: int) -> None:
    asked = bytearray(question("probe", SECRET, NONCE))
    reply = answer(bytes(asked), SECRET, "nic0")
    assert reply is not None
    asked[place] ^= change
    assert answer(bytes(asked), SECRET, "nic0") is None
    forged = bytearray(reply)
    forged[place] ^= change
    assert read_answer(bytes(forged), "probe", SECRET) is None


@pytest.mark.parametrize("secret", [b"", b"another"])
def test_another_secret_is_refused(secret: bytes) -> None:
    asked = question("probe", SECRET, NONCE)
    assert answer(asked, secret, "nic0") is None
    reply = answer(asked, SECRET, "nic0")
    assert reply is not None
    assert read_answer(reply, "probe", secret) is None
    assert read_answer(reply, "another probe", SECRET) is None
    assert read_answer(asked, "probe", SECRET) is None


@given(st.binary(max_size=200))
def test_whatever_comes_is_no_question(data: bytes) -> None:
    assert answer(data, SECRET, "nic0") is None
    assert read_answer(data, "probe", SECRET) is None


def test_a_flood_at_the_asking_end_holds_nothing_else_up() -> None:
    """It reads some, and lets the loop go on: an agent has other things to do."""

    class Flood:
        reads = 0

        def recv(self, _: int) -> bytes:
            self.reads += 1
            assert self.reads < 1000, "it never ends"
            return b"x" * LEAST

    async def read() -> None:
        _Prober("probe", SECRET, ())._readable(cast(socket.socket, Flood()))

    asyncio.run(read())


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none_is_refused_where_it_comes_in(port: int) -> None:
    """Where it is used it would end the whole probe of the node that asks."""
    with pytest.raises(ValueError, match="is no port"):
        unpack_interface(pack_interface(Interface("eth0", ("10.0.0.1/24",), port=port)))
    with pytest.raises(ValueError, match="is no port"):
        unpack_probe(pack_probe(Probe("p", SECRET, 1.0, (Target("eth0", "n", "eth0", "10.0.0.1", port, 1500),))))


@pytest.mark.skipif(not has_ipv6_loopback(), reason="there is no IPv6 here")
def test_an_interface_without_ipv4_is_answered_at_where_the_kernel_binds_to_no_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elaunch.topology.probe.echo.bind_to_device", lambda *_: False)
    link = Link(1, "lo", 65536, up=True, carrier=True, loopback=True, kind="", master="", addresses=("::1/128",))

    async def ports() -> dict[str, int]:
        responder = Responder((link,))
        responder.close()
        return responder.ports

    assert asyncio.run(ports())["lo"] > 0
