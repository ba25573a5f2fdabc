"""The grid of ranks: with one and with thousands, by mouse, by keyboard, and read out."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.documents import make_job
from tests.browser.serving import Serving

PAINTED = "() => performance.getEntriesByName('elaunch-grid-painted').length"
COLOUR = """([x, y]) => { const c = document.querySelector('.grid canvas'), s = devicePixelRatio;
  return [...c.getContext('2d').getImageData((x + 3) * s, (y + 3) * s, 1, 1).data].slice(0, 3) }"""


def grid_of(serving: Serving, tabs: Tabs, ranks: int, **how: Any) -> Any:
    serving.reset(make_job("run7", ranks, **how))
    page = tabs.open(f"{serving.url}#/job/run7")
    page.wait_for_function(PAINTED)
    return page


def said(page: Any) -> Any:
    return page.locator(".grid-frame [role=status]")


@pytest.mark.parametrize("ranks", [1, 4096])
def test_every_rank_has_a_cell(serving: Serving, tabs: Tabs, ranks: int) -> None:
    page = grid_of(serving, tabs, ranks)
    grid = page.get_by_role("application")
    expect(grid).to_have_accessible_name(f"{ranks} ranks. {ranks} running")
    grid.focus()
    page.keyboard.press("End")
    expect(said(page)).to_contain_text(f"Rank {ranks - 1}, running, host gpu-")
    expect(page.locator(".panel")).to_contain_text(f"Rank {ranks - 1} running")
    expect(page.locator(".ring")).to_be_in_viewport()


def test_a_cell_tells_host_device_nic_rail_and_step(serving: Serving, tabs: Tabs) -> None:
    page = grid_of(serving, tabs, 16)
    page.locator(".grid canvas").hover(position={"x": 3 + 28 * 3 + 10, "y": 10})  # once it stands still
    panel = page.locator(".panel")
    expect(panel).to_contain_text("Rank 3 running")
    shown = dict(
        panel.locator(".inline > div").evaluate_all("all => all.map(d => [...d.children].map(e => e.innerText))")
    )
    assert shown == {
        "Host": "gpu-00",
        "Step": "1259",
        "Lag": "1 step",
        "Device": "cuda:3 GPU-1234-3",
        "NIC": "mlx5_3:1",
        "Rail": "3",
        "Local rank": "3",
        "Pid": "4003",
        "Start": "checked",
    }
    page.mouse.move(0, 0)
    expect(panel).to_contain_text("Rank 0 running")


def test_arrow_keys_move_as_the_eye_does(serving: Serving, tabs: Tabs) -> None:
    page = grid_of(serving, tabs, 4096, hang=True)
    page.get_by_role("application").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(said(page)).to_have_text(
        re.compile(
            r"Rank 5, others wait for it, host gpu-00, step 1260, device cuda:5 GPU-1234-5, NIC mlx5_5:1, rail 5; "
            r"4095 ranks wait for it; no progress since \d\d s, in section 'data', at train.py:88 in load\."
        )
    )
    page.keyboard.press("ArrowDown")
    expect(said(page)).to_contain_text("device cuda:5")
    expect(said(page)).not_to_contain_text("Rank 5,")
    page.keyboard.press("ArrowUp")
    expect(said(page)).to_contain_text("Rank 5,")
    page.keyboard.press("Home")
    expect(said(page)).to_contain_text("Rank 0, waits in a collective")


def test_colour_by_lag_and_what_changes(serving: Serving, tabs: Tabs) -> None:
    tabs.expect("willReadFrequently")
    page = grid_of(serving, tabs, 16)
    legend = page.get_by_role("list", name="What the cells mean")
    assert page.evaluate(COLOUR, [28 * 3 + 10, 24]) == page.evaluate(COLOUR, [28 * 2 + 10, 24])
    page.get_by_role("radio", name="step lag").check()
    expect(legend).to_have_text("14 0 steps behind2 1 behind")
    assert page.evaluate(COLOUR, [28 * 3 + 10, 24]) != page.evaluate(COLOUR, [28 * 2 + 10, 24])
    columns = {"state": [8, 1], "lag": [40, 0], "step": [1220, 1260], "where": [3, 3], "progress_age": [0.0, 20.0]}
    delta = {"at": time.time(), "generation": 3, "tables": {"places": ["train.py:99 in save"]}, "index": [1, 2]}
    serving.push("run7", "ranks_delta", {**delta, "columns": columns})
    expect(legend).to_have_text("13 0 steps behind2 1 behind1 20 or more behind")
    page.get_by_role("radio", name="state").check()
    expect(legend).to_have_text("1 failed1 waits in a collective14 running")
    page.get_by_role("spinbutton", name="Go to rank").fill("1")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("Rank 1, failed, host gpu-00, step 1220, 40 steps behind")
    expect(page.locator(".panel")).to_contain_text("at train.py:99 in save")
    other = {**delta, "generation": 2, "tables": {}, "columns": {"state": [0, 0]}}
    serving.push("run7", "ranks_delta", other)
    serving.push("run7", "ranks", make_job("run7", 8)["ranks"])
    expect(page.get_by_role("application")).to_have_accessible_name("8 ranks. 8 running")


def test_the_same_as_a_table(serving: Serving, tabs: Tabs) -> None:
    page = grid_of(serving, tabs, 4096, hang=True)
    page.get_by_text("The ranks as a table").click()
    rows = page.locator(".as-table tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Next").click()
    expect(rows.first.locator("th")).to_have_text("100")
    expect(page.get_by_text("101-200 of 4096")).to_be_visible()
    page.get_by_label("State", exact=True).select_option(label="others wait for it")
    expect(rows).to_have_text(["5gpu-00others wait for it12600cuda:5 GPU-1234-5mlx5_5:15train.py:88 in load"])


def test_no_such_rank(serving: Serving, tabs: Tabs) -> None:
    page = grid_of(serving, tabs, 16)
    field = page.get_by_role("spinbutton", name="Go to rank")
    field.fill("16")
    page.keyboard.press("Enter")
    assert field.evaluate("input => input.validationMessage") == "There is no such rank."
    expect(page.locator(".panel")).to_contain_text("Rank 0")
