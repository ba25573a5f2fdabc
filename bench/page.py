"""How soon the page of a job is there: its first paint, and the grid of its ranks, in a real Chromium.

Each visit is a new browser context, so that nothing is cached. Both servers are on this machine, and visited by turns:
a leader of 4,096 ranks, which are values, with the page as it serves it; and the server of the page's tests with a job
of one rank, for what the page costs by itself.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.browser.documents import make_job  # noqa: E402
from tests.browser.leading import JOB, SLOTS, Leading  # noqa: E402
from tests.browser.serving import Serving  # noqa: E402

BAR = 1.0  # seconds
RANKS = 4096
GRID = "elaunch-grid-painted"
_SEEN = f"() => performance.getEntriesByName('{GRID}').length && performance.getEntriesByType('paint').length"
_TIMES = f"""() => [performance.getEntriesByName('first-contentful-paint')[0].startTime,
  performance.getEntriesByName('{GRID}')[0].startTime]"""


def visit(browser: Any, address: str) -> tuple[float, float]:
    """Seconds from the start of the navigation to the first paint, and to the painted grid."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(address)
        page.wait_for_function(_SEEN, timeout=30_000)
        first, grid = page.evaluate(_TIMES)
        return first / 1000, grid / 1000
    finally:
        context.close()


def main() -> int:
    options = report.options(__doc__ or "")
    times, seen = 3 if options.quick else 15, report.machine()
    samples: report.Samples = {}
    chromium = shutil.which("chromium")
    if chromium is None:
        print("there is no chromium: tools/system-packages.sh installs it")
        return 1
    serving, leading = Serving(), Leading(RANKS // SLOTS)
    serving.reset(make_job("one", 1))
    pages = ((f"{serving.url}#/job/one", 1), (f"{leading.url}#/job/{JOB}", RANKS))
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            visit(browser, pages[0][0])  # the browser itself starts slowly
            for _ in range(times):
                for address, ranks in pages:
                    first, grid = visit(browser, address)
                    samples.setdefault(f"first paint, {ranks} ranks", []).append(first)
                    samples.setdefault(f"grid painted, {ranks} ranks", []).append(grid)
            browser.close()
    finally:
        serving.stop()
        leading.stop()
    names = (f"first paint, {RANKS} ranks", f"grid painted, {RANKS} ranks")
    bars = [report.Bar(f"{name}: s", report.median(samples, name), BAR) for name in names]
    return report.finish(options.json, seen, samples, {}, bars)


if __name__ == "__main__":
    raise SystemExit(main())
