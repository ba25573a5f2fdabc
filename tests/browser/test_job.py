"""A job's page: the same facts in the same words as the command line's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from elaunch.cli.show import span
from tests.browser.conftest import Tabs
from tests.browser.documents import HANG, KILLED, make_event, make_job
from tests.browser.serving import Serving

COST = "A failure now would cost"
LOADING = 40  # seconds that the page may take to come


def facts(page: Any) -> dict[str, str]:
    """Terms and what they are, at the head of the page."""
    page.locator(".facts dt").first.wait_for()
    pairs = page.locator(".facts > div").evaluate_all("all => all.map(one => [...one.children].map(e => e.innerText))")
    return {term: text.replace("\n", "; ") for term, text in pairs}


def test_times_are_said_as_the_command_line_says_them(serving: Serving, tabs: Tabs) -> None:
    page = tabs.open(serving.url)
    seconds = [0, 0.4, 1.6, 59.7, 119.9, 120, 3599, 7199, 7200, 9001, 86400, 172799, 172800, 1e7]
    said = page.evaluate(
        "async (all) => { const w = await import('/assets/words.js'); return all.map(w.span) }", seconds
    )
    assert said == [span(one) for one in seconds]


def test_the_head_tells_where_the_job_stands(serving: Serving, tabs: Tabs) -> None:
    serving.reset(make_job("run7"))
    page = tabs.open(f"{serving.url}#/job/run7")
    said = facts(page)
    (age,), (cost,) = re.findall(r"(\d+) s ago", said["Last checkpoint"]), re.findall(r"(\d+) s of", said[COST])
    assert 63 <= int(age) < 63 + LOADING
    assert int(age) - 3 <= int(cost) <= int(age) - 1  # both count on
    assert said == {
        "Generation": "3; went on from step 1100",
        "Restarts": "2 of 10; 8 left",
        "World": "16 ranks; 2 nodes of 1:2",
        "Step": "1260; 1.90 s a step",
        "Last checkpoint": f"step 1200; {age} s ago, 45 GiB, saved in 4.20 s",
        COST: f"60 steps; {cost} s of work",
        "Goodput": "93.1 %; useful 112 min of 2.0 h",
        "Led by": "gpu-00; 10.0.0.1:4711",
    }
    expect(page.locator(".state")).to_have_text("►running since 14 min")
    expect(page.locator(".summary .why")).to_have_text(KILLED)
    expect(page.locator("#section-hang")).to_be_hidden()


def test_a_job_of_which_little_is_known(serving: Serving, tabs: Tabs) -> None:
    job = make_job("run7")
    unknown = (
        "step",
        "step_seconds",
        "checkpoint",
        "cost",
        "goodput",
        "leader",
        "restored_step",
        "max_restarts",
        "reason",
    )
    job[""].update(dict.fromkeys(unknown), live=False, live_error="no answer in 5 s", phase="waiting", nodes=[])
    job[""].update(waiting_for="1 of 2 nodes is here: gpu-00")
    job["ranks"].update(columns={name: [] for name in job["ranks"]["columns"]}, world_size=0)
    job["generations"]["generations"], job["ports"]["ports"] = [], []
    job.events.clear()
    serving.reset(job)
    page = tabs.open(f"{serving.url}#/job/run7")
    told = facts(page)
    assert told["Last checkpoint"] == "none; nothing is committed"
    assert told["Led by"] == "nobody"
    assert "A failure now would cost" not in told
    expect(page.locator(".summary .why")).to_have_text("1 of 2 nodes is here: gpu-00")
    expect(page.get_by_text("The leader does not answer (no answer in 5 s): as etcd has it.")).to_be_visible()
    for said in ("No rank runs.", "No generation has begun.", "Nothing has happened yet.", "No port is watched"):
        expect(page.get_by_text(said)).to_be_visible()


def test_each_phase_of_a_recovery_has_its_seconds(serving: Serving, tabs: Tabs) -> None:
    serving.reset(make_job("run7", recovered=False))
    page = tabs.open(f"{serving.url}#/job/run7")
    items = page.locator(".timeline > li")
    expect(items).to_have_count(3)
    expect(items.nth(0).locator(".generation")).to_contain_text("so far")
    expect(items.nth(0).locator(".spans li").last).to_contain_text("so far")
    spans = [text.strip() for text in items.nth(1).locator(".spans li").all_inner_texts()]
    assert spans == [
        "detection 5.10 s",
        "abort 8.20 s",
        "rendezvous 0.30 s",
        "start 12.4 s",
        "restore 9.70 s",
        "first step 2.40 s",
    ]
    widths = items.nth(1).locator(".track span").evaluate_all("all => all.map(e => e.getBoundingClientRect().width)")
    assert widths[3] / widths[1] == pytest.approx(12.4 / 8.2, rel=0.05)
    expect(items.nth(1).locator(".generation")).to_contain_text("38.1 s to the first step")


def test_events_come_as_they_happen_and_each_once(serving: Serving, tabs: Tabs) -> None:
    serving.reset(make_job("run7"))
    page = tabs.open(f"{serving.url}#/job/run7")
    lines = page.locator("#section-events li")
    expect(lines).to_have_count(5)
    expect(lines.first).to_contain_text("checkpoint_committed step 1200 of generation 3 is committed")
    told = make_event(6, "rank_failed", "rank 3 (gpu-00) exited with 1", level="error")
    serving.tell("run7", told)
    serving.push("run7", "event", told)
    expect(lines).to_have_count(6)
    expect(lines.first).to_contain_text("rank_failed rank 3 (gpu-00) exited with 1")
    expect(lines.first.locator("time")).to_contain_text(re.compile(r"\d s ago"))


def test_a_hang_names_the_culprit_who_waits_and_the_stacks(serving: Serving, tabs: Tabs) -> None:
    job = make_job("run7", 16, hang=True)
    serving.reset(job)
    page = tabs.open(f"{serving.url}#/job/run7")
    hang = page.locator("#section-hang")
    expect(hang.get_by_role("alert")).to_contain_text(HANG)
    expect(hang.locator("tbody tr")).to_have_text(
        re.compile(r"^5gpu-00cuda:5 GPU-1234-5mlx5_5:1train\.py:88 in load in section 'data'1260[6-9]\d s$")
    )
    waiting = re.compile(r"^ranks 0-4, 6-15 wait in all_reduce float32\[1024\] for rank 5, since [6-9]\d s\.$")
    expect(hang.get_by_text(waiting)).to_be_visible()
    expect(hang.locator(".stacks h4")).to_have_text(["rank 5 (gpu-00)to blame", "ranks 0-4, 6-15"])
    expect(hang.locator("pre").first).to_contain_text('File "train.py", line 88 in load')
    serving.push("run7", "hang", {"job": "run7", "hang": {**job["hang"]["hang"], "now": False}})
    expect(hang.get_by_text("The last hang.")).to_be_visible()
    expect(hang.get_by_role("alert")).to_have_count(0)


def test_a_node_has_its_picture_and_its_ports(serving: Serving, tabs: Tabs) -> None:
    serving.reset(make_job("run7"))
    page = tabs.open(f"{serving.url}#/job/run7/node/node0000")
    picture = page.get_by_role("img", name="The machine of gpu-00")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 420
    rows = page.locator("#section-ports tbody tr")
    expect(rows).to_have_count(8)
    expect(rows.first).to_have_text(
        re.compile(
            r"^mlx5_0:1gpu-000down \(Polling\)400 Gbit/s0 bit/s-12 symbol_erroris down \(Polling\), since [1-5]\d s$"
        )
    )
    expect(rows.nth(1)).to_have_text("mlx5_1:1gpu-001active400 Gbit/s96 Gbit/s88 Gbit/s--")


def test_a_node_without_a_picture_says_why(serving: Serving, tabs: Tabs) -> None:
    job = make_job("run7")
    job.pictures["node0000"] |= {"svg": None, "text": None, "why": "gpu-00 has not told its machine"}
    serving.reset(job)
    page = tabs.open(f"{serving.url}#/job/run7/node/node0000")
    expect(page.get_by_text("gpu-00 has not told its machine")).to_be_visible()
