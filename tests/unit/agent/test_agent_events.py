"""The events of ``--event-log-handler=console``, read back by torch's own field names."""

from __future__ import annotations

import io
import json
from typing import Any

from elaunch.agent.events import EventLog
from elaunch.agent.options import LaunchOptions, LogOptions, RendezvousConf
from elaunch.agent.program import Program
from elaunch.controller.commands import End, Start
from elaunch.rendezvous.state import RankExit

START = Start(
    generation=4,
    restart_count=2,
    group_rank=1,
    group_world_size=2,
    rank0=2,
    world_size=5,
    role_rank0=1,
    role_world_size=4,
    store_address="h",
    store_port=1,
    host_store=False,
    reason="",
)


def options(handler: str) -> LaunchOptions:
    return LaunchOptions(
        program=Program("script", "train.py", (), "python"),
        min_nodes=1,
        max_nodes=1,
        slots=3,
        job="job",
        backend="etcd",
        endpoints=(),
        standalone=False,
        conf=RendezvousConf(),
        logs=LogOptions(),
        event_log_handler=handler,
    )


def told(handler: str) -> list[dict[str, Any]]:
    stream = io.StringIO()
    log = EventLog(options(handler), stream)
    log.started(START, {0: 100, 1: 101, 2: 102})
    log.ended(RankExit(2, 4, 102, 0, 1.0))
    log.ended(RankExit(0, 2, 100, -9, 1.0, message="lost"))
    log.finished(End("failed", 137, "rank_failed", "rank 2 was killed"))
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_what_happens_is_told_as_torch_tells_it() -> None:
    events = told("console")
    states = [(e["source"], e["metadata"]["state"], e["metadata"]["global_rank"]) for e in events]
    assert states == [
        ("WORKER", "START", 2),
        ("WORKER", "START", 3),
        ("WORKER", "START", 4),
        ("WORKER", "SUCCEEDED", 4),
        ("WORKER", "FAILED", 2),
        ("WORKER", "TERMINATED", 3),
        ("AGENT", "FAILED", None),
    ]
    failed = events[4]
    assert failed["name"] == "torchelastic.worker.status.FAILED"
    assert failed["metadata"]["worker_id"] == "100"
    assert failed["metadata"]["agent_restarts"] == 2
    assert json.loads(failed["metadata"]["raw_error"]) == {"message": "lost"}
    assert json.loads(failed["metadata"]["metadata"]) == {
        "group_world_size": 2,
        "entry_point": "train.py",
        "local_rank": [0],
        "role_rank": [1],
        "role_world_size": [4],
        "exit_code": [-9],
        "worker_pid": [100],
    }


def test_the_null_handler_is_silent() -> None:
    assert told("null") == []
    assert told("dynamic_rendezvous") == []
