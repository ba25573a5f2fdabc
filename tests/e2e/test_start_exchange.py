"""The round at the store, with torch's own: all get the same answer, and nobody waits for those who do not come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from elaunch.worker.start_exchange import Answer, agree, clear, compare
from tests.e2e.harness import wait_until

pytestmark = pytest.mark.slow
dist: Any = pytest.importorskip("torch.distributed")
WORLD = 3
Ask = Callable[..., "Future[Answer | None]"]


@pytest.fixture(scope="module")
def server() -> Any:
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.fixture
def ask(server: Any) -> Any:
    """Has a rank take part; each has a connection of its own."""
    stores = [dist.TCPStore("127.0.0.1", server.port, is_master=False) for _ in range(WORLD)]
    with ThreadPoolExecutor(WORLD) as threads:

        def begin(rank: int, seconds: float = 5.0, **more: Any) -> Future[Answer | None]:
            return threads.submit(agree, stores[rank], "t", rank, WORLD, f"v{rank}", joined, seconds, **more)

        yield begin
    assert all(store.timeout == timedelta(seconds=300) for store in stores), "the program's own timeout stays"


def joined(values: Sequence[str]) -> Answer:
    return Answer("+".join(values), 7)


def test_all_have_the_same_answer_each_time(ask: Ask, server: Any) -> None:
    for _ in range(2):
        answers = [ask(rank) for rank in range(WORLD)]
        assert {answer.result() for answer in answers} == {Answer("v0+v1+v2", 7)}
    assert server.num_keys() <= 1  # the store's own


def test_keys_may_be_taken_away_later(ask: Ask, server: Any) -> None:
    used: list[str] = []
    answers = [ask(rank, used=used) for rank in range(WORLD)]
    assert all(answer.result() for answer in answers)
    assert len(used) == 2 * (WORLD - 1)
    clear(server, used)
    assert used == []
    assert server.num_keys() <= 1


def test_nobody_is_held_up_by_who_does_not_come(ask: Ask, server: Any) -> None:
    first = [ask(rank, 0.3) for rank in (0, 1)]
    assert [answer.result() for answer in first] == [None, None]
    began = time.monotonic()
    assert ask(2, 30.0).result() is None  # rank 0 has given up, and says so
    assert time.monotonic() - began < 10
    answers = [ask(0)]  # the next round is another, once rank 0 has begun it
    wait_until("the round before is cleared away", lambda: not server.check(["elaunch/t/over"]))
    answers += [ask(rank) for rank in (1, 2)]
    assert {answer.result() for answer in answers} == {Answer("v0+v1+v2", 7)}


def test_each_may_read_what_all_have(server: Any) -> None:
    stores = [dist.TCPStore("127.0.0.1", server.port, is_master=False) for _ in range(WORLD)]
    with ThreadPoolExecutor(WORLD) as threads:
        asks = [threads.submit(compare, s, "c", rank, WORLD, f"v{rank}", 5.0) for rank, s in enumerate(stores)]
        assert [ask.result() for ask in asks] == [["v0", "v1", "v2"]] * WORLD
    assert compare(stores[0], "d", 0, WORLD, "v0", 0.2) is None
    late = [compare(stores[rank], "d", rank, WORLD, f"v{rank}", wait) for rank, wait in ((1, 0.2), (2, 30.0))]
    assert late == [None, ["v0", "v1", "v2"]]  # whoever comes last finds what the others had


def test_a_store_that_is_gone_is_no_answer() -> None:
    gone = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", gone.port, is_master=False)
    del gone
    assert agree(client, "t", 1, 2, "v", joined, 1.0) is None
