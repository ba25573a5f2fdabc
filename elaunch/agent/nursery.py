"""The loop of the spawner process: fork ranks, reap them, stop their trees, kill them when the lease is over.

Every rank, and the host of the store, is a child of this process; whatever they orphan becomes its child too
(child-subreaper). So "no child left but standbys" means that nothing of a generation is left. One thread, nothing
blocks: each turn of the loop waits for a message, a child's end or a deadline.
"""

from __future__ import annotations

import importlib
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elaunch.agent import children, standbys, trees
from elaunch.agent.children import Child
from elaunch.agent.deadman import DeadlinePage
from elaunch.agent.protocol import Channel, Message
from elaunch.agent.standbys import Standbys
from elaunch.agent.start import RankStart, command
from elaunch.agent.stopping import Stopping
from elaunch.agent.warmth import Warmth

STORE = -1  # the store's host, where a local rank is told

_IDLE_SECONDS = 0.5  # how soon a deadline is seen that was set where there was none
_KILL_BOUND_SECONDS = 10.0

Run = Callable[[], None]


@dataclass(slots=True)
class Nursery:
    """All children of the spawner process. ``warm`` is None where every start is an exec."""

    channel: Channel
    page: DeadlinePage
    warm: Warmth | None
    environment: Mapping[str, str]
    dispositions: children.Dispositions
    farewell: Sequence[str] = ()
    farewell_environment: Mapping[str, str] = field(default_factory=dict)
    poller: select.poll = field(default_factory=select.poll)
    ranks: dict[int, Child] = field(default_factory=dict)
    store: Child | None = None
    standbys: Standbys = field(default_factory=Standbys)
    stopping: Stopping | None = None
    closing: bool = False
    reaped: int = 0

    def serve(self) -> Run | None:
        """Serve until the agent is gone; None then. In a forked child: what it has to run."""
        self.poller.register(self.channel, select.POLLIN)
        while True:
            self.poller.poll(self._timeout() * 1000)
            self.channel.flush()
            self._reap()
            self._watch_deadline()
            for message in self.channel.receive():
                run = self._handle(message)
                if run is not None:
                    return run
            if self.channel.eof and not self.closing:
                self._close()
            if self.stopping is not None:
                self._advance(self.stopping)
            if self.closing and self.stopping is None:
                return None
            if self.stopping is None and time.monotonic() >= self.standbys.fork_at:
                run = self._stand_by()
                if run is not None:
                    return run

    def _timeout(self) -> float:
        now = time.monotonic()
        wake = self.page.get()
        if wake <= now:  # already acted upon
            wake = now + _IDLE_SECONDS
        wake = min(wake, self.stopping.wake_at) if self.stopping is not None else min(wake, self.standbys.fork_at)
        if self.channel.unsent:
            wake = min(wake, now + 0.01)
        return max(0.0, min(wake - now, _IDLE_SECONDS))

    def _watch_deadline(self) -> None:
        if time.monotonic() >= self.page.get() and self._left():
            if self.stopping is None:
                self.channel.send({"event": "deadline"})
            self._kill()

    def _handle(self, message: Message) -> Run | None:
        if message["op"] == "start":
            return self._start(message)
        if message["op"] == "signal":
            for child in self.ranks.values():
                child.signal(message["signum"])
            self._reply(message)
        elif message["op"] == "stop":
            self._stop(message)
        elif message["op"] == "farewell":
            self.farewell, self.farewell_environment = message["argv"], message["env"]
        elif message["op"] == "close":
            self.farewell = ()
            self._close()
        return None

    def _start(self, message: Message) -> Run | None:
        listener = self.channel.take_fd() if message["world_size"] is not None else None
        pids: dict[str, int] = {}
        notes: list[str] = []
        self.standbys.pause()
        try:
            self._may_start()
            starts = [RankStart.from_json(data) for data in message["ranks"]]
            reasons = self.warm.why_exec(starts) if self.warm is not None else [None] * len(starts)
            self.standbys.review()
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
                pids[str(start.local_rank)] = self.ranks[start.local_rank].pid
            if starts and self.warm is not None and trees.shows_children():
                self.standbys.want(reasons.count(None))
        except OSError as error:
            self._kill()
            self._reply(message, error=str(error))
        else:
            self._reply(message, pids=pids, notes=notes)
        finally:
            if listener is not None:
                os.close(listener)
        return None

    def _may_start(self) -> None:
        if self.stopping is not None or self.ranks:
            raise OSError("the ranks started before are not gone yet")
        if time.monotonic() >= self.page.get():
            raise OSError("the deadline of the lease has passed")

    def _start_rank(self, start: RankStart, *, forked: bool) -> Run | None:
        with children.Streams.open(start) as streams:
            child = self._standby_rank(start, streams) if forked else None
            if child is None:
                parent = os.getpid()
                child = children.fork(self.dispositions.caught)
            if child is None:
                children.detach(parent)
                children.settle(self.dispositions, streams, start.cpus)
                if forked:
                    return self._unwind(self._rank_run(start))
                children.execute(command(start.program), start.env)
        self.ranks[start.local_rank] = child
        self.poller.register(child.pidfd, select.POLLIN)
        return None

    def _standby_rank(self, start: RankStart, streams: children.Streams) -> Child | None:
        fds = streams.descriptors
        out, err = streams.out is not None, streams.err is not None
        return self.standbys.take({"rank": start.to_json(), "out": out, "err": err, "fds": len(fds)}, fds)

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
        child = self.standbys.take({"store": world_size, "fds": 1}, [listener])
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
        self.store = child
        self.poller.register(child.pidfd, select.POLLIN)
        return None

    def _stand_by(self) -> Run | None:
        orders = self.standbys.prepare(self.dispositions)
        if orders is None:
            return None
        self._drop()
        _worker("bootstrap").rehearse()
        order, fds = standbys.await_order(orders)
        if "store" in order:
            children.settle_store()
            return _store_run(fds[0], order["store"])
        start, given = RankStart.from_json(order["rank"]), iter(fds)
        out, err = (next(given) if order[name] else None for name in ("out", "err"))
        children.settle(self.dispositions, children.Streams(out, err), start.cpus)
        for fd in fds:
            os.close(fd)
        return self._rank_run(start)

    def _unwind(self, run: Run) -> Run:
        self._drop()
        return run

    def _drop(self) -> None:
        """In a forked child: close what belongs to this process only."""
        for child in self._children():
            os.close(child.pidfd)
        if self.stopping is not None:
            self.stopping.forget()
        self.standbys.forget()
        self.farewell_environment = {}  # it may hold etcd's password, which is no rank's business
        self.channel.close()
        self.page.close()

    def _children(self) -> list[Child]:
        return [*self.ranks.values(), *([self.store] if self.store else [])]

    def _left(self) -> bool:
        """Whether anything is left but standbys; at times it is said though nothing is, never the reverse.

        Each process that is left descends from a child of this one that is no standby, since orphans become our
        children. Either we see that child, or it ends while we look: then there is something to reap.
        """
        if self.ranks or self.store is not None:
            return True
        if not self._reap():
            return False
        reaped, spared = self.reaped, self.standbys.pids()
        if not spared or not spared.issuperset(trees.children(os.getpid())):
            return True
        return self._reap() and self.reaped != reaped

    def _reap(self) -> bool:
        """Reap all that has ended, adopted orphans included. False when there is no child left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.reaped += 1
            self._ended(pid, os.waitstatus_to_exitcode(status))

    def _ended(self, pid: int, exit_code: int) -> None:
        if self.standbys.ended(pid):
            return
        who = next((rank for rank, child in self.ranks.items() if child.pid == pid), None)
        child = self.ranks.pop(who) if who is not None else None
        if self.store is not None and self.store.pid == pid:
            who, child, self.store = STORE, self.store, None
        if child is None:
            return
        self.poller.unregister(child.pidfd)
        os.close(child.pidfd)
        if who == STORE and self.stopping is not None:
            return
        told = {"local_rank": who, "pid": pid, "exit_code": exit_code, "time": time.time()}
        self.channel.send({"event": "exit", **told})

    def _stop(self, message: Message) -> None:
        now = time.monotonic()
        if self.stopping is None:
            self.standbys.pause()
            self.stopping = Stopping(message["signum"], now + message["grace"], self.poller, _KILL_BOUND_SECONDS)
            self.stopping.tell([child.pid for child in self.ranks.values()], now)
        else:
            self.stopping.hurry(now + message["grace"])
        self.stopping.waiting.append(message)

    def _close(self) -> None:
        self.closing = True
        self.standbys.kill()
        self._kill()

    def _kill(self) -> None:
        now = time.monotonic()
        if self.stopping is None:
            self.stopping = Stopping(signal.SIGKILL, now, self.poller, _KILL_BOUND_SECONDS)
        self.stopping.hurry(now)

    def _advance(self, stopping: Stopping) -> None:
        if not self.ranks or time.monotonic() >= stopping.wake_at:
            store = {self.store.pid} if self.store else set()
            stopping.advance(time.monotonic(), os.getpid(), store | self.standbys.pids())
        if stopping.ending and self.store is not None:
            self.store.signal(signal.SIGKILL)
        self._reap()
        children_left = self._left()
        if children_left and not stopping.given_up(time.monotonic()):
            return
        stopping.forget()
        self.stopping = None
        for message in stopping.waiting:
            self._reply(message, left=[p.pid for p in stopping.left] if children_left else [])

    def _reply(self, message: Message, **values: Any) -> None:
        self.channel.send({"id": message["id"], **values})


def _worker(name: str) -> Any:
    # By name, since this package must not import torch, not even through another.
    return importlib.import_module(f"elaunch.worker.{name}")


def _store_run(listener: int, world_size: int) -> Run:
    """In the store's child: what hosts it on that listening socket."""
    children.retitle([sys.executable, "elaunch-store"])
    host = _worker("store_host").host
    return lambda: host(listener, world_size)


def main(argv: Sequence[str], bare: frozenset[str]) -> Run | None:
    """Body of the spawner process. Returns what a forked child has to run, None in the process itself."""
    environment = dict(os.environ)
    dispositions = children.Dispositions.ignore()
    trees.become_subreaper()
    channel = Channel(socket.socket(fileno=int(argv[0])))
    page = DeadlinePage(int(argv[1]))
    os.set_inheritable(channel.fileno(), False)
    os.set_inheritable(page.fd, False)
    warm = None
    if argv[2] == "warm":
        try:
            children.warm_up(("torch", *argv[3:-1]))
        except Exception as error:  # noqa: BLE001 - a user's module may raise anything
            channel.send({"event": "failed", "text": f"{type(error).__name__}: {error}"})
            sys.exit(1)
        dispositions = dispositions.ignore_again()
        warm = Warmth.now(environment, bare)
    channel.send({"event": "ready"})
    # Until ranks are wanted there is time for the steps that precede the forks.
    standing_by = Standbys(fork_at=math.inf if warm is None else time.monotonic())
    nursery = Nursery(channel, page, warm, environment, dispositions, standbys=standing_by)
    run = nursery.serve()
    if run is None and channel.eof and nursery.farewell:
        dispositions.restore()
        children.execute(list(nursery.farewell), nursery.farewell_environment)
    return run
