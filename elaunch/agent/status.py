"""What this node says of itself, kept in one place: every change wakes whoever passes it on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from elaunch.controller.node_status import NodeStatus, RunPhase

_OF_NO_GENERATION: dict[str, Any] = {
    "generation": 0,
    "phase": RunPhase.NONE,
    "exits": (),
    "start_error": "",
    "start_code": "",
    "start_exit_code": 0,
    "evidence": "",
    "stacks": (),
}


class StatusBoard:
    """The node's present status, with a version that grows with each change."""

    def __init__(self) -> None:
        self._status = NodeStatus(node_id="")
        self._version = 0
        self._news = asyncio.Event()

    @property
    def now(self) -> NodeStatus:
        return self._status

    def update(self, **changes: Any) -> None:
        """Change the named fields; nothing happens if they have those values already."""
        status = replace(self._status, **changes)
        if status != self._status:
            self._status = status
            self._version += 1
            self._news.set()
            self._news = asyncio.Event()

    def join(self, node_id: str) -> None:
        """Be this node from now on: what was told of a generation was told by the one before."""
        self.update(node_id=node_id, **_OF_NO_GENERATION)

    async def newer_than(self, version: int) -> tuple[int, NodeStatus]:
        """The status once it is newer than ``version`` (-1: at once), and its version."""
        while self._version <= version:
            await self._news.wait()
        return self._version, self._status
