"""The page of real controllers and of a real agent: what it says of jobs that run, break, hang and end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from elaunch.metrics.catalogue import METRICS
from tests.e2e.conftest import MakeJob
from tests.e2e.controllers import Controllers
from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.e2e.pages import Page, Stream, url_of
from tests.etcd.servers import free_port

pytestmark = pytest.mark.slow
PROGRAM = [str(PROGRAMS / "strolling.py")]
MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
OPERATOR, VIEWER = "o" * 32, "v" * 32


@pytest.fixture
def controllers(tmp_path: Path, etcd: str) -> Iterator[Controllers]:
    made = Controllers(tmp_path, etcd)
    yield made
    for one in made.all:  # in order, so that agents of later tests need not wait for their leases
        one.kill(signal.SIGTERM)
        one.wait()
    left = made.close()
    assert not left, left


def strolling(job: MakeJob, etcd: str, name: str, *options: str) -> Job:
    one = job(
        "--nnodes=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id={name}", "--start=exec",
        "--nproc-per-node=2", "--max-restarts=5", *options, program=PROGRAM,
    )  # fmt: skip
    for _ in range(2):
        one.agent()
    return one


def starts(one: Job, generation: int) -> list[dict[str, Any]]:
    return wait_until(
        f"4 ranks of generation {generation}",
        lambda: found if len(found := one.events("start", generation=generation)) == 4 else None,
    )


def test_jobs_of_controllers_are_shown_acted_on_and_scraped(
    job: MakeJob, etcd: str, controllers: Controllers, tmp_path: Path
) -> None:
    """One job through a killed rank, a hang and a restart; seen at the controller that leads it, and at another."""
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"operator {OPERATOR}\nviewer {VIEWER}\nagent {'a' * 32}\n")
    options = ("--web=127.0.0.1:0", f"--token-file={tokens}", "--lease-ttl=15")  # one leads all the time
    pages = [Page(url_of(controllers.start(*options)), VIEWER) for _ in range(2)]
    one = strolling(job, etcd, "paged", f"--token-file={tokens}")
    starts(one, 1)
    assert Page(pages[0].url).status("/api/jobs") == 401

    def here() -> list[bool]:
        rows = [next((row for row in page.get("/api/jobs")["jobs"] if row["job"] == "paged"), None) for page in pages]
        return [row["here"] for row in rows if row and row["phase"] == "running"]

    wait_until("both list it", lambda: sorted(here()) == [False, True])
    leader, other = sorted(pages, key=lambda page: not page.get("/api/jobs/paged")["leader"]["here"])
    wait_until("steps at both", lambda: all((page.get("/api/jobs/paged")["step"] or 0) > 3 for page in pages))
    stream = Stream(other, "paged")
    stream.event("job_working")

    os.kill(one.events("start", generation=1, rank=2)[0]["pid"], signal.SIGKILL)
    assert "SIGKILL" in stream.event("job_aborting")["text"]
    starts(one, 2)
    (one.out / "hang").write_text("1 2")
    starts(one, 3)
    hang = wait_until("stacks", lambda: (h := leader.get("/api/jobs/paged/hang")["hang"]) and h["stacks"] and h)
    assert (hang["culprits"][0]["rank"], hang["code"]) == (1, "section_overrun")
    assert hang["stacks"][0]["ranks"] == [[1, 1]]
    assert "load" in hang["stacks"][0]["text"]

    wait_until("at work again", lambda: len([e for e in stream.of("event") if e["code"] == "job_working"]) >= 3)
    rows = {row["generation"]: row for row in other.get("/api/jobs/paged/generations")["generations"]}
    assert {phase["phase"] for phase in rows[3]["phases"]} >= {"detection", "abort", "rendezvous", "start"}
    assert rows[2]["complete"]
    assert rows[2]["end"]["text"].startswith("rank 1 ")
    goodput = leader.get("/api/jobs/paged")["goodput"]
    parts = goodput["useful_seconds"] + sum(goodput["lost"].values())
    assert parts == pytest.approx(goodput["total_seconds"], abs=0.05)

    status, refused = leader.post("paged", command="restart", reason="a test")
    assert (status, refused["error"]) == (403, "role")
    status, done = Page(other.url, OPERATOR).post("paged", command="restart", reason="a test")
    assert status in (200, 202), done
    starts(one, 4)
    wait_until(
        "why it was started again",
        lambda: "web@127.0.0.1: a test" in leader.get("/api/jobs/paged")["reason"]["text"],
    )

    check_scrapes(tmp_path, pages, tokens)
    one.finish()
    assert [agent.wait() for agent in one.agents] == [0, 0], one.outputs()
    stream.event("job_succeeded")


def check_scrapes(tmp_path: Path, pages: list[Page], tokens: Path) -> None:
    """A real Prometheus with our rules scrapes both controllers, and has what the rules and the dashboard want."""
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        return  # told by tests/unit/metrics, which skip with the reason
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    shutil.copy(MONITORING / "elaunch.rules.yml", tmp_path)
    (tmp_path / "viewer").write_text(VIEWER)
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (scrape,) = config["scrape_configs"]
    scrape["static_configs"] = [{"targets": [page.url.removeprefix("http://") for page in pages]}]
    scrape["authorization"] = {"credentials_file": str(tmp_path / "viewer")}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    log = (tmp_path / "prometheus.log").open("wb")
    argv = [prometheus, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb",
            "--web.listen-address=127.0.0.1:0"]  # fmt: skip
    with log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        try:
            found = Page(f"http://127.0.0.1:{listening_port(process.pid)}")
            wait_until("two targets that are up", lambda: query(found, "sum(up)") == {(): 2.0})
            wait_until("generation 4", lambda: query(found, 'max(elaunch_generation{job_id="paged"})') == {(): 4.0})
            by_reason = query(found, "sum by (reason) (elaunch_restarts_total)")
            assert by_reason == {("operator_restart",): 1.0, ("rank_failed",): 1.0, ("section_overrun",): 1.0}
            names = {name for (name,) in query(found, 'count by (__name__) ({__name__=~"elaunch_.*"})')}
            assert {name for name in names if name.removesuffix("_bucket") in METRICS or name in METRICS} | {
                name for name in names if name.endswith(("_sum", "_count"))
            } == names
            rules = found.get("/api/v1/rules")["data"]["groups"]
            assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}
        finally:
            process.terminate()


def listening_port(pid: int) -> int:
    def port() -> int | None:
        found = [c for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        return int(found[0].laddr.port) if found else None

    return int(wait_until("prometheus", port))


def query(page: Page, text: str) -> dict[tuple[str, ...], float]:
    """The values of an expression by their labels' values."""
    if page.status("/-/ready") != 200:
        return {}
    rows = page.get(f"/api/v1/query?query={urllib.parse.quote(text)}")["data"]["result"]
    return {tuple(row["metric"].values()): float(row["value"][1]) for row in rows}


def test_a_small_job_serves_its_own_page_while_it_lives(job: MakeJob, tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    one = job(
        "--standalone", "--rdzv-id=small", "--start=exec", "--nproc-per-node=2", "--web=0", "--web-actions", "--otel",
        program=PROGRAM, env={"OTEL_TRACES_EXPORTER": "console", "ELAUNCH_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    agent = one.agent()
    page = Page(url_of(agent))
    assert page.get("/api/whoami")["serves"] == "agent"
    stream = Stream(page, "small")
    stream.event("job_working")
    picture = wait_until("a picture", lambda: page.get(f"/api/jobs/small/topology/{os.uname().nodename}")["svg"])
    assert picture.startswith("<svg")
    assert "elaunch_goodput_ratio{" in page.get("/metrics")
    assert page.status("/api/jobs/other") == 404
    one.finish()
    assert agent.wait() == 0, one.outputs()
    stream.join()
    assert stream.got[-2][0] in ("end", "event", "job")
    assert '"name": "start"' in agent.output()
    assert "Traceback" not in agent.output()


def test_a_port_that_is_taken_ends_no_job(job: MakeJob, tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        port = free_port()
        taken.bind(("127.0.0.1", port))
        taken.listen()
        one = job(
            "--standalone", "--start=exec", f"--web={port}", program=PROGRAM, env={"ELAUNCH_RUNTIME_DIR": str(tmp_path)}
        )
        agent = one.agent()
        wait_until("it is told", lambda: "web_not_served" in agent.output())
        assert str(port) in agent.output()
    assert Page(url_of(agent)).status("/api/whoami") == 200
    one.finish()
    assert agent.wait() == 0, one.outputs()
