"""The limit of bench/launch.py: ranks forked from a process that has imported torch, without any launcher.

Reads ``WORLD PORT OUT`` lines, forks that many ranks, and answers with the monotonic time of the first fork.
"""

import os
import sys
import time

import first_allreduce


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        world, port, out = line.split()
        os.environ.update(WORLD_SIZE=world, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OUT=out)
        began = time.monotonic()
        ranks = []
        for rank in range(int(world)):
            pid = os.fork()
            if pid == 0:
                os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
                first_allreduce.main()
                os._exit(0)
            ranks.append(pid)
        print(began, flush=True)
        for pid in ranks:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
