"""The ranks of one node under the leader's commands, with a real spawner process that may die at any moment."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from elaunch.agent import trees
from elaunch.agent.group import Group
from elaunch.agent.program import Program
from elaunch.agent.progress import Pages
from elaunch.agent.spawner import Exit, RankStart, Spawner
from elaunch.agent.status import StatusBoard
from elaunch.controller.commands import Abort, Start
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.deadline_page import DeadlinePage
from elaunch.rendezvous.state import RankExit
from elaunch.rendezvous.waiting import beside
from tests.e2e.spawning import PROGRAMS, environment, other_children, python

GRACE = 240.0
SECONDS = 120.0  # less: nobody here waits for the grace


def start(generation: int) -> Start:
    return Start(generation, 0, 0, 1, 0, 1, 0, 1, "127.0.0.1", 1, False, "test")


class Logs:
    """Output that is closed once ``shown`` is set."""

    def __init__(self) -> None:
        self.shown = asyncio.Event()
        self.closing = asyncio.Event()

    async def close(self) -> None:
        self.closing.set()
        await self.shown.wait()


class Preparation:
    """One rank that runs ``program``; what it prints is in ``out``."""

    node_id = ""
    pages = Pages()  # nobody asks: the programs here are not told to stop

    def __init__(self, folder: Path, program: Program) -> None:
        self.out = folder / "out"
        self.program = program
        self.logs: list[Logs] = []
        self.announced = 0

    async def ranks(self, start: Start) -> tuple[list[RankStart], Logs]:
        self.logs.append(Logs())
        return [RankStart(0, 0, self.program, environment(), self.out, self.out.with_suffix(".err"))], self.logs[-1]

    def started(self, start: Start, pids: Mapping[int, int]) -> None:
        return

    def ahead(self) -> None:
        self.announced += 1

    async def look(self) -> None:
        pass

    def describe(self, end: Exit, start: Start) -> RankExit:
        return RankExit(end.local_rank, start.rank0 + end.local_rank, end.pid, end.exit_code, end.time)

    def failing(self, local_ranks: Iterable[int]) -> dict[int, float]:
        return {}  # the programs here leave no error file


class Node:
    """A group with its board, and the pids of the spawner processes that it opened."""

    def __init__(self, preparation: Preparation, **how: Any) -> None:
        self._how = {"start": "exec", "preload": (), "env": environment(), **how}
        self.board = StatusBoard()
        self.preparation = preparation
        self.spawners: list[Spawner] = []
        self.page = DeadlinePage.create()
        self._others = other_children()

    async def open(self) -> Spawner:
        opened = Spawner.open(deadline=self.page, spare=lambda: self._others, **self._how)
        self.spawners.append(await opened)
        return self.spawners[-1]

    async def until(self, what: Callable[[NodeStatus], bool]) -> NodeStatus:
        version = -1
        while True:
            version, status = await self.board.newer_than(version)
            if what(status):
                return status

    async def phase(self, wanted: RunPhase) -> NodeStatus:
        return await self.until(lambda status: status.phase is wanted)

    def kill_spawner(self) -> None:
        os.kill(self.spawners[-1].pid, signal.SIGKILL)


def on_node(preparation: Preparation, test: Callable[[Node, Group], Coroutine[Any, Any, None]], **how: Any) -> None:
    async def run() -> None:
        node = Node(preparation, **how)
        listen = lambda: socket.create_server(("127.0.0.1", 0))  # noqa: E731
        group = Group(await node.open(), node.open, node.board, preparation, listen, GRACE)
        running = asyncio.create_task(group.run())
        try:
            testing = asyncio.ensure_future(test(node, group))
            await asyncio.wait_for(beside([running], testing), SECONDS)
            assert not running.done(), "the group goes on"
        finally:
            running.cancel()
            await asyncio.wait({running})
            await group.close()

    others = other_children()
    asyncio.run(run())
    assert trees.descendants(os.getpid(), trees.snapshot(), spare=others) == []


def words_in(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def turns() -> None:
    """Let every task go as far as it gets without news from outside."""
    for _ in range(50):
        await asyncio.sleep(0)


async def pids(out: Path, count: int) -> list[int]:
    """The pids that ``clinging.py`` has told."""
    for _ in range(3000):
        words = words_in(out)
        if len(words) == 2 * count:
            return [int(pid) for pid in words[1::2]]
        await asyncio.sleep(0.02)
    raise AssertionError(f"{out} does not tell {count} pids")


def alive(pid: int) -> bool:
    found = trees.process(pid)
    return found is not None and not found.zombie


def test_a_spawner_that_dies_amid_a_stop_leaves_nothing_and_the_node_goes_on(tmp_path: Path) -> None:
    async def test(node: Node, group: Group) -> None:
        group.want(start(1))
        await node.phase(RunPhase.RUNNING)
        told = await pids(node.preparation.out, 2)
        node.preparation.logs[0].shown.set()
        group.want(Abort(1, "test", "test"))
        await node.phase(RunPhase.STOPPING)
        node.kill_spawner()
        status = await node.phase(RunPhase.STOPPED)
        assert not any(alive(pid) for pid in told), "reported as stopped with processes of the generation alive"
        assert status.exits == ()
        group.want(start(2))
        await node.until(lambda now: (now.generation, now.phase) == (2, RunPhase.RUNNING))
        assert len(node.spawners) == 2
        node.preparation.logs[1].shown.set()
        await group.leave(grace=0)

    on_node(Preparation(tmp_path, python("script", PROGRAMS / "clinging.py", "stay")), test)


def test_a_rank_that_had_ended_before_its_spawner_died_is_told_as_it_ended(tmp_path: Path) -> None:
    """Though the spawner process did not get to tell it."""

    async def test(node: Node, group: Group) -> None:
        group.want(start(1))
        await node.phase(RunPhase.RUNNING)
        await pids(node.preparation.out, 2)
        rank = group.ranks.pids[0]
        node.preparation.logs[0].shown.set()
        os.kill(node.spawners[-1].pid, signal.SIGSTOP)
        ended = os.pidfd_open(rank)
        os.kill(rank, signal.SIGUSR1)
        await asyncio.to_thread(select.select, [ended], [], [], SECONDS)
        os.close(ended)
        node.kill_spawner()
        status = await node.phase(RunPhase.FAILED)
        assert [(end.local_rank, end.pid, end.exit_code) for end in status.exits] == [(0, rank, -signal.SIGUSR1)]
        await group.leave(grace=0)

    on_node(Preparation(tmp_path, python("script", PROGRAMS / "clinging.py", "stay")), test)


def test_a_start_that_comes_while_the_spawner_is_replaced_is_done(tmp_path: Path) -> None:
    async def test(node: Node, group: Group) -> None:
        await node.spawners[0].ready()
        node.kill_spawner()
        await node.spawners[0].lost.wait()
        group.want(start(1))
        status = await node.until(lambda now: now.phase in (RunPhase.RUNNING, RunPhase.FAILED))
        assert status.phase is RunPhase.RUNNING
        assert status.exits == ()
        node.preparation.logs[0].shown.set()
        await group.leave(grace=0)

    on_node(Preparation(tmp_path, python("script", PROGRAMS / "clinging.py", "stay")), test)


def test_ranks_that_ended_well_before_an_abort_took_hold_have_succeeded(tmp_path: Path) -> None:
    async def test(node: Node, group: Group) -> None:
        group.want(start(1))
        await node.phase(RunPhase.RUNNING)
        await node.preparation.logs[0].closing.wait()
        group.want(Abort(1, "node_joined", "test"))
        await turns()  # the abort waits for the end that is under way
        node.preparation.logs[0].shown.set()
        assert (await node.phase(RunPhase.SUCCEEDED)).generation == 1
        group.want(Abort(1, "node_joined", "again"))
        await group.ranks.signal(signal.SIGUSR1)  # the answer to this comes after that to a stop
        await turns()
        assert node.board.now.phase is RunPhase.SUCCEEDED

    on_node(Preparation(tmp_path, Program("command", "true", (), "")), test)


def test_a_signal_for_ranks_whose_spawner_has_died_is_no_error(tmp_path: Path) -> None:
    async def test(node: Node, group: Group) -> None:
        await node.spawners[0].ready()
        node.kill_spawner()
        await node.spawners[0].lost.wait()
        await group.ranks.signal(signal.SIGUSR1)

    on_node(Preparation(tmp_path, Program("command", "true", (), "")), test)


def test_what_cannot_be_imported_is_tried_once_and_told_at_the_start(tmp_path: Path) -> None:
    async def test(node: Node, group: Group) -> None:
        await node.spawners[0].lost.wait()
        await turns()
        group.want(start(1))
        status = await node.until(lambda now: bool(now.start_error) and now.phase.at_rest)
        assert "No module named 'no_such_thing'" in status.start_error
        assert status.phase is RunPhase.STOPPED
        assert len(node.spawners) == 1

    (tmp_path / "torch.py").write_text("")
    env = environment(PYTHONPATH=str(tmp_path))
    program = Program("command", "true", (), "")
    on_node(Preparation(tmp_path, program), test, start="warm", preload=("no_such_thing",), env=env)


def test_an_exit_of_an_older_start_says_nothing_of_the_next(tmp_path: Path) -> None:
    async def test(node: Node, group: Group) -> None:
        group.want(start(1))
        await node.phase(RunPhase.RUNNING)
        node.preparation.logs[0].shown.set()
        group.want(Abort(1, "test", "test"))
        await node.phase(RunPhase.STOPPED)
        assert node.preparation.announced == 1, "what the next start needs is found out during the stop"
        group.want(start(2))
        await node.until(lambda now: (now.generation, now.phase) == (2, RunPhase.RUNNING))
        exits = node.spawners[0].exits()
        exits.put_nowait(Exit(0, 1, 1, 0.0, start=1))
        await turns()
        assert exits.empty()
        assert (node.board.now.phase, node.board.now.exits) == (RunPhase.RUNNING, ())
        os.kill(group.ranks.pids[0], signal.SIGKILL)
        status = await node.phase(RunPhase.FAILED)
        assert [end.exit_code for end in status.exits] == [-signal.SIGKILL]
        node.preparation.logs[1].shown.set()
        await group.leave(grace=0)

    on_node(Preparation(tmp_path, Program("command", "sleep", ("600",), "")), test)


def test_ranks_that_the_dead_mans_switch_killed_have_not_failed(tmp_path: Path) -> None:
    async def test(node: Node, group: Group) -> None:
        group.want(start(1))
        await node.phase(RunPhase.RUNNING)
        node.page.set(0.0)
        await node.spawners[0].deadline_passed.wait()
        for _ in range(3000):
            await asyncio.sleep(0.01 if group.ranks.pids else 0)
        assert group.ranks.pids == {}
        assert (node.board.now.phase, node.board.now.exits) == (RunPhase.RUNNING, ())
        node.preparation.logs[0].shown.set()
        await group.leave(grace=0)
        assert node.board.now.exits == ()

    on_node(Preparation(tmp_path, Program("command", "sleep", ("600",), "")), test)
