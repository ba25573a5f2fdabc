"""Interfaces of hosts that are up, and what a probe between them finds: on real interfaces, with real faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.lab.network import Network
from tests.lab.probing import SECONDS, Probers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def probers(three: Network) -> Iterator[Probers]:
    with Probers(three) as made:
        yield made


def test_where_all_is_well_nothing_is_found_at_once(probers: Probers) -> None:
    verdict, seconds = probers.probe(seconds=30.0)
    assert verdict.findings == ()
    assert seconds < 10.0


@pytest.mark.parametrize(
    ("spoil", "mend", "code", "text"),
    [
        (
            lambda net: net.unplug(2, 1),
            lambda net: net.plug(2, 1),
            "interface_unreachable",
            "nic1 of {h2} is up, but reaches none of nic1 of {h1}, nic1 of {h3}",
        ),
        (
            lambda net: net.plug(3, 0, into=1),
            lambda net: net.plug(3, 0),
            "rails_crossed",
            "nic0 of {h3} reaches nobody on its own rail, but nic1 of {h1}, nic1 of {h2}: its cable",
        ),
        (
            lambda net: net.cable_mtu(2, 1, 1300),
            lambda net: net.cable_mtu(2, 1, 1500),
            "mtu_differs",
            "datagrams of 1500 bytes are lost between nic1 of {h2} and nic1 of {h1}, nic1 of {h3}, which have that MTU",
        ),
        (
            lambda net: net.run(1, "route", "add", net.address(2, 1), "dev", "nic0"),
            lambda net: net.run(1, "route", "del", net.address(2, 1), "dev", "nic0"),
            "duplicate_route",
            "what nic1 of {h1} sends from its own address leaves by nic0",
        ),
    ],
    ids=["leads-nowhere", "crossed", "small-cable", "duplicate-route"],
)
def test_what_is_wrong_is_found_and_named(
    probers: Probers, spoil: Callable[[Network], None], mend: Callable[[Network], None], code: str, text: str
) -> None:
    net = probers.net
    spoil(net)
    try:
        verdict, seconds = probers.probe()
    finally:
        mend(net)
    names = {f"h{n}": net.host(n) for n in (1, 2, 3)}
    assert any(f.code == code and f.text.startswith(text.format(**names)) for f in verdict.findings), verdict.findings
    assert seconds < 3 * SECONDS


def test_a_wrong_address_on_the_right_cable_is_told_apart(probers: Probers) -> None:
    net = probers.net
    net.run(2, "addr", "replace", "10.99.99.2/24", "dev", "nic1")
    net.run(2, "addr", "del", f"{net.address(2, 1)}/24", "dev", "nic1")
    try:
        verdict, _ = probers.probe()
    finally:
        net.run(2, "addr", "add", f"{net.address(2, 1)}/24", "dev", "nic1")
        net.run(2, "addr", "del", "10.99.99.2/24", "dev", "nic1")
    (finding,) = [f for f in verdict.findings if f.code == "interface_unreachable"]
    assert finding.text.startswith(f"nic1 of {net.host(2)} is up")
    assert "on the same wire as nic1 of" in finding.text


def test_a_probe_without_the_secret_gets_no_answer(probers: Probers) -> None:
    from tests.lab.asking import unanswered

    assert unanswered(probers.net, 1, probers.net.address(2, 0), probers.facts[1].interfaces[0].port)
