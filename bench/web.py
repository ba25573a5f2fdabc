"""The page and /metrics of a job of 512 nodes of 8 ranks, and what they cost the leader.

The agents are simulated (bench/fleet.py); controller, etcd and HTTP are the real ones. Measured are a scrape of
/metrics, the documents of a page that is opened, and, in alternation in the same run, the time from a rank's death
until every node has the command to abort, with nobody looking and with pages open and scrapes going on. Where a
Chromium is here, also the time until it has painted the page for the first time.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohttp
import report
from processes import ROOT, NotInTimeError
from report import Bar, Samples

from controller import World, abort, world

SLOTS = 8
WATCHERS = 4
FRESH = 5.2  # seconds after which nothing of a scrape is used again: what took long is kept for longer
GRID = "elaunch-grid-painted"  # the mark that elaunch/web/page/ranks.js leaves
PAGE = ROOT / "elaunch" / "web" / "page" / "index.html"
Note = Callable[[str, float], None]


async def url_of(made: World) -> str:
    """Where the controller serves its page."""
    for _ in range(600):
        for line in made.log.read_text().splitlines():
            if '"web_listening"' in line:
                return str(json.loads(line)["url"])
        await asyncio.sleep(0.1)
    raise NotInTimeError("the controller serves no page")


async def timed(session: aiohttp.ClientSession, url: str) -> tuple[float, int]:
    """Seconds until the answer was there, and its bytes."""
    began = time.monotonic()
    async with session.get(url) as response:
        assert response.status == 200, await response.text()
        body = await response.read()
    return time.monotonic() - began, len(body)


async def job_of(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(f"{url}/api/jobs") as response:
        return str((await response.json())["jobs"][0]["job"])


@asynccontextmanager
async def watched(session: aiohttp.ClientSession, url: str, job: str) -> AsyncIterator[None]:
    """Pages are open, and a Prometheus scrapes every second."""

    async def look() -> None:
        async with session.get(f"{url}/api/stream?job={job}") as response:
            async for _ in response.content.iter_any():
                pass

    async def scrape() -> None:
        while True:
            await timed(session, f"{url}/metrics")
            await asyncio.sleep(1.0)

    tasks = [asyncio.create_task(work) for work in (*(look() for _ in range(WATCHERS)), scrape())]
    try:
        await asyncio.sleep(2.0)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def documents(
    made: World, session: aiohttp.ClientSession, url: str, job: str, repetitions: int, note: Note
) -> None:
    for _ in range(repetitions):
        await asyncio.sleep(FRESH)
        cpu, began = made.cpu(), time.monotonic()
        await asyncio.sleep(1.0)
        idle = (made.cpu() - cpu) / (time.monotonic() - began)
        cpu = made.cpu()
        seconds, _ = await timed(session, f"{url}/metrics")
        note("CPU seconds of the leader for a scrape", max(0.0, made.cpu() - cpu - idle * seconds))
        for name, path in (
            ("scrape", "/metrics"),
            ("scrape with a series for each rank", "/metrics?ranks=1"),
            ("all ranks", f"/api/jobs/{job}/ranks"),
            ("the job", f"/api/jobs/{job}"),
        ):
            await asyncio.sleep(FRESH)
            seconds, size = await timed(session, url + path)
            note(name, seconds)
        note("all ranks, MiB", size / 2**20)


async def painted(url: str, job: str, repetitions: int, note: Note) -> None:
    """Seconds until Chromium has painted the job's page for the first time, and until all ranks are on it."""
    chromium = shutil.which("chromium")
    if chromium is None or not PAGE.exists():
        print("first paint: left out, as there is no Chromium here, or no page", flush=True)
        return
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(repetitions):
            page = await browser.new_page()
            await page.goto(f"{url}/#/job/{quote(job, safe='')}")
            for name, mark in (("first paint", "first-contentful-paint"), ("all ranks painted", GRID)):
                script = f"() => performance.getEntriesByName('{mark}')[0]?.startTime"
                await page.wait_for_function(script, timeout=20_000)
                note(name, float(await page.evaluate(script)) / 1000)
            await page.close()
        await browser.close()


async def measure(nodes: int, repetitions: int) -> tuple[Samples, Counter[str]]:
    samples: Samples = {}
    failed: Counter[str] = Counter()

    def note(name: str, value: float) -> None:
        samples.setdefault(name, []).append(value)
        print(f"{name:52} {value:8.3f}", flush=True)

    async def aborted(name: str, made: World) -> None:
        times = sorted(await abort(made))
        note(name, times[int(len(times) * 0.99)])

    try:
        async with world(nodes, SLOTS, "--web=127.0.0.1:0") as made, aiohttp.ClientSession() as session:
            url = await url_of(made)
            job = await job_of(session, url)
            await asyncio.sleep(5.0)
            await documents(made, session, url, job, repetitions, note)
            for _ in range(repetitions):
                await aborted("abort, 99 % of nodes, nobody looks", made)
                async with watched(session, url, job):
                    cpu, began = made.cpu(), time.monotonic()
                    await aborted(f"abort, 99 % of nodes, {WATCHERS} pages and scrapes", made)
                    await asyncio.sleep(2.0)
                    note("share of one core, watched", (made.cpu() - cpu) / (time.monotonic() - began))
            await painted(url, job, repetitions, note)
    except NotInTimeError as error:
        failed[f"{nodes} nodes"] += 1
        print(error, flush=True)
    return samples, failed


def bars(samples: Samples, nodes: int) -> list[Bar]:
    ranks = nodes * SLOTS

    def of(start: str, take: Callable[[list[float]], Any] = statistics.median) -> float | None:
        return next((take(values) for name, values in samples.items() if name.startswith(start)), None)

    alone, watched_ = of("abort, 99 % of nodes, nobody"), of(f"abort, 99 % of nodes, {WATCHERS}")
    later = watched_ - alone if alone is not None and watched_ is not None else None
    found = [
        Bar(f"{ranks} ranks, a scrape, seconds", of("scrape"), 0.2),
        Bar(f"{ranks} ranks, a scrape, CPU seconds of the leader", of("CPU seconds"), 0.2),
        Bar(f"{ranks} ranks, abort later while watched, seconds", later, 0.1),
    ]
    if "first paint" in samples:
        found.append(Bar(f"{ranks} ranks, first paint, seconds", of("first paint"), 1.0))
    return found


def main() -> int:
    parser = report.parser(__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, metavar="N", help="another number of nodes (512)")
    options = parser.parse_args()
    seen = report.machine()
    print("  ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
    nodes = options.nodes or (64 if options.quick else 512)
    samples, failed = asyncio.run(measure(nodes, 3 if options.quick else 7))
    return report.finish(options.json, seen, samples, failed, bars(samples, nodes))


if __name__ == "__main__":
    sys.exit(main())
