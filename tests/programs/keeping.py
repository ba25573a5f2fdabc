"""A program without torch that speaks of checkpoints, as a test orders it to.

An order is a file $OUT/order-<generation>-<rank>-<number>.json, numbers from 0 on: {"do": "commit", "step": 5}, say.
What came of it is written down as steps.py does. Ends by itself once $OUT/stop exists.
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import elaunch
from elaunch.worker import ledger

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])


def record(event: str, **values: object) -> None:
    line = {"event": event, "rank": RANK, "generation": GENERATION, "pid": os.getpid(), "t": time.monotonic(), **values}
    with open(OUT / f"{GENERATION}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def commit(step: int, digest: str = "ab12", timeout: float = 10.0) -> ledger.Verdict:
    return ledger.commit(ledger.Commit(step, f"runs/a/step-{step}", digest, 1 << 20, 0.5), timeout)


def obey(do: str, step: int = -1, code: int = 0, text: str = "", **more: Any) -> None:
    if do == "commit":
        verdict = commit(step, **more)
        record("commit", step=step, ruling=verdict.ruling.value, reason=verdict.reason)
    elif do == "commits":
        while not (OUT / "stop").exists():
            commit(step, timeout=0.3)
            step += 1
    elif do == "restoring":
        ledger.restoring(step, f"runs/a/step-{step}")
    elif do == "restored":
        ledger.restored(step, f"runs/a/step-{step}")
    elif do == "missing":
        ledger.missing(step, text)
    elif do == "tell":
        ledger.tell(text, "the disk is full")
    elif do == "step":
        elaunch.step(step)
    elif do == "exit":
        sys.exit(code)
    record("done", do=do, step=step)


point, who = ledger.restore_point(), ledger.identity()
assert who is not None
plan = {"step": point.step, "avoid": point.avoid, "recorded": point.recorded, "rewinds": point.rewinds}
record("start", **plan, who=[who.job, who.generation, who.rank])
orders = (OUT / f"order-{GENERATION}-{RANK}-{number}.json" for number in itertools.count())
order = next(orders)
while not (OUT / "stop").exists():
    if order.exists():
        obey(**json.loads(order.read_text()))
        order = next(orders)
    time.sleep(0.01)
record("end")
