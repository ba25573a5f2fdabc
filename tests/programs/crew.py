"""Six processes that wait for work: the first n of them do it together, as ranks of a world of n.

One process imports torch, forks the six, and hands them what comes on its standard input, a JSON document a line:
``{"call": "module:function", "world": 2, "argument": ...}``. It answers with what the function returned on each rank,
``{"value": ...}`` or ``{"error": "traceback"}``. A process group stays for as long as the worlds are of the same size.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import traceback
from datetime import timedelta
from multiprocessing import Pipe
from typing import Any

import torch
import torch.distributed as dist

from tests.programs import checkpoint_trees

SIZE = 6
TIMEOUT = timedelta(seconds=90)


def main() -> None:
    torch.set_num_threads(1)
    warm_up()
    pipes = []
    for rank in range(SIZE):
        here, there = Pipe()
        if os.fork() == 0:
            sys.stdin.close()
            for pipe in pipes:
                pipe.close()
            here.close()
            work(there, rank)
            os._exit(0)
        there.close()
        pipes.append(here)
    port = pipes[0].recv()
    for pipe in pipes[1:]:
        pipe.send(port)
    print(json.dumps("ready"), flush=True)
    world = 1
    for number, line in enumerate(sys.stdin):
        order = {**json.loads(line), "number": number}
        order["joins"], world = order["world"] != world, order["world"]
        crew = pipes[: order["world"]]
        for pipe in crew:
            pipe.send(order)
        print(json.dumps([pipe.recv() for pipe in crew]), flush=True)
    for pipe in pipes:
        pipe.close()
    for _ in pipes:
        os.wait()


def warm_up() -> None:
    """What torch imports when it is first used is imported once: the six would do it all at a time."""
    leaf = {"dtype": "float32", "shape": [2], "seed": 1, "view": "plain", "spread": True, "cuts": [0]}
    place = {"world": 1, "mesh": [1]}
    with tempfile.TemporaryDirectory() as path:
        told = {"tree": {"dict": {"a": leaf}}, "from": place, "to": place, "verify": "full", "path": path}
        checkpoint_trees.save(0, 1, told)
        checkpoint_trees.restore(0, 1, told)


def work(pipe: Any, rank: int) -> None:
    store = None
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=TIMEOUT)
        pipe.send(store.port)
    else:
        store = dist.TCPStore("127.0.0.1", pipe.recv(), is_master=False, timeout=TIMEOUT)
    while True:
        try:
            order = pipe.recv()
        except EOFError:
            return
        try:
            join(store, rank, order)
            module, _, name = order["call"].partition(":")
            value = getattr(importlib.import_module(module), name)(rank, order["world"], order["argument"])
            pipe.send({"value": value})
        except Exception:  # noqa: BLE001 - whatever it is, the test is to hear of it
            pipe.send({"error": traceback.format_exc()})


def join(store: Any, rank: int, order: dict[str, Any]) -> None:
    """Be a rank of this world; one process alone has no process group."""
    if not order["joins"]:
        return
    if dist.is_initialized():
        dist.destroy_process_group()
    if order["world"] > 1:
        prefixed = dist.PrefixStore(f"work{order['number']}", store)
        dist.init_process_group("gloo", store=prefixed, rank=rank, world_size=order["world"], timeout=TIMEOUT)


if __name__ == "__main__":
    main()
