"""What bench/start_check.py starts: make the default process group often, with and without the check by turns.

Every rank writes ``$OUT/<rank>.json``: seconds that ``init_process_group`` took, either way. Both ways connect to the
store anew, and have keys of their own there, which torch by itself would not have the second time.
"""

import json
import os
import time
from pathlib import Path

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from elaunch.worker import start_hooks


def once(store: dist.Store, number: int) -> float:
    """Together with the other ranks, so that nobody's lateness is measured."""
    store.add(f"ready{number}", 1)
    while store.add(f"ready{number}", 0) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0)
    began = time.perf_counter()
    dist.init_process_group("gloo")
    seconds = time.perf_counter() - began
    dist.barrier()  # a rank that destroys its group would break off the connecting of another
    dist.destroy_process_group()
    return seconds


def plain(store: dist.Store, number: int) -> float:
    """As torch does it."""
    start, helper = start_hooks._current, c10d._new_process_group_helper

    def prefixed(size, rank, ranks, backend, at, *rest, **more):
        return helper(size, rank, ranks, backend, c10d.PrefixStore(f"plain{number}", at), *rest, **more)

    start_hooks._current, c10d._new_process_group_helper = None, prefixed
    try:
        return once(store, number)
    finally:
        start_hooks._current, c10d._new_process_group_helper = start, helper


def checked(store: dist.Store, number: int) -> float:
    assert start_hooks._current is not None
    return once(store, number)


def main() -> None:
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    took: dict[str, list[float]] = {"plain": [], "checked": []}
    for number in range(int(os.environ["TIMES"])):
        took["checked"].append(checked(store, 2 * number))
        took["plain"].append(plain(store, 2 * number + 1))
    (Path(os.environ["OUT"]) / f"{os.environ['RANK']}.json").write_text(json.dumps(took))


if __name__ == "__main__":
    main()
