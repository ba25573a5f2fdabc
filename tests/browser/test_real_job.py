"""The page as the leader of a real job serves it: what happens to the ranks is seen, and what is asked for is done."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.documents import make_job
from tests.browser.serving import OPERATOR, VIEWER, Serving
from tests.e2e.harness import PROGRAMS, ROOT, Job, wait_until

NAME = "page/<i>real</i>"
ADDRESS = "#/job/page%2F%3Ci%3Ereal%3C%2Fi%3E"
POST = """async ([name, token, headers]) => {
  const sent = { ...headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const body = JSON.stringify({ command: 'abort', reason: 'forged' });
  const path = `/api/jobs/${encodeURIComponent(name)}/commands`;
  const answer = await fetch(path, { method: 'POST', headers: sent, body });
  return [answer.status, (await answer.json()).error];
}"""
PARTS = ("", "/ranks", "/generations", "/events", "/hang", "/ports")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Four ranks that step, led by their own agent, which serves the page; with tokens."""
    out = tmp_path_factory.mktemp("job")
    tokens = out / "tokens"
    tokens.write_text(f"operator {OPERATOR}\nviewer {VIEWER}\nagent token-of-agents-of-tests\n")
    tokens.chmod(0o600)
    options = ["--standalone", "--nproc-per-node=4", "--max-restarts=3", f"--rdzv-id={NAME}", "--start=exec"]
    made = Job(out, [*options, "--web=0", f"--token-file={tokens}"], (str(PROGRAMS / "paged.py"),))
    made.agent(ELAUNCH_RUNTIME_DIR=str(out / "runtime"))
    yield made
    assert made.close(within=60) == []


@pytest.fixture(scope="module")
def url(job: Job) -> str:
    def listening() -> str | None:
        found = re.search(r"web_listening.*?(http://[\d.:]+)", job.agents[0].output())
        return found[1] if found else None

    return f"{wait_until('the page', listening)}/"


def status(job: Job) -> dict[str, Any]:
    """What the command line says."""
    argv = [sys.executable, "-m", "elaunch", "status", NAME, "--json", f"--token-file={job.out / 'tokens'}"]
    env = {"PYTHONPATH": str(ROOT), "ELAUNCH_RUNTIME_DIR": str(job.out / "runtime"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_viewer_sees_the_job_and_cannot_act(job: Job, url: str, tabs: Tabs) -> None:
    tabs.expect("40[13]")
    closed = tabs.open(f"{url}{ADDRESS}")
    expect(closed.get_by_role("heading", level=1)).to_have_text("A token is needed")
    page = tabs.open(f"{url}{ADDRESS}", token=VIEWER)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"job {NAME}")
    expect(page.get_by_role("application")).to_have_accessible_name("4 ranks. 4 running")
    expect(page.locator(".gate")).to_contain_text("viewer")
    expect(page.locator(".commands *")).to_have_count(0)
    ours = {"Content-Type": "application/json", "X-Elaunch": "1"}
    assert page.evaluate(POST, [NAME, None, ours]) == [401, "no_token"]
    assert page.evaluate(POST, [NAME, "a-token-that-is-made-up", ours]) == [401, "wrong_token"]
    assert page.evaluate(POST, [NAME, VIEWER, ours]) == [403, "role"]
    assert page.evaluate(POST, [NAME, OPERATOR, {"Content-Type": "application/json"}]) == [403, "origin"]
    assert job.agents[0].process.poll() is None


def test_a_failure_and_the_way_back_are_seen(job: Job, url: str, tabs: Tabs) -> None:
    page = tabs.open(f"{url}{ADDRESS}", token=VIEWER)
    expect(page.locator(".timeline > li")).to_have_count(1)
    (job.out / "fail3").touch()
    expect(page.locator(".timeline h3").first).to_have_text("Generation 2")
    expect(page.locator(".timeline > li").first.locator(".generation")).to_contain_text("to the first step")
    spans = page.locator(".timeline > li").first.locator(".spans li").all_inner_texts()
    assert [re.sub(r" [\d.]+ m?s$", "", text.strip()) for text in spans][-1] == "start"
    told = status(job)
    assert told["reason"]["text"].startswith("rank 3 (local rank 3, pid ")
    expect(page.locator(".summary .why")).to_have_text(told["reason"]["text"])
    expect(page.locator(".badge")).to_contain_text(told["phase"])
    shown = page.locator(".facts dd").all_inner_texts()
    assert shown[:2] == [str(told["generation"]), f"1 of 3\n{told['budget_left']} left"]
    for line in told["events"][-3:]:
        expect(page.locator("#section-events").get_by_text(line["text"]).first).to_be_visible()


def test_a_hang_shows_who_is_to_blame(job: Job, url: str, tabs: Tabs) -> None:
    page = tabs.open(f"{url}{ADDRESS}", token=VIEWER)
    expect(page.locator(".badge")).to_contain_text("running")
    (job.out / "hang2").touch()
    hang = page.locator("#section-hang")
    expect(hang.locator("tbody tr th")).to_have_text("2")
    expect(hang.locator("tbody tr")).to_contain_text("in load in section 'load'")
    expect(hang.locator(".stacks h4").first).to_contain_text("rank 2")
    expect(hang.locator(".stacks .culprit pre")).to_contain_text("paged.py")
    expect(page.locator(".timeline h3").first).to_have_text("Generation 3")


def test_the_tests_own_server_tells_what_the_real_one_tells(job: Job, url: str, serving: Serving) -> None:
    """Each member that the page is tested with is there, and of the same kind."""
    serving.reset(make_job(NAME, 4, hang=True))
    paths = ["/api/whoami", "/api/jobs", *(f"/api/jobs/{quote(NAME, safe='')}{part}" for part in PARTS)]
    made, real = ({path: shape(had(start, path)) for path in paths} for start in (serving.url, url))
    differ = {path: {one for one in made[path] if not told(one, dict(real[path]))} for path in paths}
    assert differ == {path: set() for path in paths}


def had(start: str, path: str) -> Any:
    request = urllib.request.Request(start.rstrip("/") + path, headers={"Authorization": f"Bearer {OPERATOR}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
        return json.load(answer)


def shape(value: Any, name: str = "") -> set[tuple[str, str]]:
    """The names of all members with their kinds; of a list, of all that is in it."""
    if isinstance(value, dict):
        return {one for key, member in value.items() for one in shape(member, f"{name}.{key}")}
    if isinstance(value, list):
        return {(name, "list")} | {one for member in value for one in shape(member, f"{name}[]")}
    kinds = {bool: "bool", int: "number", float: "number", str: "text", type(None): "nothing"}
    return {(name, kinds[type(value)])}


def told(made: tuple[str, str], real: dict[str, str]) -> bool:
    """Whether the real server tells this too, or has nothing where it would stand: no checkpoint, no ports."""
    name, kind = made
    above = [name[:at] for at, letter in enumerate(name) if letter in ".[" and at]
    if any(real.get(one) == "nothing" for one in above):
        return True
    if any(real.get(one) == "list" and not any(f.startswith(f"{one}[]") for f in real) for one in above):
        return True
    return name in real and (kind == real[name] or "nothing" in (kind, real[name]))


def test_an_operator_restarts_and_aborts(job: Job, url: str, tabs: Tabs) -> None:
    tabs.expect("404|ERR_|410")
    page = tabs.open_as_operator(f"{url}{ADDRESS}")
    page.get_by_role("link", name=re.compile("."), exact=False).first.wait_for()
    page.locator("#section-nodes a").first.click()
    picture = page.get_by_role("img", name=re.compile("The machine of"))
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    page.go_back()
    page.get_by_role("button", name="Restart...").click()
    page.get_by_label("Reason").fill("new <b>data</b>")
    page.get_by_role("button", name="Restart the ranks").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text(re.compile("done|accepted"))
    page.get_by_role("button", name="Close").click()
    expect(page.locator(".timeline h3").first).to_have_text("Generation 4")
    expect(page.locator("#section-events").get_by_text("new <b>data</b>").first).to_be_visible()
    expect(page.locator("#section-commands li").first).to_contain_text("new <b>data</b>")
    page.get_by_role("button", name="Abort...").click()
    page.get_by_label("Reason").fill("enough")
    page.get_by_role("button", name="Abort the job").click()
    assert job.agents[0].wait() == 94
