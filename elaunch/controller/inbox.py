"""What has happened and was not looked at yet, in the order in which it came."""

from __future__ import annotations

import asyncio
from collections import deque

from elaunch.controller.job_events import Event, OperatorCommand, StatusReceived


class Inbox:
    """Events on their way to the job's state.

    A status replaces one of the same node that was not looked at yet: whoever sends many while the leader waits for
    etcd takes no more of its memory than one.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._statuses: dict[str, StatusReceived] = {}
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Have ``event`` looked at after all that came before."""
        if isinstance(event, StatusReceived):
            node_id = event.status.node_id
            waiting = node_id in self._statuses
            self._statuses[node_id] = event
            if waiting:
                return
        self._events.append(event)
        self._news.set()

    async def news(self) -> None:
        """Return when there is an event."""
        await self._news.wait()

    def take(self, commands: int) -> list[Event]:
        """What has come, up to the last of so many operators' commands."""
        taken: list[Event] = []
        while self._events and commands > 0:
            event = self._events.popleft()
            if isinstance(event, StatusReceived):
                event = self._statuses.pop(event.status.node_id)
            commands -= isinstance(event, OperatorCommand)
            taken.append(event)
        if not self._events:
            self._news.clear()
        return taken
