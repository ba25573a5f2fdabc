"""Who is let in over HTTP, and what another page in the same browser cannot do."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from web_world import run, world

from elaunch.controller.access import Security, parse_tokens
from elaunch.rendezvous.records import Phase
from elaunch.rendezvous.tls import Tls
from elaunch.web.acting import asked
from elaunch.web.doors import bare_host
from elaunch.web.options import parse_web
from elaunch.web.refusals import Refused

OPERATOR, VIEWER, AGENT = "o" * 32, "v" * 32, "a" * 32
SECURED = Security(tokens=parse_tokens(f"operator {OPERATOR}\nviewer {VIEWER}\nagent {AGENT}"))
OF_JOB = ("", "/ranks", "/events", "/hang", "/ports", "/generations", "/topology/n")
READS = ("/api/jobs", "/api/stream", "/api/stream?job=x", "/metrics", *(f"/api/jobs/x{part}" for part in OF_JOB))
ABORT = {"command": "abort", "reason": "for a test"}


@pytest.mark.slow
def test_with_tokens_reading_takes_a_viewer_and_acting_an_operator() -> None:
    async def test() -> None:
        async with world(SECURED) as one:
            await one.up()
            for path in READS:
                assert (await one.get(path))[0] == 401, path
                assert (await one.get(path, "x" * 32))[1]["error"] == "wrong_token", path
                assert (await one.get(path, AGENT))[0] == 403, path
            assert (await one.get("/api/jobs", VIEWER))[0] == 200
            assert (await one.get("/metrics", VIEWER))[0] == 200
            for token, status in (("", 401), (VIEWER, 403), (AGENT, 403), ("x" * 32, 401)):
                assert (await one.post(ABORT, token))[0] == status
            assert one.term.job.phase is Phase.RUNNING
            assert one.server.counters.refused["web: wrong_token"] == len(READS) + 1
            _, me = await one.get("/api/whoami", VIEWER)
            assert (me["role"], me["can_read"], me["can_act"], me["token_needed"]) == ("viewer", True, False, True)
            assert (await one.get("/api/whoami", OPERATOR))[1]["can_act"]
            status, document = await one.post(ABORT, OPERATOR)
            assert (status, document.get("command", {}).get("kind")) == (202, "abort"), document
            await one.until(lambda: one.term.job.phase is Phase.ABORTING)

    run(test())


@pytest.mark.slow
def test_without_a_token_file_nobody_acts_unless_it_was_asked_for() -> None:
    async def test() -> None:
        async with world() as one:
            await one.up()
            status, document = await one.post(ABORT)
            assert (status, document["error"]) == (403, "actions_off")
            assert "--token-file" in document["text"]
            assert (await one.post(ABORT, OPERATOR))[0] == 403
            assert (await one.get("/api/whoami"))[1]["actions"] == []
            assert one.term.job.phase is Phase.RUNNING

    run(test())


@pytest.mark.slow
def test_another_page_cannot_act_or_read_in_its_place() -> None:
    async def test() -> None:
        async with world(actions=True, names=("elaunch.example",)) as one:
            await one.up()
            forged: list[dict[str, Any]] = [
                {"X-Elaunch": ""},
                {"Origin": "https://evil.example"},
                {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"},
                {"Host": "evil.example"},
            ]
            for headers in forged:
                status, document = await one.post(ABORT, **headers)
                assert (status, document["error"]) in ((403, "origin"), (403, "host")), headers
            assert (await one.post(ABORT, **{"Content-Type": "text/plain"}))[0] == 415
            assert (await one.get("/api/jobs", Host="evil.example"))[1]["error"] == "host"
            for host in ("elaunch.example", "localhost:1", "[::1]:80", "10.1.2.3"):
                assert (await one.get("/api/jobs", Host=host))[0] == 200, host
            async with one.session.options(f"{one.url}/api/jobs/x/commands") as response:
                assert response.status == 405
                assert "Access-Control-Allow-Origin" not in response.headers
            assert one.term.job.phase is Phase.RUNNING

    run(test())


@pytest.mark.slow
def test_answers_say_how_they_may_be_used() -> None:
    async def test() -> None:
        async with world() as one:
            for path in ("/", "/api/whoami", "/api/nothing", "/metrics"):
                async with one.session.get(one.url + path) as response:
                    policy = response.headers["Content-Security-Policy"]
                    assert "default-src 'none'" in policy
                    assert "unsafe" not in policy
                    assert response.headers["X-Content-Type-Options"] == "nosniff"
                    assert response.headers["X-Frame-Options"] == "DENY"

    run(test())


@pytest.mark.slow
def test_with_certificates_the_page_is_served_over_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=elaunch"
    names = ["-addext", "subjectAltName=DNS:elaunch", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *words.split(), *names], check=True, capture_output=True)

    async def test() -> None:
        async with world(Security(tls=Tls(cert, key))) as one:
            assert one.url.startswith("https://")
            trust = ssl.create_default_context(cafile=str(cert))
            async with one.session.get(f"{one.url}/api/whoami", ssl=trust, server_hostname="elaunch") as response:
                assert response.status == 200
                assert "Strict-Transport-Security" not in response.headers  # it would hold for all ports of the host
            with pytest.raises(aiohttp.ClientError):
                await one.session.get(f"{one.url.replace('https', 'http')}/api/whoami")

    run(test())


@pytest.mark.slow
def test_a_request_that_is_too_large_is_not_taken() -> None:
    async def test() -> None:
        async with world(actions=True) as one:
            assert (await one.post(b'{"command": "abort", "reason": "' + b"x" * 20_000 + b'"}'))[0] == 413
            assert (await one.get("/api/jobs", Cookie="x" * 50_000))[0] == 400

    run(test())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"command": "kill", "reason": "x"}',
        b'{"command": "abort"}',
        b'{"command": "abort", "reason": " "}',
        b'{"command": "restart", "reason": "x", "from_step": "7"}',
        b'{"command": "restart", "reason": "x", "from_step": true}',
        b'{"command": "drain", "reason": "x"}',
        b'{"command": "drain", "reason": "x", "node": ""}',
        b'{"command": "abort", "reason": "x", "node": "h"}',
        b'{"command": "scale", "reason": "x", "min_nodes": 1}',
    ],
)
def test_what_is_no_command_is_refused_at_the_door(body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        asked(body)
    assert caught.value.status == 400


def test_a_command_is_written_as_the_command_line_writes_it() -> None:
    assert asked(b'{"command": "restart", "reason": "x"}') == ("restart", "x", {"from_step": -1})
    assert asked(b'{"command": "scale", "reason": "x", "min_nodes": 1, "max_nodes": 2}')[2] == {
        "min_nodes": 1,
        "max_nodes": 2,
    }


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("8080", "127.0.0.1", 8080), ("0.0.0.0:80", "0.0.0.0", 80), ("[::1]:9", "::1", 9), ("gpu-01:0", "gpu-01", 0)],
)
def test_where_to_listen(text: str, host: str, port: int) -> None:
    assert (parse_web(text).host, parse_web(text).port) == (host, port)


@pytest.mark.parametrize(("text", "actions"), [("x", False), ("h:x", False), ("70000", False), ("0.0.0.0:80", True)])
def test_where_not_to_listen(text: str, actions: bool) -> None:
    with pytest.raises(ValueError, match=r"expected|loopback"):
        parse_web(text, actions)


def test_a_host_is_read_without_its_port() -> None:
    assert [bare_host(h) for h in ("GPU-01:80", "[::1]:80", "a.b.", "10.0.0.1")] == ["gpu-01", "::1", "a.b", "10.0.0.1"]


def test_nothing_of_the_server_is_imported_before_it_is_asked_for() -> None:
    code = "import sys, elaunch.cli.main, elaunch.cli.options, elaunch.cli.controller, elaunch.agent.membership as m;"
    code += "sys.exit(any(name in sys.modules for name in ('aiohttp', 'prometheus_client', 'torch')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], timeout=60).returncode == 0
