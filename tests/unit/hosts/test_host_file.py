"""Lists of hosts, from a file and from the command line."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.hosts.host_file import Host, parse_file, parse_list

_FILE = """
# the first rack
gpu[01-02].site  slots=8      # two
me@login:2222 slots=8 addr=10.0.0.7

[fe80::1]:22 slots=8
root@[2001:db8::1] slots=8
localhost slots=8
"""


def test_a_file_is_read() -> None:
    hosts = parse_file(_FILE)
    assert [(host.target, host.port, host.address) for host in hosts] == [
        ("gpu01.site", None, ""),
        ("gpu02.site", None, ""),
        ("me@login", 2222, "10.0.0.7"),
        ("fe80::1", 22, ""),
        ("root@2001:db8::1", None, ""),
        ("localhost", None, ""),
    ]
    assert {host.slots for host in hosts} == {8}
    assert [host.here for host in hosts] == [False] * 5 + [True]


def test_a_list_is_read() -> None:
    hosts = parse_list("a,me@n[1-2]:22,[::1]")
    assert [(host.target, host.port) for host in hosts] == [("a", None), ("me@n1", 22), ("me@n2", 22), ("::1", None)]


def test_labels_tell_ports_of_one_host_apart() -> None:
    assert [host.label for host in parse_list("a:1,a:2,b:3")] == ["a:1", "a:2", "b"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no host"),
        ("# nothing\n", "no host"),
        ("-oProxyCommand=x", "line 1: '-oProxyCommand=x'"),
        ("a\nb -x", "line 2: '-x'"),
        ("a slots=0", "slots=0: expected a number from 1"),
        ("a slots=99999999999999999999", "slots"),
        ("a slots=1 slots=2", "'slots=2'"),
        ("a max_slots=2", "'max_slots=2': expected [user@]host[:port] [slots=N] [addr=ADDRESS]"),
        ("a:0", "'0' is no port"),
        ("a:70000", "'70000' is no port"),
        ("a:", "'a:'"),
        ("@a", "'@a'"),
        ("-l@a", "'-l' is no user's name"),
        ("::1", "an IPv6 address stands in brackets"),
        ("[::1::2]", "is no IPv6 address"),
        ("a[1-2] addr=10.0.0.1", "addr=10.0.0.1: is one host's, and this line has 2"),
        ("a addr=-x", "addr=-x"),
        ("a\nb\na", "host a is there twice"),
        ("gpu1\nGPU1", "host GPU1 is there twice"),
        ("a[3-1]", "counts down"),
        ("a[1-99999999]", "65536"),
        ("a;b", "'a;b'"),
        ("a$(b)", "'a$(b)'"),
    ],
)
def test_what_is_wrong_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".+") as error:
        parse_file(text)
    assert why in str(error.value)


@given(st.text(max_size=60))
def test_whatever_stands_there_no_option_of_ssh_comes_of_it(text: str) -> None:
    hosts: tuple[Host, ...] = ()
    with contextlib.suppress(ValueError):
        hosts = parse_file(text)
    assert all(not host.target.startswith("-") and host.label for host in hosts)
