"""An agent that wants an embedded etcd, as a process that a test may kill.

Arguments: endpoint (or "-"), job, state directory, grace. It prints what it got, then obeys one line on its
standard input: ``release``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from elaunch.errors import ElaunchError
from elaunch.rendezvous.embedded import ensure_embedded


async def main() -> None:
    endpoint, job, state_dir, grace = sys.argv[1:]
    try:
        etcd = await ensure_embedded(
            None if endpoint == "-" else endpoint,
            job=job,
            state_dir=Path(state_dir),
            several_hosts=False,
            grace=float(grace),
        )
    except ElaunchError as error:
        print(json.dumps({"error": str(error), "kind": type(error).__name__}), flush=True)
        return
    print(json.dumps({"endpoint": etcd.endpoints[0], "keeper": etcd.keeper, "notice": etcd.notice}), flush=True)
    if await asyncio.to_thread(sys.stdin.readline) == "release\n":
        await etcd.release(60.0)
        print("released", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
