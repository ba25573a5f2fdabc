"""A node's part in probes: what it tells of itself, that it does each once, and that it answers strangers nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from elaunch.agent import reachability
from elaunch.agent.reachability import Reachability
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import Probe
from elaunch.topology.probe.candidates import candidates
from elaunch.topology.probe.facts import Report, Target
from elaunch.topology.probe.netlink import Link, egress, links

ADDRESS = "127.0.0.1"


@pytest.fixture
def looped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback in the place of a wire: the only interface that every machine has."""
    monkeypatch.setattr(reachability, "candidates", lambda found, *_: tuple(link for link in found if link.loopback))
    monkeypatch.setattr(reachability, "_loopback", lambda _: False)


def run(work: Callable[[Reachability, StatusBoard], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        board = StatusBoard()
        node = Reachability(board)
        node.open(ADDRESS)
        try:
            await asyncio.wait_for(work(node, board), 60)
        finally:
            await node.close()

    asyncio.run(main())


async def reported(board: StatusBoard) -> Report:
    version = -1
    while True:
        version, status = await board.newer_than(version)
        if status.probe is not None:
            return status.probe


def command(board: StatusBoard, identity: str = "p") -> Probe:
    (own,) = board.now.interfaces
    return Probe(identity, b"secret", 20.0, (Target(own.name, "n1", own.name, ADDRESS, own.port, own.mtu),))


@pytest.mark.usefixtures("looped")
def test_it_asks_and_answers() -> None:
    async def work(node: Reachability, board: StatusBoard) -> None:
        node.take(command(board))
        report = await reported(board)
        (row,) = report.rows
        assert (report.id, row.reached, row.whole, row.arrived) == ("p", True, True, row.interface)

    run(work)


@pytest.mark.usefixtures("looped")
def test_each_probe_is_made_once() -> None:
    async def work(node: Reachability, board: StatusBoard) -> None:
        node.take(command(board))
        await reported(board)
        board.update(probe=None)
        node.take(command(board))
        node.take(command(board, "another"))
        assert (await reported(board)).id == "another"
        board.update(probe=None)
        node.take(replace(command(board), secret=b"of another leader"))
        assert [row.reached for row in (await reported(board)).rows] == [True]

    run(work)


@pytest.mark.usefixtures("looped")
def test_an_interface_that_is_gone_reaches_nobody_and_ends_no_agent() -> None:
    async def work(node: Reachability, board: StatusBoard) -> None:
        asked = command(board)
        gone = Target("gone0", "n1", "nic0", ADDRESS, 9, 1500)
        node.take(Probe("p", b"secret", 20.0, (*asked.targets, gone)))
        report = await reported(board)
        assert [row.reached for row in report.rows] == [True, False]

    run(work)


def test_a_node_at_loopback_tells_of_nothing() -> None:
    async def work(node: Reachability, board: StatusBoard) -> None:
        assert board.now.interfaces == ()
        node.take(Probe("p", b"secret", 0.5, ()))
        await asyncio.sleep(0)
        assert board.now.probe is None

    run(work)


def test_interfaces_that_lead_to_no_wire_are_no_candidates() -> None:
    def link(name: str, **more: Any) -> Link:
        values = {"up": True, "carrier": True, "loopback": False, "addresses": ("10.0.0.1/24",), **more}
        return Link(1, name, 1500, **values)

    here = [
        link("eth0"),
        link("eth1", addresses=()),
        link("eth2", carrier=False),
        link("eth3", up=False),
        link("eth4", master="bond0"),
        link("bond0"),
        link("docker0", kind="bridge"),
        link("br0", kind="bridge", addresses=("10.0.9.1/24",)),
        link("lo", loopback=True),
        link("veth0", kind="veth"),
        link("veth1", kind="veth", addresses=("10.0.8.1/32",)),
        link("idrac", addresses=("169.254.1.2/16",)),
    ]
    assert [found.name for found in candidates(here, "10.0.9.1", ["veth0"])] == ["eth0", "bond0", "br0"]


def test_the_kernel_tells_of_its_interfaces_and_routes() -> None:
    (loopback,) = [link for link in links() if link.loopback]
    assert "127.0.0.1/8" in loopback.addresses
    assert egress("127.0.0.9", "127.0.0.1") == loopback.index
    assert egress("127.0.0.9", "192.0.2.77") is None, "an address that is not ours"
