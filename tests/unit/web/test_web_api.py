"""The page's server around a leader: what it says of a job, live, and what it does for an operator."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from web_world import JOB, PATH, SLOTS, World, run, world

from elaunch.rendezvous.records import Phase

News = asyncio.Queue[tuple[str, str, Any]]
pytestmark = pytest.mark.slow


async def stream(one: World, **headers: str) -> News:
    """Messages of a stream as they come: id, name, data."""
    found: News = asyncio.Queue()
    response = await one.session.get(f"{one.url}/api/stream?job=llm%2F7b%20%C3%A9", headers=headers)
    assert response.status == 200, await response.text()
    assert response.content_type == "text/event-stream"

    async def read() -> None:
        fields: dict[str, str] = {}
        async for raw in response.content:
            text = raw.decode().rstrip("\n")
            if text.startswith(":"):
                continue
            if not text and "event" in fields:
                await found.put((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
                fields = {}
            elif text:
                name, _, value = text.partition(": ")
                fields[name] = value
        await found.put(("", "closed", None))

    one.readers.append(asyncio.create_task(read()))
    return found


async def next_of(found: News, name: str) -> tuple[str, Any]:
    """The next message of this name."""
    while True:
        number, kind, data = await asyncio.wait_for(found.get(), 10)
        if kind == name:
            return number, data
        assert kind != "closed", "the stream has ended"


def test_a_job_is_told_as_its_leader_knows_it() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            one.beat(7)
            status, jobs = await one.get("/api/jobs")
            assert status == 200
            (row,) = jobs["jobs"]
            assert (row["job"], row["phase"], row["here"], row["ranks"]) == (JOB, "running", True, SLOTS)
            _, job = await one.get(PATH)
            assert (job["generation"], job["world_size"], job["step"], job["live"]) == (1, SLOTS, 7, True)
            assert job["nodes"][0]["host"] == "gpu-00"
            _, ranks = await one.get(f"{PATH}/ranks")
            assert ranks["columns"]["step"] == [7] * SLOTS
            assert ranks["places"][ranks["columns"]["where"][0]] == "train.py:31 in step"
            _, events = await one.get(f"{PATH}/events")
            assert [e["code"] for e in events["events"]][:3] == ["leading", "job_starting", "job_running"]
            await one.until(lambda: one.term.job.accounts.first_step == 7)
            _, course = await one.get(f"{PATH}/generations")
            assert course["generations"][0]["generation"] == 1

    run(test())


def test_what_is_not_there_is_told_so() -> None:
    async def test() -> None:
        async with world() as one:
            for path in ("/api/jobs/other", "/api/jobs/other/ranks", "/api/stream?job=other"):
                status, document = await one.get(path)
                assert (status, document["error"]) == (404, "no_such_job"), path
            assert (await one.get(f"{PATH}/topology/nobody"))[0] == 404
            assert (await one.get("/api/nothing"))[1]["error"] == "not_found"
            assert (await one.get("/assets/..%2fserver.py"))[0] == 404
            assert (await one.get(f"{PATH}/events?after=x"))[0] == 400

    run(test())


def test_a_stream_begins_with_all_and_goes_on_with_what_is_new() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            one.beat(1)
            news = await stream(one)
            _, hello = await next_of(news, "hello")
            assert hello["interval"] > 0
            _, table = await next_of(news, "ranks")
            assert table["columns"]["step"] == [1] * SLOTS
            one.beat(2, section="checkpoint")
            _, change = await next_of(news, "ranks_delta")
            assert change["columns"]["step"] == [2] * SLOTS
            assert change["tables"]["sections"] == ["checkpoint"]

    run(test())


def test_a_stream_that_is_taken_up_again_has_the_events_after_the_last() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            first = await stream(one)
            numbers = [(await next_of(first, "event"))[0] for _ in range(3)]
            assert numbers == ["0", "1", "2"]
            again = await stream(one, **{"Last-Event-ID": "1"})
            number, event = await next_of(again, "event")
            assert (number, event["code"]) == ("2", "job_running")

    run(test())


def test_two_clients_are_served_by_one_look() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            streams = [await stream(one) for _ in range(5)]
            for news in streams:
                await next_of(news, "ranks")
            one.beat(3)
            changes = [(await next_of(news, "ranks_delta"))[1] for news in streams]
            assert all(change == changes[0] for change in changes)

    run(test())


def test_too_many_streams_are_refused() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            import elaunch.web.streaming as streaming

            before, streaming.MOST_STREAMS = streaming.MOST_STREAMS, 2
            try:
                for _ in range(2):
                    await next_of(await stream(one), "hello")
                status, document = await one.get("/api/stream?job=llm%2F7b%20%C3%A9")
                assert (status, document["error"]) == (429, "busy")
            finally:
                streaming.MOST_STREAMS = before

    run(test())


def test_streams_end_with_the_server() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            news = await stream(one)
            await next_of(news, "ranks")
        assert await next_of(news, "end")

    run(test())


def test_an_operator_restarts_the_job_from_the_page() -> None:
    async def test() -> None:
        async with world(actions=True) as one:
            await one.up()
            agent = asyncio.create_task(one.obey())
            status, document = await one.post({"command": "restart", "reason": "new data"})
            assert status == 200, document
            assert document["command"]["standing"] == "done"
            assert one.term.job.generation == 2
            assert "web@127.0.0.1: new data" in one.term.job.reason.text
            _, job = await one.get(PATH)
            assert job["commands"][0]["kind"] == "restart"
            agent.cancel()

    run(test())


def test_what_the_job_refuses_is_refused_on_the_page_in_its_words() -> None:
    async def test() -> None:
        async with world(actions=True) as one:
            await one.up()
            status, document = await one.post({"command": "drain", "reason": "fan", "node": "gpu-00"})
            assert status == 409
            assert "without gpu-00 the job would have 0 of at least 1 nodes" in document["text"]
            assert (await one.post({"command": "drain", "reason": "fan", "node": "gpu-77"}))[0] == 404
            assert one.term.job.phase is Phase.RUNNING

    run(test())


def test_the_page_and_the_metrics_tell_the_same_parts_of_the_time() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            one.beat(7)
            await one.until(lambda: one.term.job.accounts.first_step == 7)
            _, job = await one.get(PATH)
            told = job["goodput"]
            assert told["total_seconds"] > 0
            assert told["useful_seconds"] + sum(told["lost"].values()) == pytest.approx(told["total_seconds"], abs=0.01)
            _, text = await one.get("/metrics")
            causes = set(re.findall(r'elaunch_lost_seconds_total\{cause="(\w+)"', text))
            assert causes == told["lost"].keys()

    run(test())
