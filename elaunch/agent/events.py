"""``--event-log-handler``: the events that torchrun records, as its ``console`` handler shows them."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from elaunch.agent.options import LaunchOptions
from elaunch.controller.commands import End, Start
from elaunch.rendezvous.state import RankExit

Event = dict[str, Any]


class EventLog:
    """Records what happens to the ranks and the agent of this node; silent unless the handler is ``console``."""

    def __init__(self, options: LaunchOptions, stream: TextIO | None = None) -> None:
        self._options = options
        self._stream = stream or sys.stderr
        self._on = options.event_log_handler == "console"
        self._began = time.monotonic()
        self._start: Start | None = None
        self._running: dict[int, int] = {}

    def started(self, start: Start, pids: Mapping[int, int]) -> None:
        """The ranks of a generation run, with these pids by local rank."""
        self._start, self._running = start, dict(pids)
        for local_rank in sorted(pids):
            self._worker("START", local_rank, None)

    def ended(self, end: RankExit) -> None:
        """A rank has ended by itself."""
        if end.local_rank in self._running:
            self._worker("FAILED" if end.exit_code else "SUCCEEDED", end.local_rank, end)
            del self._running[end.local_rank]

    def finished(self, end: End) -> None:
        """The agent's part is over: ranks that had not ended by themselves were stopped."""
        good = end.outcome == "succeeded"
        for local_rank in sorted(self._running):
            self._worker("TERMINATED", local_rank, None)
        self._write("SUCCEEDED" if good else "FAILED", "AGENT", None, {}, None if good else end.reason)

    def _worker(self, state: str, local_rank: int, end: RankExit | None) -> None:
        start = self._start
        assert start is not None
        # One-element lists, as torch writes them.
        more = {
            "local_rank": [local_rank],
            "role_rank": [start.role_rank0 + local_rank],
            "role_world_size": [start.role_world_size],
            "exit_code": [end.exit_code if end and end.exit_code else None],
            "worker_pid": [end.pid if end and end.exit_code else None],
        }
        self._write(state, "WORKER", local_rank, more, end.message if end and end.exit_code else None)

    def _write(self, state: str, source: str, local_rank: int | None, more: Event, error: str | None) -> None:
        if not self._on:
            return
        start, options = self._start, self._options
        detail = {
            "group_world_size": start.group_world_size if start else None,
            "entry_point": options.program.target,
            **more,
        }
        metadata = {
            "run_id": options.job,
            "global_rank": start.rank0 + local_rank if start and local_rank is not None else None,
            "group_rank": start.group_rank if start else None,
            "worker_id": str(self._running[local_rank]) if local_rank is not None else None,
            "role": options.role,
            "hostname": socket.gethostname(),
            "state": state,
            "total_run_time": int(time.monotonic() - self._began),
            "rdzv_backend": options.backend,
            "raw_error": json.dumps({"message": error}) if error else None,
            "metadata": json.dumps(detail),
            "agent_restarts": start.restart_count if start else 0,
            "duration_ms": None,
        }
        name = f"torchelastic.worker.status.{state}"
        event = {"name": name, "source": source, "timestamp": 0, "metadata": metadata}
        print(json.dumps(event), file=self._stream, flush=True)
