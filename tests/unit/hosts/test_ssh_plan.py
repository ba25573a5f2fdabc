"""How hosts are asked, where they meet, and what is said between the two ends."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.hosts.ending import Ended, exit_code, last_code, too_few
from elaunch.hosts.host_file import parse_list
from elaunch.hosts.plan import Ways, absolute_path, candidates, command_of, endpoints, meeting_port, passed_on
from elaunch.hosts.words import Hello, Order, end_line, hello_line, order_line, read_end, read_hello, read_order
from elaunch.schedulers.slurm import FIRST_PORT, PORTS

NONCE = "ab12"


def _hello(address: str, peer: str = "", free: tuple[int, ...] = (1, 2, 3)) -> Hello:
    return Hello("h", "1", address, peer, free)


def test_the_command_holds_no_word_of_the_job() -> None:
    (host,) = parse_list("me@gpu:2222")
    ways = Ways("/opt/my python", "/a b", ("BatchMode=no",), timeout=7)
    words = command_of(host, ways, NONCE, (5, 6), "/log")
    assert words[0] == "ssh"
    assert words[words.index("-E") + 1] == "/log"
    assert words[-3:-1] == ["--", "me@gpu"]
    assert shlex.split(words[-1])[1:] == [
        "env", "PYTHONPATH=/a b", "/opt/my python", "-m", "elaunch.agent.far_end", NONCE, "5", "6"
    ]  # fmt: skip
    assert words.index("BatchMode=no") < words.index("BatchMode=yes")  # ssh takes the first
    assert "ConnectTimeout=7" in words
    assert words[words.index("-p") + 1] == "2222"


def test_this_machine_needs_no_ssh() -> None:
    (host,) = parse_list("localhost")
    assert command_of(host, Ways("py"), NONCE, (), "/log") == ["py", "-m", "elaunch.agent.far_end", NONCE]


def test_ports_are_the_jobs_own() -> None:
    ports = candidates("one")
    assert len(set(ports)) == len(ports)
    assert ports == candidates("one") != candidates("two")
    assert all(FIRST_PORT <= port < FIRST_PORT + PORTS for port in ports)


def test_hosts_meet_where_the_first_three_have_a_port_free() -> None:
    hellos = [_hello("a", free=(2, 3)), _hello("b", free=(1, 3)), _hello("c"), _hello("d", free=())]
    assert meeting_port((1, 2, 3), hellos) == 3
    assert meeting_port((1, 2), hellos) is None


def test_hosts_meet_at_addresses_at_which_they_were_reached() -> None:
    hosts = parse_list("localhost,[fe80::2],me@c,d")
    hellos = [_hello(""), _hello("fe80::2", "10.0.0.9"), _hello("10.0.0.3", "10.0.0.9"), _hello("10.0.0.4")]
    assert endpoints(hosts, hellos, 5) == ("10.0.0.9:5", "[fe80::2]:5", "10.0.0.3:5")
    assert endpoints(hosts[:1], hellos[:1], 5) == ("127.0.0.1:5",)


def test_variables_that_go_along() -> None:
    environ = {
        "ELAUNCH_LOG_LEVEL": "1",
        "ELAUNCH_JOB": "x",
        "PET_Y": "2",
        "NCCL_A": "3",
        "NCCL_B": "4",
        "HOME": "/root",
        "AWS": "no",
    }
    assert passed_on(environ, ["NCCL_*", "GONE", "NEW=a=b,c"]) == {
        "ELAUNCH_LOG_LEVEL": "1", "PET_Y": "2", "NCCL_A": "3", "NCCL_B": "4", "NEW": "a=b,c"
    }  # fmt: skip
    assert absolute_path(".:/b::c/..", "/w") == "/w:/b:/w"


@given(st.lists(st.text(st.characters(exclude_characters="\0"))), st.dictionaries(st.text(), st.text()))
def test_orders_arrive_as_they_were_given(arguments: list[str], environment: dict[str, str]) -> None:
    order = Order(tuple(arguments), environment, "/d", 60.0, 40.0)
    line = order_line(order)
    assert line.count(b"\n") == 1
    assert read_order(line) == order


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b"null", b'{"arguments": 1}', b"\xff"])
def test_what_is_no_order_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_order(line)


@given(st.binary(max_size=80))
def test_no_line_of_a_program_is_taken_for_ours(line: bytes) -> None:
    assert read_end(NONCE, line) is None
    assert read_hello(NONCE, line) is None


def test_the_last_word_is_found_behind_an_unfinished_line() -> None:
    assert read_end(NONCE, b"half" + end_line(NONCE, 7).rstrip()) == (b"half", 7)
    hello = _hello("a")
    assert read_hello(NONCE, b"motd" + hello_line(NONCE, hello)) == hello


def test_the_jobs_code_is_that_of_who_stayed() -> None:
    lost = Ended("a", lost="gone")
    assert exit_code([Ended("a", 143), lost, Ended("b", 0)]) == 0
    assert exit_code([Ended("a", 7), Ended("b", 69)]) == 7
    assert exit_code([Ended("a", 143), Ended("b", 143)]) is None
    assert last_code([Ended("a", 143), lost]) == 143
    assert last_code([lost]) is None


def test_too_few_hosts_are_one_line() -> None:
    assert too_few([Ended("a", lost="No route")], 1, 1) == "the only host is not there: ssh to a failed: No route"
    lost = [Ended(f"h{n}", lost="Connection refused") for n in range(5)]
    assert too_few(lost, 8, 3) == ""
    text = too_few(lost, 8, 4)
    assert text == (
        "5 of the 8 hosts are not there, and the job needs 4 of them (--min-nodes says with how few it goes on): "
        "ssh to h0 failed: Connection refused; ssh to h1 failed: Connection refused; "
        "ssh to h2 failed: Connection refused; and 2 more"
    )
