"""That no text of a job becomes more than text, and that the page's files keep to the policy they are served under."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.documents import make_event, make_job
from tests.browser.serving import PAGE, Serving

EVIL = "<script>window.hit=1</script><img src=x onerror='window.hit=2'>\"'&amp;\u202e{{7*7}}"


def hostile(value: Any) -> Any:
    """Each text with markup behind it, but for the words that the page goes by."""
    if isinstance(value, dict):
        return {key: one if key in _KEPT else hostile(one) for key, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return value + EVIL if isinstance(value, str) and value else value


_KEPT = ("job", "node_id", "states", "svg")


@pytest.mark.parametrize("place", ["", "/node/node0000"])
def test_hostile_texts_stay_texts(serving: Serving, tabs: Tabs, place: str) -> None:
    tabs.expect("404")
    job = make_job("run7", 16, hang=True)
    job.documents = hostile(job.documents)
    job.documents[""]["leader"] |= {"here": False, "web": "javascript:window.hit=3"}
    job.documents[""]["commands"] = hostile(
        [{"id": "c", "kind": "k", "who": "w", "at": 1.0, "reason": "r", "standing": "s", "answer": "a"}]
    )
    job.events = [make_event(1, "code" + EVIL, "text" + EVIL, level="info" + EVIL) | {"who": EVIL, "why": EVIL}]
    job.pictures = hostile(job.pictures)
    job.pictures["node0000"]["svg"] = job.pictures["node0000"]["svg"].replace("</svg>", f"{EVIL}</svg>")
    evil = make_job(EVIL)
    serving.reset(job, evil)
    page = tabs.open_as_operator(f"{serving.url}#/job/run7{place}")
    expect(page.get_by_text(EVIL).first).to_be_visible()
    if not place:
        page.get_by_role("application").focus()
        page.get_by_text("The ranks as a table").click()
        page.get_by_role("button", name="Drain a node...").click()
        page.keyboard.press("Escape")
    page.goto(f"{serving.url}#/")
    page.get_by_role("link", name=EVIL[:20]).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(EVIL)
    assert page.evaluate("[window.hit, document.querySelectorAll('main script, main [onerror]').length]") == [None, 0]
    assert page.locator("a[href^=javascript]").count() == 0


def test_the_policy_is_the_one_that_forbids_inline_code(serving: Serving, tabs: Tabs) -> None:
    tabs.expect("CSP|inline|Content Security Policy")
    page = tabs.open(serving.url)
    with page.expect_console_message(lambda message: "CSP script-src" in message.text):
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hit = 1'}))"
        )
    assert page.evaluate("window.hit") is None


def test_the_files_name_nothing_outside_and_nothing_inline() -> None:
    files = sorted(PAGE.iterdir())
    assert {path.suffix for path in files} == {".html", ".css", ".js", ".svg"}
    for path in files:
        text = path.read_text()
        outside = set(re.findall(r"""["'(](?:https?:)?//[^"')]*""", text)) - {'"http://www.w3.org/2000/svg'}
        assert not outside, path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            path
        )
    page = (PAGE / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", page)


def test_every_module_is_fetched_at_once() -> None:
    """A module that is found only when another has come costs a round trip."""
    page = (PAGE / "index.html").read_text()
    named = set(re.findall(r'(?:modulepreload" href|src)="/assets/(\w+\.js)"', page))
    assert named == {path.name for path in PAGE.glob("*.js")}


def test_the_page_is_part_of_the_package() -> None:
    import tomllib

    data = tomllib.loads((PAGE.parents[2] / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "elaunch"
    ]
    assert "web/page/*" in data, json.dumps(data)
