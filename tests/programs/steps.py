"""A program for tests: all-reduces in steps, and writes down what happens, one JSON line an event.

$OUT is a directory. Each rank appends to $OUT/<generation>-<rank>.jsonl. It goes on until $OUT/stop exists, which the
ranks agree on in the all-reduce. A file $OUT/fault, {"where", "rank", "generation", "how"}, makes a rank end there:
"how" is a signal number, or "raise" or "exit". It makes it hang there with "how" being "sleep", "lock" (an endless
loop in C that holds the interpreter lock) or "mismatch" (a collective that the others are not in), and slower each time
by "seconds" with "slow".
"""

import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path

import elaunch

OUT = Path(os.environ["OUT"])
PACE = float(os.environ.get("PACE", "0.02"))
RANK = int(os.environ["RANK"])
GENERATION = int(os.environ["ELAUNCH_GENERATION"])
NAMES = [
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "OMP_NUM_THREADS",
    "ELAUNCH_GENERATION",
    "ELAUNCH_NODE_ID",
]


def record(event: str, **values: object) -> None:
    line = {
        "event": event,
        "rank": RANK,
        "generation": GENERATION,
        "pid": os.getpid(),
        "t": time.monotonic(),
        **values,
    }
    with open(OUT / f"{GENERATION}-{RANK}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def fault(where: str) -> None:
    try:
        wish = json.loads((OUT / "fault").read_text())
    except (FileNotFoundError, ValueError):
        return
    if (wish["where"], wish["rank"], wish["generation"]) != (where, RANK, GENERATION):
        return
    record("fault", where=where)
    if wish["how"] == "raise":
        raise RuntimeError(f"asked to fail at {where}")
    if wish["how"] == "exit":
        sys.exit(3)
    if wish["how"] == "lock":
        any(itertools.repeat(False))
    if wish["how"] == "mismatch":
        other_collective()
    if wish["how"] == "slow":
        time.sleep(wish["seconds"])
        return
    if wish["how"] != "sleep":
        os.kill(os.getpid(), wish["how"])
    while True:
        time.sleep(60)


def other_collective() -> None:
    import torch
    import torch.distributed as dist

    dist.broadcast(torch.zeros(7), 0)


def main() -> None:
    record("start", env={name: os.environ.get(name) for name in NAMES}, argv=sys.argv, cwd=os.getcwd())
    import torch
    import torch.distributed as dist

    fault("before_init")
    dist.init_process_group("gloo")
    record("init")
    weight = torch.ones(8, requires_grad=True)
    step = 0
    while True:
        stop = torch.tensor([float((OUT / "stop").exists()), 1.0])
        fault("all_reduce")
        dist.all_reduce(stop)
        loss = (weight * RANK).sum()
        weight.register_hook(lambda grad: fault("backward")) if step == 0 else None
        loss.backward()
        fault("between_steps")
        step += 1
        record("step", step=step, world=int(stop[1]))
        if "TELL_STEPS" in os.environ:
            elaunch.step(step)
        if stop[0] > 0:
            break
        time.sleep(PACE)
    dist.destroy_process_group()
    record("end")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from torch.distributed.elastic.multiprocessing.errors import record as recorded

    recorded(main)()
