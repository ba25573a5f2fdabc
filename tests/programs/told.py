"""A program without torch: writes down how it was started, and ends as its first argument says.

$OUT is a directory; each rank writes $OUT/<node>-<rank>.jsonl, one line each time that it is started.
"""

import json
import os
import sys
import time
from pathlib import Path

GENERATION, RANK = int(os.environ["ELAUNCH_GENERATION"]), int(os.environ["RANK"])
LINE = {
    "event": "start",
    "rank": RANK,
    "generation": GENERATION,
    "pid": os.getpid(),
    "t": time.monotonic(),
    "argv": sys.argv,
    "executable": os.environ.get("SEEN_EXECUTABLE", sys.executable),
    "unbuffered": not sys.stdout.line_buffering and sys.stdout.write_through,
    "cpus": sorted(os.sched_getaffinity(0)),
    "env": dict(os.environ),
}


def main() -> None:
    with (Path(os.environ["OUT"]) / f"{GENERATION}-{RANK}.jsonl").open("a") as file:
        file.write(json.dumps(LINE) + "\n")
    # With their ends in one piece: print writes those by themselves, and another rank may come between.
    print(f"out of {RANK}: keep\n", end="")
    print(f"out of {RANK}: drop\n", end="")
    print(f"err of {RANK}\n", end="", file=sys.stderr)
    wish = sys.argv[1] if len(sys.argv) > 1 else "end"
    if wish == "wait":
        while not (Path(os.environ["OUT"]) / "stop").exists():
            time.sleep(0.02)
    elif wish == "fail_once" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(5)
    elif wish == "error_file":
        Path(os.environ["TORCHELASTIC_ERROR_FILE"]).write_text(json.dumps({"message": "plain words"}))
        sys.exit(6)
    elif wish == "timer" and RANK == 1:
        arm()
    elif wish == "stuck" and "STUCK" in os.environ:
        sleep_uninterruptibly()
    elif wish == "stuck" and GENERATION == 1:
        time.sleep(60)


def arm() -> None:
    """Arm a timer as torch.distributed.elastic.timer.FileTimerClient does, and miss it."""
    wish = {"version": 1, "pid": os.getpid(), "scope_id": "step", "expiration_time": time.time() + 0.2, "signal": 9}
    fd = os.open(os.environ["TORCHELASTIC_TIMER_FILE"], os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, json.dumps(wish).encode() + b"\n")
    os.close(fd)
    time.sleep(60)


def sleep_uninterruptibly() -> None:
    """In D state, until killed: for a child that is to share its memory until it is another program, and never is."""
    fifo = Path(os.environ["OUT"]) / "fifo"
    os.mkfifo(fifo)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, str(fifo), os.O_RDONLY, 0)])


if __name__ == "__main__":
    main()
