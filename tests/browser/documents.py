"""The documents of the page's contract, built for jobs of any size."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]

SLOTS = 8
STATES = ["run", "wait", "hang", "straggler", "stopped", "starting", "unknown", "ended", "failed"]
HANG = "rank 5 (gpu-00) has not entered all_reduce float32[1024] (0/default_pg/gloo, number 812), 7 ranks wait for it"
KILLED = "rank 5 (local rank 5, pid 4711 on gpu-00) was killed by SIGKILL"


@dataclass
class Job:
    """All documents of one job, by the part of the path that they are had at; changed by tests as they like."""

    name: str
    documents: dict[str, Document]
    events: list[Document] = field(default_factory=list)
    pictures: dict[str, Document] = field(default_factory=dict)

    def __getitem__(self, part: str) -> Document:
        return self.documents[part]


def make_job(name: str = "run7", ranks: int = 16, *, hang: bool = False, recovered: bool = True) -> Job:
    """A job that runs; with ``hang`` rank 5 has stopped and all others wait for it."""
    hosts = [f"gpu-{n:02d}" for n in range(math.ceil(ranks / SLOTS))]
    documents = {
        "": status(name, ranks, hosts),
        "ranks": rank_table(name, ranks, hosts, culprit=5 if hang else None),
        "generations": generations(name, ranks, len(hosts), recovered=recovered),
        "hang": {"job": name, "hang": hanging(ranks) if hang else None},
        "ports": {"job": name, "at": time.time(), "ports": ports(hosts)},
    }
    pictures = {f"node{n:04d}": picture(f"node{n:04d}", host) for n, host in enumerate(hosts)}
    return Job(name, documents, events(), pictures)


def status(name: str, ranks: int, hosts: Sequence[str]) -> Document:
    nodes = [
        {
            "node_id": f"node{n:04d}",
            "host": host,
            "slots": min(SLOTS, ranks - SLOTS * n),
            "rank0": SLOTS * n,
            "phase": "running",
            "generation": 3,
            "attached": True,
            "heard_seconds": 0.4,
            "note": "",
            "member": True,
            "leader": n == 0,
            "drained": False,
        }
        for n, host in enumerate(hosts)
    ]
    lost = {"waiting": 60.0, "detection": 8.0, "abort": 20.0, "rendezvous": 2.0, "start": 90.0, "restore": 30.0}
    return {
        "job": name,
        "at": time.time(),
        "live": True,
        "live_error": None,
        "phase": "running",
        "phase_seconds": 812.2,
        "over": False,
        "waiting_for": None,
        "generation": 3,
        "restart_count": 2,
        "max_restarts": 10,
        "budget_left": 8,
        "exit_code": None,
        "reason": {"code": "rank_failed", "text": KILLED},
        "leader": {
            "node_id": "node0000",
            "host": hosts[0],
            "address": "10.0.0.1:4711",
            "epoch": 77,
            "here": True,
            "web": None,
        },
        "min_nodes": 1,
        "max_nodes": len(hosts),
        "world_size": ranks,
        "step": 1260,
        "step_seconds": 1.9,
        "checkpoint": {
            "step": 1200,
            "age_seconds": 63.2,
            "generation": 3,
            "path": "/ckpt/step-00001200",
            "bytes": 48_318_382_080,
            "seconds": 4.2,
            "blocked_seconds": 0.4,
            "host": hosts[0],
            "rank": 0,
        },
        "cost": {"seconds": 61.0, "steps": 60},
        "restored_step": 1100,
        "suspect_steps": [],
        "goodput": {
            "ratio": 0.931,
            "total_seconds": 7200.0,
            "useful_seconds": 6696.0,
            "lost": lost | {"first_step": 9.0, "lost_work": 285.0},
        },
        "stragglers": [],
        "nodes": nodes,
        "drained": [],
        "commands": [],
        "refused": {},
    }


def rank_table(name: str, ranks: int, hosts: Sequence[str], culprit: int | None = None) -> Document:
    """Columns of ``ranks`` ranks; some are a step behind, and all wait for the ``culprit`` if there is one."""
    every = range(ranks)
    blamed = [rank == culprit for rank in every]
    waits = culprit is not None
    lag = [1 if rank % 7 == 3 and not waits else 0 for rank in every]
    return {
        "job": name,
        "at": time.time(),
        "generation": 3,
        "world_size": ranks,
        "known": ranks,
        "nodes": [{"node_id": f"node{n:04d}", "host": host} for n, host in enumerate(hosts)],
        "states": STATES,
        "sections": ["", "data"],
        "places": ["", "train.py:31 in step", "train.py:88 in load"],
        "collectives": ["", "all_reduce float32[1024]"],
        "devices": ["", *(f"cuda:{n} GPU-1234-{n}" for n in range(SLOTS))],
        "nics": ["", *(f"mlx5_{n}:1" for n in range(SLOTS))],
        "rails": ["", *map(str, range(SLOTS))],
        "phases": ["", "checked"],
        "columns": {
            "rank": list(every),
            "node": [rank // SLOTS for rank in every],
            "local_rank": [rank % SLOTS for rank in every],
            "pid": [4000 + rank for rank in every],
            "state": [2 if bad else 1 if waits else rank % 2 for rank, bad in enumerate(blamed)],
            "step": [1260 - behind for behind in lag],
            "lag": lag,
            "step_age": [63.0 if waits else 0.4] * ranks,
            "progress_age": [63.0 if waits else 0.3] * ranks,
            "awaited_by": [ranks - 1 if bad else 0 for bad in blamed],
            "waits_in": [int(waits and not bad) for bad in blamed],
            "section": [int(bad) for bad in blamed],
            "where": [2 if bad else 1 for bad in blamed],
            "device": [1 + rank % SLOTS for rank in every],
            "nic": [1 + rank % SLOTS for rank in every],
            "rail": [1 + rank % SLOTS for rank in every],
            "start_phase": [1] * ranks,
        },
    }


def generations(name: str, ranks: int, nodes: int, *, recovered: bool = True) -> Document:
    """Three generations; without ``recovered`` the last is still being started."""
    now = time.time()
    first = phases(now - 7200, waiting=60.0, rendezvous=0.4, start=31.0, first_step=2.2)
    second = phases(now - 3000, detection=5.1, abort=8.2, rendezvous=0.3, start=12.4, restore=9.7, first_step=2.4)
    third = phases(now - 812, detection=0.3, abort=4.1, rendezvous=0.05, start=6.2, restore=8.0, first_step=2.1)
    if not recovered:
        third = phases(now - 6, detection=0.3, abort=4.1, rendezvous=0.05, start=1.5)
        third[-1]["running"] = True
    rows = [
        generation(3, third, KILLED, now - 800, None, ranks, nodes),
        generation(2, second, HANG, now - 2980, now - 812, ranks, nodes),
        generation(1, first, "enough nodes came", now - 7100, now - 3000, ranks, nodes),
    ]
    if not recovered:
        rows[0] |= {"complete": False, "work_seconds": None, "first_step": None}
    return {"job": name, "at": now, "generations": rows}


def phases(at: float, **seconds: float) -> list[Document]:
    made = []
    for phase, took in seconds.items():
        made.append({"phase": phase, "seconds": took, "at": at})
        at += took
    return made


def generation(
    number: int, spans: list[Document], why: str, began: float, ended: float | None, ranks: int, nodes: int
) -> Document:
    return {
        "generation": number,
        "began": began,
        "ended": ended,
        "ranks": ranks,
        "nodes": nodes,
        "reason": {"code": "why", "text": why},
        "end": None if ended is None else {"code": "over", "text": "a rank failed"},
        "complete": True,
        "first_step": 1 + 600 * (number - 1),
        "phases": spans,
        "work_seconds": 700.0 * number,
        "lost_seconds": None if ended is None else 61.0,
    }


def events() -> list[Document]:
    now = time.time()
    told = [
        (7200, "job_starting", "generation 1 begins with 2 nodes: enough nodes came", 1, "info"),
        (3005, "rank_hung", HANG, 1, "error"),
        (812, "job_aborting", f"generation 2 is being stopped: {KILLED}", 2, "warning"),
        (800, "job_starting", "generation 3 begins with 2 nodes", 3, "info"),
        (63, "checkpoint_committed", "step 1200 of generation 3 is committed", 3, "info"),
    ]
    return [
        make_event(n, code, text, ago=ago, generation=gen, level=level, now=now)
        for n, (ago, code, text, gen, level) in enumerate(told, start=1)
    ]


def make_event(
    seq: int,
    code: str,
    text: str,
    *,
    ago: float = 0.0,
    generation: int = 3,
    level: str = "info",
    now: float | None = None,
) -> Document:
    at = (time.time() if now is None else now) - ago
    empty = {"who": "", "why": "", "spans": {}}
    return {"seq": seq, "time": at, "code": code, "text": text, "generation": generation, "level": level, **empty}


def hanging(ranks: int) -> Document:
    load = (
        'Thread 0x7f (most recent call first):\n  File "train.py", line 88 in load\n  File "train.py", line 140 in main'
    )
    step = 'Thread 0x7e (most recent call first):\n  File "torch/distributed/c10d.py", line 2810 in all_reduce\n'
    step += '  File "train.py", line 31 in step\n  File "train.py", line 141 in main'
    return {
        "now": True,
        "generation": 3,
        "time": time.time() - 4,
        "code": "hung",
        "text": HANG,
        "culprits": [
            {
                "rank": 5,
                "host": "gpu-00",
                "device": "cuda:5 GPU-1234-5",
                "nic": "mlx5_5:1",
                "where": "train.py:88 in load",
                "state": "S",
                "section": "data",
                "step": 1260,
                "progress_age": 63.0,
            }
        ],
        "waits": [
            {
                "group": "0/default_pg/gloo",
                "what": "all_reduce float32[1024]",
                "sequence": 812,
                "since": 61.0,
                "waiting": [[0, 4], [6, ranks - 1]],
                "absent": [[5, 5]],
            }
        ],
        "evidence": ["gpu-00: saved in /var/log/elaunch/run7/evidence/3"],
        "stacks": [
            {"rank": 5, "ranks": [[5, 5]], "host": "gpu-00", "culprit": True, "text": load},
            {"rank": 0, "ranks": [[0, 4], [6, ranks - 1]], "host": "gpu-00", "culprit": False, "text": step},
        ],
    }


def ports(hosts: Sequence[str]) -> list[Document]:
    """One in trouble, the others well; four hosts' ports at most."""
    return [
        {
            "host": host,
            "node_id": f"node{node:04d}",
            "port": f"mlx5_{port}:1",
            "ranks": [SLOTS * node + port, SLOTS * node + port],
            "rate_gbit": 400.0,
            "state": "down" if (node, port) == (0, 0) else "active",
            "phys_state": "Polling" if (node, port) == (0, 0) else "LinkUp",
            "sent": 1.2e10 if port else 0.0,
            "received": 1.1e10 if port else None,
            "errors": {} if port else {"symbol_error": 12},
            "trouble": []
            if (node, port) != (0, 0)
            else [{"code": "port_down", "text": "is down (Polling)", "seconds": 12.0}],
            "left_out": False,
        }
        for node, host in enumerate(hosts[:4])
        for port in range(SLOTS)
    ]


def picture(node_id: str, host: str) -> Document:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="420" height="90" viewBox="0 0 420 90">'
        "<style>.box{fill:none;stroke:#777}text{font:12px sans-serif;fill:#222}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>"
        f'<rect class="box" x="8" y="8" width="400" height="70"/><text x="20" y="30">{host}: NUMA node 0</text></svg>'
    )
    text = f"{host}\n`- NUMA node 0\n   |- cuda:0 GPU-1234-0\n   `- mlx5_0:1"
    return {"node_id": node_id, "host": host, "svg": svg, "text": text, "digest": "5f0c2a", "why": ""}


def job_row(job: Job) -> Document:
    """The job in the list."""
    seen = job[""]
    kept = ("job", "phase", "generation", "restart_count", "max_restarts", "budget_left", "min_nodes", "max_nodes")
    checkpoint, goodput = seen["checkpoint"], seen["goodput"]
    return {name: seen[name] for name in kept} | {
        "nodes": len(seen["nodes"]),
        "ranks": seen["world_size"],
        "reason": seen["reason"],
        "exit_code": seen["exit_code"],
        "leader": seen["leader"] and seen["leader"]["host"],
        "here": True,
        "checkpoint_step": checkpoint and checkpoint["step"],
        "checkpoint_age": checkpoint and checkpoint["age_seconds"],
        "goodput": goodput and goodput["ratio"],
        "over": seen["over"],
    }
