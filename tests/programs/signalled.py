"""A program for tests, without torch: $MODE polite (writes signals down and ends), deaf, or with a deaf grandchild.

Writes JSON lines to $OUT/<generation>-<rank>.jsonl as steps.py does, and ends by itself once $OUT/stop exists.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

OUT = Path(os.environ["OUT"])
RANK = int(os.environ["RANK"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


def record(event: str, **values: object) -> None:
    line = {"event": event, "rank": RANK, "generation": GENERATION, "pid": os.getpid(), "t": time.monotonic(), **values}
    with open(OUT / f"{GENERATION}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def told(signum: int, _: object) -> None:
    record("signal", signal=signum)
    if signum != signal.SIGUSR1:
        sys.exit(0)


mode = os.environ.get("MODE", "polite")
pids = [os.getpid()]
if mode == "polite":
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(signum, told)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, told)
if mode in ("deaf", "grandchild"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "grandchild":
    child = subprocess.Popen([sys.executable, "-c", DEAF], start_new_session=True, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    pids.append(child.pid)
record("start", env=dict(os.environ), argv=sys.argv)
record("ready", pids=pids)
while not (OUT / "stop").exists():
    time.sleep(0.02)
record("end")
