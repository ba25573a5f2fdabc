"""What the start check adds to ``init_process_group``, with and without it by turns in the same ranks.

The bar is 5 ms for each rank: the difference of the medians, of the rank with the greatest. Where there are more ranks
than cores, they wait for a core for longer than for one another: that is in the figures too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import report

ROOT = Path(__file__).resolve().parents[1]
WORLDS = (2, 4, 8)
BAR = 5.0  # milliseconds


def measure(ranks: int, times: int) -> dict[str, list[list[float]]]:
    """Seconds of each rank, by way."""
    with tempfile.TemporaryDirectory() as out:
        argv = ["-m", "elaunch", "--standalone", f"--nproc-per-node={ranks}", "--quiet", "--hang-timeout=off"]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {**os.environ, "OUT": out, "TIMES": str(times), "PYTHONPATH": path}
        program = str(ROOT / "bench" / "initialising.py")
        subprocess.run([sys.executable, *argv, program], env=env, check=True, timeout=60 + 15 * times)
        found = [json.loads((Path(out) / f"{rank}.json").read_text()) for rank in range(ranks)]
    return {way: [rank[way][1:] for rank in found] for way in ("plain", "checked")}  # the first one imports


def main() -> int:
    options = report.options(__doc__ or "")
    times, seen = 15 if options.quick else 60, report.machine()
    samples: report.Samples = {}
    bars = []
    for ranks in WORLDS[: 2 if options.quick else None]:
        took = measure(ranks, times)
        for way, seconds in took.items():
            samples[f"init_process_group {way}, {ranks} ranks"] = [s for rank in seconds for s in rank]
        pairs = zip(took["checked"], took["plain"], strict=True)
        more = [1000 * (statistics.median(checked) - statistics.median(plain)) for checked, plain in pairs]
        name = f"start check, {ranks} ranks: ms more in a rank"
        bars.append(report.Bar(name, max(more), BAR))
    return report.finish(options.json, seen, samples, {}, bars)


if __name__ == "__main__":
    raise SystemExit(main())
