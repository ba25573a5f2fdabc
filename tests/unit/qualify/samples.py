"""Results and reports for tests."""

from __future__ import annotations

from elaunch.qualify.cells import Outcome, Result
from elaunch.qualify.report import Report


def result(name: str, outcome: Outcome = Outcome.OK, why: str = "", **values: object) -> Result:
    return Result(name, "what must hold", outcome, why, **values)  # type: ignore[arg-type]


def report(*cells: Result, **values: object) -> Report:
    made = Report("quick", {"ranks": 2, "nodes": 1, "hosts": []}, 1_780_000_000.0, 12.5, **values)  # type: ignore[arg-type]
    made.put(cells)
    return made


def full() -> Report:
    """One with something in each of its parts."""
    return report(
        result("ddp/plain", seconds=0.02),
        result(
            "faults/kill/backward", detection=0.05, abort=0.2, first_step=3.4, lost_steps=4, reason="rank 1 was killed",
            phases={"detection": 0.05, "abort": 0.15, "start": 2.4, "first_step": 0.8},
        ),
        result("faults/stop/at-once", Outcome.FAILED, "told as hung"),
        result("rails/slow-rail", Outcome.NOT_RUN, "needs two rails"),
        versions={"elaunch": "0.1.0", "torch": "2.13"},
        machine={"host": "a", "cores": 2, "load": 0.1},
        topology=[{"host": "a", "digest": "abcd", "ports": [], "devices": [], "numa": [], "notes": []}],
        bootstrap={"import": 2.0, "init_process_group": 0.1},
        ranks=[{"rank": 0, "host": "a", "local_rank": 0, "path": {}, "backend": "gloo", "device": "cpu"}],
        ports=[
            {"host": "a", "port": "eth0", "sent": 10**9, "received": 10**8, "errors": 0, "bytes_per_second": 10**7,
             "mbit": 1000, "utilisation": 0.08},
        ],
        bandwidth=[
            {"op": "all-reduce", "bytes": 1024 * 4**n, "seconds": 1e-3, "algorithm": 10**6 * 4**n, "bus": 10**6 * 4**n}
            for n in range(4)
        ],
        steps=[{"name": "one bucket", "compute": 0.01, "exposed": 0.002}],
        aggregate={"bus_bandwidth": 6.4e7, "link_throughput": 1.28e8, "port_throughput": 1e7},
    )  # fmt: skip
