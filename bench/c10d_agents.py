"""Agents that meet by torch's c10d rendezvous, one process each: the peer of bench/simulated.py.

``python bench/c10d_agents.py COUNT`` prints "ready", waits for a line, and prints one JSON line: the monotonic times
of the first join and of the last plan received.
"""

import json
import os
import sys
import time
from datetime import timedelta

from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler

TIMEOUT = timedelta(seconds=600)


def agent(count: int, go: int, told: int) -> None:
    """One agent: ``go`` brings the store's port, the word to join, and the word to end; ``told`` takes answers."""
    store = TCPStore("127.0.0.1", int(os.read(go, 8)), is_master=False, timeout=TIMEOUT)
    backend = C10dRendezvousBackend(store, "bench")
    handler = DynamicRendezvousHandler.from_backend("bench", store, backend, count, count)
    os.write(told, b"ready\n")
    os.read(go, 1)
    begin = time.monotonic()
    info = handler.next_rendezvous()
    os.write(told, (json.dumps({"begin": begin, "end": time.monotonic(), "rank": info.rank}) + "\n").encode())
    os.read(go, 1)


def main(count: int) -> None:
    heard, told = os.pipe()
    gates: list[int] = []
    for _ in range(count):
        go, gate = os.pipe()
        if os.fork() == 0:
            for other in (gate, *gates):
                os.close(other)
            agent(count, go, told)
            os._exit(0)
        os.close(go)
        gates.append(gate)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=TIMEOUT)  # after all forks
    answers = os.fdopen(heard)
    for gate in gates:
        os.write(gate, str(store.port).encode())
    for _ in gates:
        answers.readline()
    print("ready", flush=True)
    sys.stdin.readline()
    for gate in gates:
        os.write(gate, b"1")
    told_all = [json.loads(answers.readline()) for _ in gates]
    begin, end = min(one["begin"] for one in told_all), max(one["end"] for one in told_all)
    print(json.dumps({"begin": begin, "end": end, "ranks": sorted(one["rank"] for one in told_all)}), flush=True)
    for gate in gates:
        os.write(gate, b"1")


if __name__ == "__main__":
    main(int(sys.argv[1]))
