"""Stands for an agent that is frozen or killed: starts programs, prints their pids, renews a deadline.

Arguments: a folder, seconds from one renewal to the deadline (0: no deadline), then ``--``-separated command lines.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from elaunch.agent.program import Program
from elaunch.agent.spawner import RankStart, Spawner
from elaunch.clock import boottime
from elaunch.deadline_page import DeadlinePage

FAREWELL = "import os, sys; open(sys.argv[1], 'w').write(os.environ['WHO'] + ' ' + str(os.getpid()))"


async def main(folder: Path, lease: float, commands: list[list[str]]) -> None:
    page = DeadlinePage.create()
    spawner = await Spawner.open(
        start="exec",
        preload=[],
        env=os.environ,
        deadline=page,
        farewell=[sys.executable, "-c", FAREWELL, str(folder / "farewell")],
        farewell_env={"WHO": "spawner"},
    )
    starts = [
        RankStart(n, n, Program("command", argv[0], tuple(argv[1:]), ""), os.environ, folder / f"{n}.out")
        for n, argv in enumerate(commands)
    ]
    pids = await spawner.start_ranks(starts)
    print(json.dumps({"spawner": spawner.pid, "ranks": [pids[n] for n in range(len(commands))]}), flush=True)
    while True:
        if lease:
            page.set(boottime() + lease)
        try:
            await asyncio.wait_for(spawner.deadline_passed.wait(), 0.05)
        except asyncio.TimeoutError:
            continue
        print("deadline passed", flush=True)
        break
    while not spawner.exits().empty() or len(pids):
        end = await spawner.exits().get()
        del pids[end.local_rank]
        print(end.exit_code, flush=True)
    await spawner.close()


if __name__ == "__main__":
    split = " ".join(sys.argv[3:]).split(" -- ")
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]), [line.split() for line in split]))
