"""The loop of the spawner process: hears the agent, has ranks started, stops their trees, kills them at the deadline.

One thread, nothing blocks: each turn of the loop waits for a message, a child's end or a deadline.
"""

from __future__ import annotations

import math
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

from elaunch.agent import children
from elaunch.agent.brood import Brood
from elaunch.agent.deadman import Alarm
from elaunch.agent.protocol import Channel, Message
from elaunch.agent.standbys import Standbys
from elaunch.agent.start import STORE
from elaunch.agent.starting import Run, Starter
from elaunch.agent.stopping import Stopping
from elaunch.agent.warmth import Warmth
from elaunch.clock import boottime
from elaunch.deadline_page import DeadlinePage

_IDLE_SECONDS = 0.5  # how soon a deadline is seen that was set where there was none
_KILL_BOUND_SECONDS = 10.0


class Nursery:
    """Serves one agent. ``warm`` is None where every start is an exec."""

    def __init__(
        self,
        channel: Channel,
        page: DeadlinePage,
        warm: Warmth | None,
        environment: Mapping[str, str],
        dispositions: children.Dispositions,
    ) -> None:
        self.farewell: Sequence[str] = ()
        self.farewell_environment: Mapping[str, str] = {}
        self._channel = channel
        self._page = page
        # Until ranks are wanted there is time for the steps that precede the forks.
        self._standbys = Standbys(fork_at=math.inf if warm is None else time.monotonic())
        self._brood = Brood(self._ended, self._standbys)
        self._poller = self._brood.poller
        self._starter = Starter(self._brood, warm, environment, dispositions, self._drop)
        self._alarm = Alarm.create()
        self._stopping: Stopping | None = None
        self._closing = False

    def serve(self) -> Run | None:
        """Serve until the agent is gone; None then. In a forked child: what it has to run."""
        self._poller.register(self._channel, select.POLLIN)
        if self._alarm is not None:
            self._poller.register(self._alarm, select.POLLIN)
        while True:
            self._poller.poll(self._timeout() * 1000)
            self._channel.flush()
            self._watch_deadline()  # before its ranks' ends are told: that was why, if it comes late
            self._brood.reap()
            for message in self._channel.receive():
                run = self._handle(message)
                if run is not None:
                    return run
            if self._channel.eof and not self._closing:
                self._close()
            if self._stopping is not None:
                self._advance(self._stopping)
            if self._closing and self._stopping is None:
                return None
            if self._stopping is None and time.monotonic() >= self._standbys.fork_at:
                run = self._starter.stand_by()
                if run is not None:
                    return run

    def _timeout(self) -> float:
        now = time.monotonic()
        deadline = self._page.get()
        if deadline <= boottime():  # already acted upon
            deadline = math.inf
        if self._alarm is not None:
            self._alarm.set(deadline)
        wake = now + deadline - boottime()
        wake = min(wake, self._stopping.wake_at) if self._stopping is not None else min(wake, self._standbys.fork_at)
        if self._channel.unsent:
            wake = min(wake, now + 0.01)
        return max(0.0, min(wake - now, _IDLE_SECONDS))

    def _watch_deadline(self) -> None:
        if boottime() >= self._page.get() and self._brood.left():
            if self._stopping is None:
                self._channel.send({"event": "deadline"})
            self._kill()

    def _handle(self, message: Message) -> Run | None:
        if message["op"] == "start":
            return self._start(message)
        if message["op"] == "signal":
            for child in self._brood.ranks.values():
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
        listener = self._channel.take_fd() if message["world_size"] is not None else None
        pids: dict[str, int] = {}
        notes: list[str] = []
        self._standbys.pause()
        try:
            self._may_start()
            run = self._starter.start(message, listener, pids, notes)
            if run is not None:
                return run
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
        if self._stopping is not None or self._brood.ranks:
            raise OSError("the ranks started before are not gone yet")
        if boottime() >= self._page.get():
            raise OSError("the deadline of the lease has passed")

    def _drop(self) -> None:
        """In a forked child: close what belongs to this process only."""
        self._brood.forget()
        if self._stopping is not None:
            self._stopping.forget()
        self.farewell_environment = {}  # it may hold etcd's password, which is no rank's business
        self._channel.close()
        self._page.close()
        if self._alarm is not None:
            self._alarm.close()

    def _ended(self, told: Message) -> None:
        if told["local_rank"] != STORE or self._stopping is None:
            self._channel.send({"event": "exit", **told})

    def _stop(self, message: Message) -> None:
        now = time.monotonic()
        if self._stopping is None:
            self._standbys.pause()
            self._stopping = Stopping(message["signum"], now + message["grace"], self._poller, _KILL_BOUND_SECONDS)
            self._stopping.tell([child.pid for child in self._brood.ranks.values()], now)
        else:
            self._stopping.hurry(now + message["grace"])
        for child in self._brood.ranks.values():
            if child.pid in message["deaf"]:
                child.signal(signal.SIGKILL)
        self._stopping.waiting.append(message)

    def _close(self) -> None:
        self._closing = True
        self._standbys.kill()
        self._kill()

    def _kill(self) -> None:
        now = time.monotonic()
        if self._stopping is None:
            self._stopping = Stopping(signal.SIGKILL, now, self._poller, _KILL_BOUND_SECONDS)
        self._stopping.hurry(now)

    def _advance(self, stopping: Stopping) -> None:
        if not self._brood.ranks or time.monotonic() >= stopping.wake_at:
            stopping.advance(time.monotonic(), os.getpid(), self._brood.spared())
        if stopping.ending and self._brood.store is not None:
            self._brood.store.signal(signal.SIGKILL)
        self._brood.reap()
        children_left = self._brood.left()
        if children_left and not stopping.given_up(time.monotonic()):
            return
        stopping.forget()
        self._stopping = None
        for message in stopping.waiting:
            self._reply(message, left=[p.pid for p in stopping.left] if children_left else [])

    def _reply(self, message: Message, **values: Any) -> None:
        self._channel.send({"id": message["id"], **values})
