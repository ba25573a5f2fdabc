"""Soak: a training on three hosts of a laboratory, a random fault every so many seconds, and invariants that must hold.

Needs root (docs/soak.md). The faults come from ``--seed``: the same seed is the same course. While it runs, invariants
are watched from outside: in the ranks' own files, the directory of checkpoints, /proc and etcd. The first that is
broken ends the run with 1, and what is left is kept.

Goodput is useful time by all time, from the begin of the first step to the end. Useful are the steps that count (those
that were done again count once) times the usual length of a step, which is the median of all. The rest is lost:
in pauses, each by the fault that brought it about, and in steps that took longer than usual. A recovery is a pause:
from the last step before it to the first one that had not been done before it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from soaking.broken import INVARIANTS  # noqa: E402
from soaking.course import ALL, FAILURES, drawn, told  # noqa: E402
from soaking.figures import spread  # noqa: E402
from soaking.planting import PLANTS  # noqa: E402
from soaking.run import Result, Wish, soak  # noqa: E402

from elaunch.inject import Planned  # noqa: E402
from elaunch.lab import NoGroundError, impossible  # noqa: E402

QUICK = 90.0  # seconds
COLUMNS = ("min", "median", "p90", "max")
SLOWEST = 45.0  # seconds that a recovery may take, at the 90th percentile
CANNOT = 3  # exit code where this machine does not let it
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOST = 0.75  # share of the time that faults may cost, one every twenty seconds


def options() -> argparse.Namespace:
    made = report.parser(__doc__ or "", quick=f"faults for {QUICK:.0f} seconds")
    made.add_argument("--minutes", type=float, default=10.0, help="how long faults come (10; --quick: 1.5)")
    made.add_argument("--every", type=float, default=20.0, metavar="SECONDS", help="from one fault to the next (20)")
    made.add_argument("--seed", type=int, help="of the faults (by chance, and printed)")
    made.add_argument("--kinds", type=lambda text: text.split(","), default=ALL, help="of faults, with commas (all)")
    made.add_argument("--list", action="store_true", help="print the faults of the seed, and run nothing")
    made.add_argument("--keep", action="store_true", help="keep logs and history where all went well, too")
    made.add_argument("--plant", choices=PLANTS, default="", help="break this invariant on purpose")
    given = made.parse_args()
    given.seconds = QUICK if given.quick else given.minutes * 60
    given.seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    return given


def table(result: Result) -> None:
    """Recoveries and losses by kind of fault."""
    print(f"\n{'recoveries: seconds':24} {'n':>4} " + " ".join(f"{name:>8}" for name in (*COLUMNS, "lost")))
    kinds = sorted({one.kind for one in result.recoveries})
    for kind in [*kinds, "all"]:
        found = spread([one.seconds for one in result.recoveries if kind in ("all", one.kind)])
        shown = " ".join(f"{found[name]:8.2f}" if name in found else f"{'-':>8}" for name in COLUMNS)
        lost = sum(one.seconds for one in result.recoveries if kind in ("all", one.kind))
        print(f"{kind:24} {found['n']:4} {shown} {lost:8.2f}")
    if (good := result.goodput) is not None:
        print(
            f"\ngoodput {good.ratio:.1%}: {good.useful:.1f} s of {good.total:.1f} s useful ({result.steps} steps of "
            f"{good.step * 1000:.0f} ms that count, {result.redone} done again), "
            f"{sum(good.lost.values()):.1f} s in pauses, {good.slow:.1f} s in slow steps"
        )
    refused = [one for one in result.happened if one.refused]
    print(f"{len(result.happened)} faults, {len(refused)} of them had nobody to hit; {result.generations} generations")


def broken(result: Result, again: str) -> None:
    """One line: what, when, and how to see it again; then the faults so far."""
    error = result.broken
    assert error is not None
    faults = "; ".join(" ".join(told(one.planned).split()) for one in result.happened) or "none"
    print(f"\nBROKEN {error.invariant} after {result.seconds:.1f} s: {error.text} | {again} | faults so far: {faults}")
    print(f"that is: {INVARIANTS[error.invariant]}\nevidence: {result.folder}\nagain: {again}")


def main() -> int:
    given = options()
    again = f"python bench/soak.py --seed {given.seed} --minutes {given.seconds / 60:g} --every {given.every:g}"
    again += "" if given.kinds == ALL else f" --kinds {','.join(given.kinds)}"
    try:
        course = drawn(given.seed, given.seconds, given.every, given.kinds)
    except ValueError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2
    print(again)
    if given.list:
        print("\n".join(map(told, course)))
        return 0
    if given.json and not os.access(given.json.parent, os.W_OK):
        print(f"soak: --json {given.json}: it cannot be written there", file=sys.stderr)
        return 2
    if why := impossible():
        print(f"soak: there can be no laboratory here: {why}", file=sys.stderr)
        return CANNOT
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupted)
    try:
        return run(given, course, again)
    except (NoGroundError, *FAILURES) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"soak: this machine does not let it go on: {text[:500]} | {again}", file=sys.stderr)
        return CANNOT


def interrupted(number: int, _frame: object) -> None:
    """The first one ends all that runs; those that come meanwhile would leave it running."""
    for other in SIGNALS:
        signal.signal(other, lambda *_: None)
    print(f"soak: interrupted by {signal.Signals(number).name}", file=sys.stderr, flush=True)
    sys.exit(128 + number)


def run(given: argparse.Namespace, course: Sequence[Planned], again: str) -> int:
    """The exit code."""
    seen = report.machine()
    print(f"{seen}\n")
    result = soak(Wish(tuple(course), given.seconds, given.plant, given.keep))
    table(result)
    samples: report.Samples = {}
    for one in result.recoveries:
        samples.setdefault(f"recovery, {one.kind}", []).append(one.seconds)
    found = spread([one.seconds for one in result.recoveries])
    good = result.goodput
    bars = [
        report.Bar("invariants broken", 1.0 if result.broken else 0.0, 0.0),
        report.Bar("recovery, 90th percentile: s", found.get("p90", 0.0), SLOWEST),
        report.Bar("time that is not goodput: share", 1 - good.ratio if good else None, LOST),
    ]
    facts = {**seen, "seed": given.seed, "seconds": given.seconds, "every": given.every, "again": again}
    code = report.finish(given.json, facts, samples, {}, bars)
    if result.broken is not None:
        broken(result, again)
        return 1
    if given.keep:
        print(f"kept: {result.folder}")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
