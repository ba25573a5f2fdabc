"""What operators ask of a node's ranks: each request once, and only of the generation that it was meant for."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from elaunch.agent.ranks import Generation
from elaunch.agent.requests import KEPT, KEPT_ROOM, ROOM, Requests
from elaunch.agent.sight import RankFiles, Sight
from elaunch.agent.status import StatusBoard
from elaunch.agent.witness import Witness
from elaunch.controller.commands import Request, Signal, Stacks, Start
from elaunch.controller.node_status import Answer
from elaunch.progress import RankProgress
from elaunch.progress_page import Page

START = Start(3, 0, 0, 1, 0, 2, 0, 2, "127.0.0.1", 1, False, "test")
PROGRAM = """
import signal, time
signal.signal(signal.SIGUSR1, lambda *_: print("got it", flush=True))
print(flush=True)
time.sleep(60)
"""


class Spawner:
    """The parent of the ranks."""

    pid = os.getpid()


class Ranks:
    """What runs: pids by local rank."""

    def __init__(self, pids: dict[int, int], parent: int = Spawner.pid) -> None:
        self.pids = pids
        self.spawner = Spawner()
        self.spawner.pid = parent
        self.generation = Generation(START, None)  # type: ignore[arg-type]


def asked(ranks: Any, *requests: Request) -> tuple[Answer, ...]:
    """The answers in the node's status after these requests."""
    board = StatusBoard()

    async def ask() -> None:
        doer = Requests(ranks, board, list)
        for request in requests:
            doer.take(request)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        doer.close()

    asyncio.run(ask())
    return board.now.answers


async def answered(board: StatusBoard, request: str) -> None:
    version = -1
    while request not in {answer.id for answer in board.now.answers}:
        version, _ = await board.newer_than(version)


def with_rank(test: Callable[[subprocess.Popen[str]], None]) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            test(process)
        finally:
            process.kill()


def test_a_signal_is_sent_once_however_often_it_is_asked_for() -> None:
    def test(process: subprocess.Popen[str]) -> None:
        request = Signal("op1", 3, signal.SIGUSR1, (0,))
        assert asked(Ranks({0: process.pid}), request, request) == (
            Answer("op1", True, "SIGUSR1 sent to 1 of 1 ranks"),
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "got it\n"
        process.kill()
        assert process.stdout.read() == "", "once"

    with_rank(test)


def test_another_generation_and_another_rank_are_refused() -> None:
    ranks = Ranks({0: 1})
    assert asked(ranks, Signal("a", 2, 10, ()), Stacks("b", 3, (5,))) == (
        Answer("a", False, "generation 2 does not run here"),
        Answer("b", False, "no such rank runs here"),
    )


def test_a_process_that_is_no_rank_any_more_gets_nothing() -> None:
    """Its pid may be another's by now: this one has another parent than the spawner process."""

    def test(process: subprocess.Popen[str]) -> None:
        answers = asked(Ranks({0: process.pid}, parent=1), Signal("a", 3, signal.SIGKILL, ()))
        assert answers == (Answer("a", False, "SIGKILL sent to 0 of 1 ranks"),)
        assert process.poll() is None

    with_rank(test)


def test_the_status_keeps_the_newest_answers() -> None:
    number = KEPT + 12
    answers = asked(Ranks({}), *(Signal(f"op{n}", 3, 10, ()) for n in range(number)))
    assert [answer.id for answer in answers] == [f"op{n}" for n in range(number - KEPT, number)]


def test_twenty_commands_at_once_are_all_answered() -> None:
    """As many as a leader takes in one go: one without its answer would be reported as not carried out."""
    answers = asked(Ranks({}), *(Signal(f"op{n}", 3, 10, ()) for n in range(20)))
    assert [answer.id for answer in answers] == [f"op{n}" for n in range(20)]


def test_long_answers_do_not_outgrow_a_message() -> None:
    board = StatusBoard()

    async def ask() -> None:
        files = RankFiles.make(0)
        sight = Sight(0, 0, Page.make(files.page), files.page, os.getpid())
        try:
            os.write(files.stacks, b"x" * (2 * ROOM))
            witness = Witness(RankProgress(0, 0, os.getpid(), "T"), sight, files)
            witness._begin = 0
            doer = Requests(Ranks({0: os.getpid()}), board, lambda: [witness])  # type: ignore[arg-type]
            for number in range(20):
                doer.take(Stacks(f"op{number}", 3, ()))
                await asyncio.wait_for(answered(board, f"op{number}"), 10)
        finally:
            sight.page.close()
            files.close()

    asyncio.run(ask())
    kept = board.now.answers
    assert KEPT_ROOM - 2 * ROOM < sum(len(answer.text) for answer in kept) <= KEPT_ROOM
    assert kept[-1].id == "op19"


def test_ranks_whose_pages_go_while_they_are_asked_are_answered_for() -> None:
    """The next generation starts in the middle of it: without an answer the operator would wait for nothing."""
    board = StatusBoard()

    async def ask() -> None:
        files = RankFiles.make(0)
        sight = Sight(0, 0, Page.make(files.page), files.page, os.getpid())
        witness = Witness(RankProgress(0, 0, os.getpid(), "S", attached=True), sight, files)
        doer = Requests(Ranks({0: os.getpid()}), board, lambda: [witness])  # type: ignore[arg-type]
        doer.take(Stacks("op1", 3, ()))
        for _ in range(5):
            await asyncio.sleep(0)
        assert sight.page.asked
        sight.page.close()
        files.close()
        await asyncio.wait_for(answered(board, "op1"), 10)

    asyncio.run(ask())
    assert board.now.answers == (Answer("op1", False, "the ranks ended before they answered"),)
