"""Abort, restart, drain: who may, and what is sent."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.documents import make_job
from tests.browser.serving import OPERATOR, VIEWER, Serving

JOB = "#/job/run7"
KINDS = ["Abort...", "Restart...", "Drain a node..."]


def test_without_the_role_there_are_no_buttons(serving: Serving, tabs: Tabs) -> None:
    serving.reset(make_job("run7"))
    for token in (None, VIEWER):
        page = tabs.open(f"{serving.url}{JOB}", token=token)
        expect(page.get_by_role("button", name="Operator token..." if token is None else "Token...")).to_be_visible()
        expect(page.locator(".facts dt").first).to_be_visible()
        expect(page.locator(".commands *")).to_have_count(0)
    serving.acts = False
    page = tabs.open_as_operator(f"{serving.url}{JOB}")
    expect(page.locator(".facts dt").first).to_be_visible()
    expect(page.locator(".commands *")).to_have_count(0)


def test_a_command_takes_a_reason_and_a_token(serving: Serving, tabs: Tabs) -> None:
    serving.reset(make_job("run7"))
    page = tabs.open_as_operator(f"{serving.url}{JOB}")
    expect(page.locator(".commands button")).to_have_text(KINDS)
    page.get_by_role("button", name="Restart...").click()
    dialog = page.get_by_role("dialog", name="Restart the ranks: run7")
    send = dialog.get_by_role("button", name="Restart the ranks")
    send.click()
    assert serving.posted == []
    dialog.get_by_label("From the checkpoint of step").fill("1000")
    dialog.get_by_label("Reason").fill("  new <data> ")
    expect(dialog.get_by_label("Operator's token")).to_have_value(OPERATOR)
    send.click()
    expect(dialog.get_by_role("status")).to_have_text("done: so it is")
    assert serving.posted == [("run7", {"command": "restart", "reason": "new <data>", "from_step": 1000})]
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_each_command_says_what_it_means(serving: Serving, tabs: Tabs) -> None:
    serving.reset(make_job("run7"))
    page = tabs.open_as_operator(f"{serving.url}{JOB}")
    page.get_by_role("button", name="Abort...").click()
    page.get_by_label("Save the ranks' stacks first").check()
    page.get_by_label("Reason").fill("wrong data")
    page.get_by_role("button", name="Abort the job").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("done: so it is")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Drain a node...").click()
    page.get_by_label("Node", exact=True).select_option("node0001")
    page.get_by_label("Reason").fill("bad fan")
    page.get_by_role("button", name="Drain the node").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("done: so it is")
    assert [asked for _, asked in serving.posted] == [
        {"command": "abort", "reason": "wrong data", "evidence": True},
        {"command": "drain", "reason": "bad fan", "node": "node0001"},
    ]


def test_a_refusal_is_told_and_can_be_tried_again(serving: Serving, tabs: Tabs) -> None:
    tabs.expect("403")
    serving.reset(make_job("run7"))
    page = tabs.open_as_operator(f"{serving.url}{JOB}")
    page.get_by_role("button", name="Abort...").click()
    page.get_by_label("Reason").fill("wrong data")
    page.get_by_label("Operator's token").fill(VIEWER)
    page.get_by_role("button", name="Abort the job").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("Not done: an operator's token is needed")
    page.get_by_label("Operator's token").fill(OPERATOR)
    page.get_by_role("button", name="Abort the job").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("done: so it is")
    assert len(serving.posted) == 1


def test_a_job_that_is_over_takes_no_commands(serving: Serving, tabs: Tabs) -> None:
    job = make_job("run7")
    serving.reset(job)
    page = tabs.open_as_operator(f"{serving.url}{JOB}")
    expect(page.locator(".commands button")).to_have_count(3)
    serving.push("run7", "job", {**job[""], "phase": "failed", "over": True, "exit_code": 92})
    expect(page.locator(".commands button")).to_have_count(0)
    expect(page.locator(".state")).to_have_text("✕failed exit code 92")
