"""The IP addresses of this host, and the kernel's answers about them."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys

import pytest

from elaunch.topology.host.addresses import parse, read_addresses
from elaunch.topology.host.discovery import discover


def attribute(kind: int, value: bytes) -> bytes:
    body = struct.pack("=HH", 4 + len(value), kind) + value
    return body + bytes(-len(body) % 4)


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body


def told(number: int, *attributes: bytes) -> bytes:
    return message(20, struct.pack("=BBBBi", 2, 24, 0, 0, number) + b"".join(attributes))


NEAR, FAR = socket.inet_aton("10.0.0.1"), socket.inet_aton("10.0.0.2")
V6 = socket.inet_pton(socket.AF_INET6, "fd00::2")


def test_the_own_address_of_a_line_of_two_is_the_near_one() -> None:
    data = told(3, attribute(1, FAR), attribute(2, NEAR), attribute(3, b"tun0\0")) + told(4, attribute(1, V6))
    assert parse(data) == ([(3, "10.0.0.1"), (4, "fd00::2")], False)


def test_the_last_message_ends_the_answer() -> None:
    assert parse(told(3, attribute(1, NEAR)) + message(3, bytes(4)) + told(4, attribute(1, FAR))) == (
        [(3, "10.0.0.1")],
        True,
    )
    assert parse(message(2, bytes(4))) == ([], True)


def test_messages_of_other_kinds_and_damage_tell_nothing() -> None:
    assert parse(message(16, bytes(16)) + told(3, attribute(1, b"\1\2\3"))) == ([], False)
    assert parse(told(3) + b"\0" * 3) == ([], False)
    assert parse(told(3, b"\0\0\1\0")) == ([], False)
    assert parse(bytes(64)) == ([], True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the routing socket")
def test_this_host_has_the_addresses_that_its_kernel_says() -> None:
    found = read_addresses()
    assert found is not None
    assert "127.0.0.1" in found["lo"]
    for addresses in found.values():
        versions = [ipaddress.ip_address(address).version for address in addresses]
        assert versions == sorted(versions)
    loopback = next(port for port in discover().ports if port.nic == "lo")
    assert loopback.addresses == found["lo"]
    assert loopback.software
