"""The list of jobs, and the ways from it and back."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.documents import job_row, make_job
from tests.browser.serving import Serving


def test_no_job_is_said_and_one_that_comes_appears(serving: Serving, tabs: Tabs) -> None:
    page = tabs.open(serving.url)
    expect(page.get_by_text("No jobs here.")).to_be_visible()
    serving.push(None, "jobs", {"at": 0, "jobs": [job_row(make_job("late"))]})
    expect(page.get_by_role("link", name="late")).to_be_visible()
    expect(page.get_by_text("No jobs here.")).to_be_hidden()


def test_the_list_says_what_ps_says_and_what_runs_stands_first(serving: Serving, tabs: Tabs) -> None:
    over, runs = make_job("a-over"), make_job("run7", 16)
    over[""].update(phase="failed", over=True, exit_code=92)
    serving.reset(over, runs)
    page = tabs.open(serving.url)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    said = [row.split("\t") for row in rows.all_inner_texts()]
    ages = [row[6] for row in said]
    assert all(re.fullmatch(r"step 1200, (6[3-9]|[7-9]\d) s ago", age) for age in ages), ages  # it counts on
    assert said == [
        [
            "run7",
            "►running",
            "3",
            "2 of 1:2",
            "16",
            "2 of 10",
            ages[0],
            "93 %",
            runs[""]["reason"]["text"],
        ],
        [
            "a-over",
            "✕failed",
            "3",
            "2 of 1:2",
            "16",
            "2 of 10",
            ages[1],
            "93 %",
            over[""]["reason"]["text"],
        ],
    ]


def test_links_lead_to_a_job_and_back(serving: Serving, tabs: Tabs) -> None:
    name = "team/run 7?#é%"
    serving.reset(make_job(name), make_job("other"))
    page = tabs.open(serving.url)
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"job {name}")
    expect(page).to_have_title(f"{name} - elaunch")
    page.get_by_role("link", name="gpu-01").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Node gpu-01")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"job {name}")
    tabs.reload(page)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"job {name}")
    page.go_back()
    expect(page.get_by_role("link", name="other")).to_be_visible()


def test_a_link_leads_to_a_part_of_the_page(serving: Serving, tabs: Tabs) -> None:
    serving.reset(make_job("run7"))
    page = tabs.open(f"{serving.url}#/job/run7/events")
    expect(page.get_by_role("heading", name="Events")).to_be_in_viewport()
    expect(page.get_by_role("heading", name="Events")).to_be_focused()


def test_a_job_that_is_not_there(serving: Serving, tabs: Tabs) -> None:
    tabs.expect("404")
    page = tabs.open(f"{serving.url}#/job/nobody")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such job")
    expect(page.get_by_role("alert")).to_have_text("no job 'nobody' in this etcd")
    page.get_by_role("link", name="All jobs").click()
    expect(page.get_by_text("No jobs here.")).to_be_visible()
    serving.reset(make_job("nobody"))
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("job nobody")
