"""report.html of a qualification in a real browser: small and large, light and dark, wide and narrow, by keyboard."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from elaunch.qualify.cells import Outcome
from elaunch.qualify.machines import rails
from elaunch.qualify.page import page as page_of
from elaunch.qualify.report import Report
from tests.browser.conftest import Tabs
from tests.browser.test_access import violations
from tests.unit.qualify.samples import full, report, result

NARROW = {"width": 390, "height": 800}
WIDE = {"width": 1280, "height": 900}


def large() -> Report:
    """4,096 ranks on 512 hosts, and 300 cells."""
    hosts = [f"gpu-{number:03d}.cluster.example" for number in range(512)]
    path = {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_SOCKET_IFNAME": "eth0"}
    outcomes = [Outcome.FAILED, Outcome.NOT_RUN, *[Outcome.OK] * 8]
    phases = {"detection": 1.5, "abort": 0.2, "start": 2.0}
    cells = [
        result(f"group{n % 12}/a-rather-long-name-{n}/at-a-point", outcomes[n % 10], "off by 3, " * 9 * (n % 10 < 2))
        for n in range(220)
    ]
    cells += [result(f"faults/kill-of-kind-{n}/at-a-point", phases=phases, detection=1.5) for n in range(80)]
    port = {"link_layer": "InfiniBand", "state": "active", "gbit": 400.0, "software": False, "role": "compute"}
    made = report(
        *cells,
        ranks=[
            {"rank": n, "host": hosts[n // 8], "device": "cuda", "backend": "nccl", "path": path, "rail": n % 8}
            for n in range(4096)
        ],
        topology=[
            {
                "host": host, "digest": "0123456789abcdef", "cores": 192, "load": 1.0, "numa": [], "notes": [],
                "ports": [{**port, "port": f"mlx5_{n}:1", "rail": n, "interfaces": []} for n in range(8)],
                "devices": [{"device": f"cuda:{n}", "model": "NVIDIA H100 80GB HBM3"} for n in range(8)],
            }
            for host in hosts
        ],
        ports=[
            {"host": host, "port": f"mlx5_{n}:1", "rail": n, "sent": 10**15, "received": 10**15, "errors": 0,
             "bytes_per_second": 4 * 10**10, "mbit": 400_000, "utilisation": 0.8}
            for host in hosts for n in range(8)
        ],
    )  # fmt: skip
    made.rails = rails(made.ports, made.topology)
    return made


def written(folder: Path, made: Report) -> str:
    file = folder / "report.html"
    file.write_text(page_of(made))
    return file.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing_and_nothing_is_too_wide(
    tabs: Tabs, tmp_path: Path, scheme: str, size: dict[str, int]
) -> None:
    made = full()
    made.put(replace(cell, name=f"{cell.name}/{'long-' * 12}", why=cell.why * 20) for cell in full().cells)
    page = tabs.open(written(tmp_path, made), color_scheme=scheme, viewport=size)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_large_cluster_remains_a_page(tabs: Tabs, tmp_path: Path, size: dict[str, int]) -> None:
    """Long tables and drawings scroll by themselves, and say what they leave out."""
    address = written(tmp_path, large())
    assert (tmp_path / "report.html").stat().st_size < 2 << 20
    page = tabs.open(address, viewport=size)
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    heights = page.evaluate("[...document.querySelectorAll('.drawing, .tall')].map((one) => one.clientHeight)")
    assert len(heights) >= 5
    assert max(heights) <= 600
    ranks = page.get_by_role("region", name="Path of each rank")
    assert ranks.locator("tbody tr").count() == 512
    assert page.get_by_text("3584 more are in report.json.").count() == 2
    expect(page.get_by_text("The 16 busiest of 4096.")).to_be_visible()
    rows = page.get_by_role("region", name="Traffic of the rails").locator("tbody tr")
    assert [row.split("\t")[:2] for row in rows.all_inner_texts()] == [[str(n), "512"] for n in range(8)]
    assert page.get_by_text("8 x NVIDIA H100 80GB HBM3", exact=True).count() == 512
    cut = "[...document.querySelectorAll('svg text')].filter((one) => one.getBBox().x < 0).map((one) => one.innerHTML)"
    assert page.evaluate(cut) == []


def test_cells_are_chosen_by_mouse_and_by_keyboard(tabs: Tabs, tmp_path: Path) -> None:
    page = tabs.open(written(tmp_path, full()))

    def shown() -> list[str]:
        return [row.locator("code").inner_text() for row in page.locator(".matrix tbody tr").all() if row.is_visible()]

    every = shown()
    assert len(every) == 4
    page.get_by_text("failed 1", exact=True).click()
    assert shown() == ["faults/stop/at-once"]
    page.get_by_text("all 4", exact=True).click()
    page.get_by_text("rails 1", exact=True).click()
    assert shown() == ["rails/slow-rail"]
    page.reload()

    def focused(name: str) -> bool:
        return bool(page.evaluate("(id) => document.activeElement.id === id", name))

    for _ in range(20):
        page.keyboard.press("Tab")
        if focused("o-all"):
            break
    assert focused("o-all")
    page.keyboard.press("ArrowRight")
    assert shown() == [name for name in every if name in ("ddp/plain", "faults/kill/backward")]
    label: Any = page.locator("label[for=o-ok]")
    assert label.evaluate("(one) => getComputedStyle(one).outlineStyle") == "solid"
    page.keyboard.press("Tab")
    assert focused("g-all")
    page.keyboard.press("ArrowRight")
    assert shown() == ["ddp/plain"]
