"""One job's news for all who look: who is slow misses nothing that counts, and holds up nobody."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from web_world import JOB, SLOTS, run, world

from elaunch.clock import SystemClock
from elaunch.controller.access import OPEN
from elaunch.errors import EtcdLostError
from elaunch.web import feed as feeding
from elaunch.web import feeds
from elaunch.web.feed import Cursor, Feed
from elaunch.web.source import LONGEST, Facts, Kept, Source

pytestmark = pytest.mark.slow


class MovedClock(SystemClock):
    """Goes on when it is told to."""

    at = 0.0

    def monotonic(self) -> float:
        return self.at


async def taken(feed: Feed, cursor: Cursor) -> list[str]:
    """The names of what this client has not got yet."""
    return [name for _, name, _ in feed._newer(cursor)]


def test_a_slow_client_gets_the_changes_that_it_missed_or_all_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "INTERVAL", 0.01)
    monkeypatch.setattr(feeding, "KEPT_DELTAS", 4)

    async def test() -> None:
        async with world() as one:
            await one.up()
            source = Source(one.store, one.server.led, OPEN, SystemClock())
            feed = Feed(source, JOB)
            feed._deltas = type(feed._deltas)(maxlen=4)
            going = asyncio.create_task(feed.run())
            slow, slower = Cursor(), Cursor()
            step = 0

            async def change(times: int) -> None:
                nonlocal step
                for _ in range(times):
                    step, before = step + 1, feed._ranks
                    one.beat(step)
                    source.forget(JOB)
                    await one.until(lambda before=before: feed._ranks > before)  # type: ignore[misc]

            await change(1)
            assert "ranks" in await taken(feed, slow)
            assert "ranks" in await taken(feed, slower)
            await change(3)
            assert (await taken(feed, slow)).count("ranks_delta") == 3
            assert [name for name in await taken(feed, slow) if name.startswith("ranks")] == []
            await change(4)
            names: list[Any] = [name for name in await taken(feed, slower) if name in ("reset", "ranks", "ranks_delta")]
            assert names == ["reset", "ranks"]
            assert feed._table is not None
            assert feed._table.columns["step"] == [step] * SLOTS
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

    run(test())


def test_a_feed_ends_when_nobody_looks_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "LINGER", 0.05)

    async def test() -> None:
        async with world() as one:
            await one.up()
            made = feeds.Feeds(Source(one.store, one.server.led, OPEN, SystemClock()))
            news = made.follow(JOB, -1)
            await anext(news)
            task = made._feeds[JOB][1]
            await news.aclose()
            await one.until(task.done)
            assert made._feeds == {}

    run(test())


def test_a_mistake_of_ours_is_told_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            one.server.counters.snapshot = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
            assert (await one.get("/metrics"))[0] == 500

    run(test())
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_a_job_that_runs_is_never_told_to_have_no_generation() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            source = Source(one.store, one.server.led, OPEN, SystemClock())
            facts = await source.facts(JOB)
            assert facts.seen.plan is not None
            feed = Feed(source, JOB)
            feed._take_generations(facts)  # before a line of the history is read
            assert await taken(feed, Cursor()) == []

    run(test())


def test_the_ages_of_ranks_that_stand_still_are_told_with_the_time_at_which_they_were_true() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            one.beat(1)
            source = Source(one.store, one.server.led, OPEN, SystemClock())
            feed = Feed(source, JOB)
            facts = await source.facts(JOB)
            table, change, _ = feed._read_off(facts)
            feed._take_ranks(table, change, 1000.0)
            table, change, _ = feed._read_off(facts)
            feed._take_ranks(table, change, 1300.0)  # nothing has changed but ages
            (_, data), *more = feed._newer_ranks(Cursor())
            assert (json.loads(data)["at"], more) == (1000.0, [])

    run(test())


def test_the_end_of_a_stream_names_the_last_line_that_was_told() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            made = feeds.Feeds(Source(one.store, one.server.led, OPEN, SystemClock()))
            last, told = -1, []
            async for seq, name, _ in made.follow(JOB, -1):
                if name == "event":
                    last = seq
                    await made.close()
                elif name == "end":
                    told.append(seq)
            assert told == [last]
            assert last >= 0

    run(test())


def test_the_list_of_jobs_outlives_an_etcd_that_is_away_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "INTERVAL", 0.01)

    async def test() -> None:
        async with world() as one:
            await one.up()
            source = one.pages._source
            news = one.pages._api._feeds.follow_jobs(one.pages._api._jobs)
            assert (await anext(news))[1] == "jobs"

            async def away() -> list[Facts]:
                raise EtcdLostError("etcd is away")

            with monkeypatch.context() as patch:
                patch.setattr(source, "everything", away)
                assert (await anext(news))[1] == ""
                assert (await one.get("/api/jobs"))[0] == 502
            assert (await one.get("/api/jobs"))[0] == 200
            await news.aclose()

    run(test())


def test_many_lists_of_jobs_cost_one_look() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            source = Source(one.store, one.server.led, OPEN, SystemClock())
            found = await asyncio.gather(*(source.everything() for _ in range(20)))
            assert all(facts is found[0] for facts in found)

    run(test())


def test_what_took_long_to_be_had_is_not_kept_for_long() -> None:
    clock = MovedClock()
    made: list[float] = []

    async def slowly(_: str) -> int:
        made.append(clock.monotonic())
        clock.at += 5.0  # a leader that does not answer
        return len(made)

    async def test() -> None:
        kept = Kept(slowly, 0.25, clock)
        assert await kept.get("") == 1
        assert await kept.get("") == 1
        clock.at += LONGEST + 0.1
        assert await kept.get("") == 2

    run(test())


def test_ranks_that_wait_again_and_again_do_not_look_as_if_they_hung() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            source, cursor = Source(one.store, one.server.led, OPEN, SystemClock()), Cursor()
            feed, facts = Feed(source, JOB), None
            for at in (1000.0, 1008.0):
                one.beat(-1, progress_age=0.5)
                source.forget(JOB)
                facts = replace(await source.facts(JOB), at=at)
                table, change, _ = feed._read_off(facts)
                feed._take_ranks(table, change, at)
                ((name, data),) = feed._newer_ranks(cursor)
            assert name == "ranks_delta"
            assert json.loads(data)["index"] == list(range(SLOTS))

    run(test())
