"""What a flood of the page's server costs: a bounded number of connections, and of looks at the job."""

from __future__ import annotations

import asyncio
import contextlib
import math
from urllib.parse import urlsplit

import pytest
from web_world import PATH, run, world

from elaunch.controller.leader import Term
from elaunch.controller.operator_server import status_of
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.journal import one_line
from elaunch.web import exposition, listening, source
from elaunch.web.acting import asked
from elaunch.web.bodies import Body
from elaunch.web.refusals import Refused

pytestmark = pytest.mark.slow
REQUEST = b"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n"


def test_connections_are_bounded_and_there_is_room_again_when_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 8)

    async def test() -> None:
        async with world() as one:
            where = urlsplit(one.url)
            held = [await asyncio.open_connection(where.hostname, where.port) for _ in range(8)]
            for _, writer in held:
                writer.write(REQUEST)  # and no end of it
            await one.until(lambda: len(one.pages._runner.server.connections) == len(held))
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
            for _, writer in held:
                writer.close()
            await one.until(lambda: not one.pages._runner.server.connections)
            assert (await one.get("/api/whoami"))[0] == 200

    run(test())


def test_a_flood_of_scrapes_and_lists_is_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    async def counted(term: Term) -> pb.StatusReply:
        looks.append("")
        return status_of(term)

    monkeypatch.setattr(exposition, "status_aside", counted)
    monkeypatch.setattr(source, "status_aside", counted)
    encoded = 0
    of = Body.of

    def made(plain: bytes) -> Body:
        nonlocal encoded
        encoded += 1
        return of(plain)

    monkeypatch.setattr(Body, "of", made)

    async def test() -> None:
        async with world() as one:
            await one.up()
            one.beat(7)
            began = asyncio.get_running_loop().time()
            for path in ("/metrics?ranks=1", "/api/jobs", f"{PATH}/ranks"):
                found = await asyncio.gather(*(one.get(path) for _ in range(40)))
                assert {status for status, _ in found} == {200}
            took = asyncio.get_running_loop().time() - began
            assert len(looks) <= 6 + took / 0.2, f"{len(looks)} looks in {took} s"
            assert encoded <= 4 + took / 0.2

    run(test())


def test_who_takes_nothing_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "TAKE_WITHIN", 0.3)
    monkeypatch.setattr(listening, "_LOOK", 0.1)

    async def test() -> None:
        async with world() as one:
            where = urlsplit(one.url)
            _, writer = await asyncio.open_connection(where.hostname, where.port, limit=1)
            writer.transport.pause_reading()
            asked = b"GET /assets/main.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
            server = one.pages._runner.server
            for _ in range(400):
                writer.write(asked * 20)
                await asyncio.sleep(0.005)
                if any(c.transport and c.transport.get_write_buffer_size() for c in server.connections):
                    break
            else:
                raise AssertionError("the client takes all")
            await one.until(lambda: not server.connections)
            writer.close()

    run(test())


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_do_not_take_the_page_away(odd: float) -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            one.beat(7, progress_age=odd, step_age=odd, section_left=odd, where_age=odd, beat_age=odd)
            for path in (PATH, f"{PATH}/ranks", f"{PATH}/hang", f"{PATH}/generations", "/api/jobs"):
                status, document = await one.get(path)
                assert status == 200, (path, document)
            status, text = await one.get("/metrics?ranks=1")
            assert status == 200
            assert not [line for line in text.splitlines() if line.endswith("NaN")]

    run(test())


@pytest.mark.parametrize(
    "body", [rb'{"command":"abort","reason":"\ud800"}', rb'{"command":"drain","node":"\udc80","reason":"x"}']
)
def test_half_a_character_comes_into_no_job(body: bytes) -> None:
    with pytest.raises(Refused):
        asked(body)


def test_a_reason_of_the_command_line_that_is_no_text_fits_into_a_message() -> None:
    assert pb.StatusReply(reason=one_line("a \udcff b\n c")).reason == "a ? b c"
