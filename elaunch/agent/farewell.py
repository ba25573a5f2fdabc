"""``python -m elaunch.agent.farewell FILE``: give back the lease of an agent that was killed.

Started by the spawner process after it has killed every rank of the dead agent, so that the rest of the job goes on
at once instead of when the lease would end. FILE holds where etcd is and which lease it was; it is removed, with the
agent's folder in which it is.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from elaunch.agent.options import EtcdAccess
from elaunch.agent.store import open_store, with_password
from elaunch.errors import ElaunchError


def write_farewell(path: Path, endpoints: tuple[str, ...], access: EtcdAccess, lease: int) -> None:
    """Leave what is needed to give the lease back. The password is not in it: it stays where it came from."""
    data = {"endpoints": endpoints, "access": dataclasses.asdict(access) | {"password": None}, "lease": lease}
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(data))
    beside.replace(path)


async def _revoke(data: dict[str, Any]) -> None:
    store = open_store(tuple(data["endpoints"]), with_password(EtcdAccess(**data["access"]), os.environ))
    try:
        await store.revoke(data["lease"])
    finally:
        await store.close()


def main() -> int:
    path = Path(sys.argv[1])
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return 0  # the agent died before it had a lease
    finally:
        shutil.rmtree(path.parent, ignore_errors=True)  # the agent's own folder: it cannot take it away any more
    try:
        asyncio.run(_revoke(data))
    except ElaunchError as error:
        print(f"elaunch: could not give the lease back, it ends by itself: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
