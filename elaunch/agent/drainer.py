"""A host that failed is taken out of service by its scheduler, where that was asked for: the node that leads asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from elaunch.agent.options import Scheduled
from elaunch.agent.slurm_commands import SECONDS, Said, ask

_LONGEST_REASON = 200  # characters


def words_for(host: str, reason: str, nodes: Sequence[str]) -> list[str] | None:
    """The command that drains ``host``; None where it is none of ``nodes``, by its full name or the first part."""
    short = host.partition(".")[0]
    name = next((node for node in nodes if node in (host, short) or node.partition(".")[0] == short), None)
    if name is None:
        return None
    plain = " ".join(reason.split())[:_LONGEST_REASON]
    return ["scontrol", "update", f"nodename={name}", "state=drain", f"reason=elaunch: {plain}"]


class Drainer:
    """Drains each host once. Training never waits for it, and goes on where Slurm says no: that is told."""

    def __init__(self, scheduled: Scheduled | None, run: Callable[[Sequence[str]], Said] = ask) -> None:
        self._nodes = scheduled.nodes if scheduled is not None and scheduled.drain else ()
        self._run = run
        self._known: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger()

    def host_failed(self, host: str, reason: str) -> None:
        """Have ``host`` drained, in the background."""
        self._log.warning("host_failed", host=host, reason=reason)
        if not self._nodes or host in self._known:
            return
        self._known.add(host)
        words = words_for(host, reason, self._nodes)
        if words is None:
            self._log.warning("not_drained", host=host, reason="it is no node of this step")
            return
        task = asyncio.get_running_loop().create_task(self._drain(host, words))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for what is under way: no longer than a command may take."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SECONDS)

    async def _drain(self, host: str, words: Sequence[str]) -> None:
        said = await asyncio.to_thread(self._run, words)
        if said.done:
            self._log.warning("drained", host=host)
        else:
            self._log.warning("not_drained", host=host, reason=said.text)
