"""Redirect maps, rank lists and endpoints over all their forms."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.agent.options import Endpoint, Streams
from elaunch.cli.endpoints import parse_endpoint, parse_endpoints
from elaunch.cli.streams import parse_ranks, parse_streams

hosts = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,4})?(\.[a-z]{2,4}){0,2}", fullmatch=True)
ports = st.integers(0, 65535)
addresses = st.ip_addresses(v=6).map(str)


@given(st.dictionaries(st.integers(0, 40), st.sampled_from(Streams), min_size=1), st.integers(1, 40))
def test_a_map_sets_its_ranks_and_no_other(by_rank: dict[int, Streams], slots: int) -> None:
    text = ",".join(f"{rank}:{int(value)}" for rank, value in by_rank.items())
    assert parse_streams(text, slots) == tuple(by_rank.get(rank, Streams.NONE) for rank in range(slots))


@given(st.sampled_from(Streams), st.integers(1, 40))
def test_one_value_is_for_all_ranks(value: Streams, slots: int) -> None:
    assert parse_streams(str(int(value)), slots) == (value,) * slots


@given(st.text(alphabet="0123456789:,-x ", max_size=12))
def test_any_other_text_is_refused_with_a_hint(text: str) -> None:
    if re.fullmatch(r"[0-3]|\d+:[0-3](,\d+:[0-3])*", text):
        assert len(parse_streams(text, 3)) == 3
    else:
        with pytest.raises(ValueError, match="expected 0"):
            parse_streams(text, 3)


@given(st.sets(st.integers(0, 99), min_size=1))
def test_ranks(ranks: set[int]) -> None:
    assert parse_ranks(",".join(map(str, ranks))) == ranks


def test_no_ranks_means_all() -> None:
    assert parse_ranks("") is None


@given(hosts, ports)
def test_a_host_with_and_without_port(host: str, port: int) -> None:
    assert parse_endpoint(f"{host}:{port}", 1) == Endpoint(host, port)
    assert parse_endpoint(host, port) == Endpoint(host, port)


@given(addresses, ports)
def test_ipv6_in_brackets_and_bare(address: str, port: int) -> None:
    assert parse_endpoint(f"[{address}]:{port}", 1) == Endpoint(address, port)
    assert parse_endpoint(f"[{address}]", port) == parse_endpoint(address, port) == Endpoint(address, port)


@given(st.lists(st.builds(Endpoint, hosts | addresses, ports), max_size=5, unique=True))
def test_what_is_printed_can_be_read(endpoints: list[Endpoint]) -> None:
    assert parse_endpoints(",".join(map(str, endpoints)), 2379) == tuple(endpoints)


@given(st.text(max_size=20))
def test_an_endpoint_is_sound_or_refused(text: str) -> None:
    try:
        endpoint = parse_endpoint(text, 2379)
    except ValueError as error:
        assert "expected HOST" in str(error)  # noqa: PT017
    else:
        assert 0 <= endpoint.port <= 65535
        assert not re.search(r"[\s/@]", endpoint.host)
        assert ":" not in endpoint.host or ipaddress.IPv6Address(endpoint.host)
