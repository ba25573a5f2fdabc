"""How the spawner process starts a generation: each rank, and the store's host, from a standby, by fork or by exec."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elaunch.agent import children, standbys, trees
from elaunch.agent.brood import Brood
from elaunch.agent.protocol import Message
from elaunch.agent.start import RankStart, command
from elaunch.agent.warmth import Warmth

Run = Callable[[], None]


@dataclass(slots=True)
class Starter:
    """Forks into the brood. ``warm`` is None where every start is an exec.

    What returns a ``Run`` returns it in a forked child: what that child has to run, once it has ``drop``-ped what
    belongs to its parent only.
    """

    brood: Brood
    warm: Warmth | None
    environment: Mapping[str, str]
    dispositions: children.Dispositions
    drop: Callable[[], None]

    def start(self, message: Message, listener: int | None, pids: dict[str, int], notes: list[str]) -> Run | None:
        """Start what the message says; tells ``pids``, and in ``notes`` why one had to be exec'd. Raises OSError."""
        self.brood.start = message["start"]
        starts = [RankStart.from_json(data) for data in message["ranks"]]
        reasons = self.warm.why_exec(starts) if self.warm is not None else [None] * len(starts)
        self.brood.standbys.review()
        if listener is not None:
            run = self._start_store(listener, message["world_size"])
            if run is not None:
                return run
        for start, reason in zip(starts, reasons, strict=True):
            if reason is not None and start.program.kind != "command":
                notes.append(f"local rank {start.local_rank} is started by exec: {reason}")
            run = self._start_rank(start, forked=self.warm is not None and reason is None)
            if run is not None:
                return run
            pids[str(start.local_rank)] = self.brood.ranks[start.local_rank].pid
        if starts and self.warm is not None and trees.shows_children():
            self.brood.standbys.want(reasons.count(None))
        return None

    def stand_by(self) -> Run | None:
        """Take one step towards the standbys that are wanted."""
        orders = self.brood.standbys.prepare(self.dispositions)
        if orders is None:
            return None
        self.drop()
        _worker("bootstrap").rehearse()
        order, fds = standbys.await_order(orders)
        if "store" in order:
            children.settle_store()
            return _store_run(fds[0], order["store"])
        start, given = RankStart.from_json(order["rank"]), iter(fds)
        out, err = (next(given) if order[name] else None for name in ("out", "err"))
        children.settle(self.dispositions, children.Streams(out, err), start)
        for fd in fds:
            os.close(fd)
        return self._rank_run(start)

    def _start_rank(self, start: RankStart, *, forked: bool) -> Run | None:
        with children.Streams.open(start) as streams:
            child = self._standby_rank(start, streams) if forked else None
            if child is None:
                parent = os.getpid()
                child = children.fork(self.dispositions.caught)
            if child is None:
                children.detach(parent)
                children.settle(self.dispositions, streams, start)
                if forked:
                    return self._unwind(self._rank_run(start))
                children.execute(command(start.program), start.env)
        self.brood.add_rank(start.local_rank, child)
        return None

    def _standby_rank(self, start: RankStart, streams: children.Streams) -> children.Child | None:
        fds = streams.descriptors
        out, err = streams.out is not None, streams.err is not None
        return self.brood.standbys.take({"rank": start.to_json(), "out": out, "err": err, "fds": len(fds)}, fds)

    def _rank_run(self, start: RankStart) -> Run:
        """In a rank's child: what runs the program."""
        program = start.program
        children.retitle(command(program))
        run: Run = _worker("bootstrap").prepare(
            kind=program.kind,
            target=program.target,
            args=program.args,
            command=command(program),
            env=start.env,
            env_at_start=self.environment,
        )
        return run

    def _start_store(self, listener: int, world_size: int) -> Run | None:
        child = self.brood.standbys.take({"store": world_size, "fds": 1}, [listener])
        if child is None:
            parent = os.getpid()
            child = children.fork(self.dispositions.caught)
        if child is None:
            children.detach(parent)
            children.settle_store()
            if self.warm is not None:
                return self._unwind(_store_run(os.dup(listener), world_size))
            os.set_inheritable(listener, True)
            path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "worker", "store_host.py")
            argv = [sys.executable, "-u", path, str(listener), str(world_size)]
            children.execute(argv, {**self.environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        self.brood.add_store(child)
        return None

    def _unwind(self, run: Run) -> Run:
        self.drop()
        return run


def _worker(name: str) -> Any:
    # By name, since this package must not import torch, not even through another.
    return importlib.import_module(f"elaunch.worker.{name}")


def _store_run(listener: int, world_size: int) -> Run:
    """In the store's child: what hosts it on that listening socket."""
    children.retitle([sys.executable, "elaunch-store"])
    host = _worker("store_host").host
    return lambda: host(listener, world_size)
