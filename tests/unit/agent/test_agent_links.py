"""What an agent's heartbeats say of ports: read from a tree that changes, and never held up by a driver that hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from elaunch.agent import links
from elaunch.agent.links import LinkWatch, Users, named
from elaunch.clock import SystemClock
from elaunch.links import PortReport
from elaunch.topology.counters import PortSample, sample
from elaunch.topology.machine import Port
from tests.unit.topology.link_tree import LinkTree

MLX, ETH = Port("mlx5_0"), Port("eth0", rdma=False)
Told = tuple[tuple[PortReport, ...], bool]


class Clock(SystemClock):
    """Shifted as a test wishes."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LinkTree:
    monkeypatch.setattr(links, "PACE", 0.01)
    monkeypatch.setattr(links, "PATIENCE", 30.0)
    return LinkTree(tmp_path)


class Watched:
    """A watch that runs, over ports in use and such as are left out."""

    def __init__(self, tree: LinkTree, users: Users, left_out: Sequence[str] = ()) -> None:
        self.users, self.left_out, self.clock = users, left_out, Clock()
        self.watch = LinkWatch(lambda: self.users, lambda: self.left_out, tree.root, self.clock)

    async def __aenter__(self) -> Watched:
        self._task = asyncio.create_task(self.watch.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def news(self, generation: int = 1) -> Told:
        await asyncio.wait_for(self.watch.news(), 60)
        return self.watch.report(generation)

    async def troubled(self, expected: list[tuple[str, str]]) -> Told:
        """The first report on these troubles: a look that had begun before them is told as well."""
        while codes(told := await self.news()) != expected:
            continue
        return told

    async def total(self, generation: int) -> tuple[PortReport, ...]:
        """The first report on all ports of a generation."""
        for _ in range(1000):
            reports, every = self.watch.report(generation)
            if every:
                return reports
            await asyncio.sleep(0.01)
        raise AssertionError("no report on all ports")


def codes(told: Told) -> list[tuple[str, str]]:
    return [(report.port, trouble.code) for report in told[0] for trouble in report.troubles]


def test_news_and_totals(tree: LinkTree) -> None:
    async def scenario() -> None:
        folder = tree.rdma("mlx5_0")
        tree.interface("eth0")
        async with Watched(tree, ((MLX, (0, 1)), (ETH, (2,)))) as watched:
            reports = await watched.total(1)
            assert [(r.port, r.local_ranks, r.rate) for r in reports] == [
                ("mlx5_0:1", (0, 1), 400.0),
                ("eth0", (2,), 10.0),
            ]
            assert watched.watch.report(1) == ((), False)
            watched.users = ((MLX, (0, 1, 2)),)
            reports, every = await watched.news()
            assert ([(r.port, r.local_ranks) for r in reports], every) == (
                [("mlx5_0:1", (0, 1, 2)), ("eth0", ())],
                True,
            )
            tree.down(folder)
            _, every = await watched.troubled([("mlx5_0:1", "port_down")])
            assert not every
            assert codes(watched.watch.report(1)) == [("mlx5_0:1", "port_down")]  # in each, as one may be lost
            tree.up(folder)
            watched.clock.ahead += 15.0
            await watched.troubled([])
            assert len(await watched.total(2)) == 2
            assert watched.watch.report(2) == ((), False)
            watched.clock.ahead += links.TOTAL
            assert watched.watch.report(2)[1]

    asyncio.run(scenario())


def test_a_port_that_is_left_out_is_watched_on(tree: LinkTree) -> None:
    async def scenario() -> None:
        folder = tree.rdma("mlx5_0")
        tree.rdma("mlx5_1")
        async with Watched(tree, ((Port("mlx5_1"), (0,)),), ("mlx5_0:1",)) as watched:
            reports = await watched.total(1)
            assert [(r.port, r.local_ranks) for r in reports] == [("mlx5_1:1", (0,)), ("mlx5_0:1", ())]
            tree.down(folder)
            await watched.troubled([("mlx5_0:1", "port_down")])

    asyncio.run(scenario())


def test_who_uses_a_port_is_of_the_generation_that_it_is_told_of(tree: LinkTree) -> None:
    async def scenario() -> None:
        tree.down(tree.rdma("mlx5_0"))
        async with Watched(tree, [(MLX, (0, 1))]) as watched:
            told, _ = await watched.news()
            assert [report.local_ranks for report in told] == [(0, 1)]
            watched.users, watched.left_out = [], ["mlx5_0:1"]
            told, _ = watched.watch.report(2)  # before the ports are looked at again
            assert [(report.port, report.local_ranks) for report in told] == [("mlx5_0:1", ())]

    asyncio.run(scenario())


def test_a_driver_that_hangs_costs_its_own_port_only(tree: LinkTree, monkeypatch: pytest.MonkeyPatch) -> None:
    hang = threading.Event()

    def hung(root: Path, ports: Sequence[Port]) -> tuple[PortSample, ...]:
        if ports == (MLX,):
            hang.wait(200)
        return sample(root, ports)

    async def scenario() -> None:
        tree.rdma("mlx5_0")
        eth = tree.interface("eth0")
        async with Watched(tree, ((MLX, (0,)), (ETH, (1,)))) as watched:
            await watched.total(1)
            monkeypatch.setattr(links, "PATIENCE", 0.2)
            monkeypatch.setattr(links, "sample", hung)
            told = await watched.news()
            assert [(r.port, r.local_ranks, r.troubles[0].text) for r in told[0]] == [
                ("mlx5_0:1", (0,), "does not answer: its driver holds a read of its counters")
            ]
            tree.down(eth)
            await watched.troubled([("eth0", "port_down"), ("mlx5_0:1", "port_errors")])
            hang.set()
            await watched.troubled([("eth0", "port_down")])

    try:
        asyncio.run(scenario())
    finally:
        hang.set()


def test_no_port_in_use_is_nothing_to_tell(tree: LinkTree) -> None:
    async def scenario() -> None:
        async with Watched(tree, ()) as watched:
            await asyncio.sleep(0.05)
            assert watched.watch.report(1) == ((), False)

    asyncio.run(scenario())


def test_a_port_by_its_name() -> None:
    assert [named(port.id) for port in (MLX, ETH, Port("mlx5_1", 2))] == [MLX, ETH, Port("mlx5_1", 2)]
