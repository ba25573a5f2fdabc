"""A program without torch that counts steps, keeps its place in a JSON file, and saves when it is given notice.

$OUT is a directory that all hosts see. Rank 0 saves each fifth step, and the last one before it stops; each rank writes
down its starts and its end in $OUT/starts.jsonl. It ends by itself after $STEPS steps, of 0.1 s each, or once
$OUT/finish is there; rank N fails while $OUT/fail-N is. With the argument ``record`` each checkpoint is recorded with
the job's leader, and only each tenth step is saved.

Where there is a checkpoint of a generation, all its ranks listen for notice, and have begun from the same one. With
$APART each rank has an $OUT of its own, and that does not hold.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

import elaunch
from elaunch.worker import ledger

OUT = Path(os.environ["OUT"])
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])
STEPS = int(os.environ.get("STEPS", "1000000"))
RECORDED = sys.argv[1:] == ["record"]
EVERY = 10 if RECORDED else 5
SAVED = OUT / "checkpoint.json"


def record(event: str, **values: object) -> None:
    line = {
        "event": event,
        "rank": RANK,
        "world": WORLD,
        "host": socket.gethostname(),
        "generation": GENERATION,
        "job": os.environ["ELAUNCH_JOB"],
        "restarts": int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        "t": time.time(),
        **values,
    }
    with (OUT / "starts.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def save(step: int) -> None:
    if RANK == 0:
        draft = SAVED.with_suffix(".new")
        draft.write_text(json.dumps({"step": step}))
        draft.replace(SAVED)
        if RECORDED:
            ledger.commit(ledger.Commit(step, str(SAVED), "00"), 5.0)


def await_others() -> None:
    """Rank 0 steps once all ranks have started: what it saves, one that is late would go on from."""
    while RANK == 0 and "APART" not in os.environ and not elaunch.should_stop():
        lines = [json.loads(line) for line in (OUT / "starts.jsonl").read_text().splitlines() if line.endswith("}")]
        if sum(line["event"] == "start" and line["generation"] == GENERATION for line in lines) >= WORLD:
            return
        time.sleep(0.02)


def main() -> None:
    step = json.loads(SAVED.read_text())["step"] if SAVED.exists() else 0
    elaunch.should_stop()  # who has started listens: a SIGTERM from now on is notice, and not its end
    record("start", step=step)
    await_others()
    while step < STEPS and not (OUT / "finish").exists():
        elaunch.step(step)
        time.sleep(0.1)
        step += 1
        if (OUT / f"fail-{RANK}").exists():
            sys.exit(3)
        if step % EVERY == 0:
            save(step)
        if elaunch.should_stop():
            save(step)
            record("noticed", step=step, left=elaunch.time_left())
            return
    save(step)
    record("done", step=step)


main()
