"""Who uses the page without a mouse, without seeing it, on a phone, in the dark."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Tabs
from tests.browser.documents import make_job
from tests.browser.serving import OPERATOR, Serving

AXE = Axe()
JOB = "#/job/run7"


def serve(serving: Serving) -> None:
    job = make_job("run7", 16, hang=True, recovered=False)
    job[""]["commands"] = [
        {"id": "c1", "kind": "restart", "who": "me@login", "at": 1796056400.0, "reason": "new data"}
        | {"standing": "refused", "answer": "nothing runs", "exit_code": 68}
    ]
    job[""].update(
        suspect_steps=[60], stragglers=[{"rank": 17, "ratio": 2.4}], drained=[{"host": "gpu-09", "why": "fan"}]
    )
    serving.reset(job)


def violations(page: Any) -> list[str]:
    found = AXE.run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{one['id']}: {one['help']}: {[node['html'][:150] for node in one['nodes'][:3]]}" for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(serving: Serving, tabs: Tabs, scheme: str) -> None:
    serve(serving)
    tabs.expect("404")
    page = tabs.open_as_operator(serving.url, color_scheme=scheme, reduced_motion="reduce")
    page.get_by_role("link", name="run7").wait_for()
    found = {"list": violations(page)}
    page.get_by_role("link", name="run7").click()
    page.get_by_role("application").wait_for()
    page.get_by_text("The ranks as a table").click()
    found["job"] = violations(page)
    page.get_by_role("button", name="Drain a node...").click()
    found["dialog"] = violations(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Token...").click()
    found["token"] = violations(page)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="gpu-01", exact=True).click()
    page.get_by_role("img", name="The machine of gpu-01").wait_for()
    found["node"] = violations(page)
    page.goto(f"{serving.url}#/job/nobody")
    page.get_by_role("alert").wait_for()
    found["error"] = violations(page)
    serving.reset()
    page.goto(f"{serving.url}#/")
    page.get_by_text("No jobs here.").wait_for()
    found["empty"] = violations(page)
    assert found == {view: [] for view in found}


def test_axe_would_find_something(serving: Serving, tabs: Tabs) -> None:
    page = tabs.open(serving.url)
    page.get_by_text("No jobs here.").wait_for()
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert [one.split(":")[0] for one in violations(page)] == ["button-name"]


@pytest.mark.parametrize("address", ["", JOB, f"{JOB}/node/node0000"])
def test_nothing_is_wider_than_a_phone(serving: Serving, tabs: Tabs, address: str) -> None:
    serve(serving)
    page = tabs.open_as_operator(f"{serving.url}{address}", viewport=PHONE, has_touch=True)
    page.get_by_text("run7").first.wait_for()
    page.wait_for_function("document.querySelector('td, .ring:not([hidden])')")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    if address == JOB:
        page.get_by_role("button", name="Restart...").click()
        box = page.get_by_role("dialog").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]


def test_the_keyboard_alone_is_enough(serving: Serving, tabs: Tabs) -> None:
    serve(serving)
    page = tabs.open(serving.url)
    page.get_by_role("link", name="run7").wait_for()

    def tab_to(role: str, name: str) -> Any:
        wanted = page.get_by_role(role, name=name)
        wanted.first.wait_for()
        for _ in range(40):
            page.keyboard.press("Tab")
            if wanted.evaluate_all("all => all.includes(document.activeElement)"):
                return wanted
        raise AssertionError(f"no way to {role} {name}")

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    tab_to("link", "run7")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    tab_to("application", "16 ranks")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".panel")).to_contain_text("Rank 1 waits in a collective")
    page.keyboard.press("Shift+Tab")
    page.evaluate("document.querySelector('h1').focus()")
    page.keyboard.press("Shift+Tab")
    page.get_by_role("button", name="Operator token...").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Token")).to_be_focused()
    page.keyboard.type(OPERATOR)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("heading", level=1).wait_for()
    tab_to("button", "Abort...")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Reason (stands in the events)")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("button", name="Abort...")).to_be_focused()
    assert serving.posted == []


def test_colours_can_be_switched_and_stay(serving: Serving, tabs: Tabs) -> None:
    page = tabs.open(serving.url, color_scheme="dark")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_label("Colours").select_option("light")
    assert page.evaluate(ground) == "rgb(255, 255, 255)" != dark
    tabs.reload(page)
    assert page.evaluate(ground) == "rgb(255, 255, 255)"


def test_who_wants_no_motion_gets_none(serving: Serving, tabs: Tabs) -> None:
    serve(serving)
    still = tabs.open(f"{serving.url}{JOB}", reduced_motion="reduce")
    still.locator(".under-way").first.wait_for()
    running = "document.getAnimations().length"
    assert still.evaluate(running) == 0
    moving = tabs.open(f"{serving.url}{JOB}", reduced_motion="no-preference")
    moving.locator(".under-way").first.wait_for()
    assert moving.evaluate(running) > 0
