"""Network ports that break while a job runs, in a tree that stands for sysfs: who is told, and what the job does."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.e2e.operating import elaunch
from tests.unit.topology.link_tree import LinkTree

pytestmark = pytest.mark.slow

PROGRAM = (str(PROGRAMS / "told.py"), "wait")
PORTS = ("--nic-policy=all", "--nproc-per-node=2", "--start=exec", "--log-level=debug")


class Operator:
    """What an operator sees of a job."""

    def __init__(self, job: str, *where: str, **env: str) -> None:
        self._job, self._where, self._env = job, where, env

    def events(self, code: str) -> list[str]:
        """The texts of all events of this kind."""
        out = elaunch("events", self._job, *self._where, "--json", **self._env).out
        return [line["text"] for line in map(json.loads, out.splitlines()) if line["code"] == code]

    def event(self, code: str) -> str:
        """The only one of this kind, which may still be on its way."""
        (text,) = wait_until(code, lambda: self.events(code))
        return str(text)

    def ports(self) -> list[dict[str, Any]]:
        """Those in trouble, as `elaunch status` shows them."""
        return list(elaunch("status", self._job, *self._where, "--json", **self._env).document["ports"])

    def text(self) -> str:
        return elaunch("status", self._job, *self._where, **self._env).out


def ports_of(job: Job, generation: int, world: int) -> dict[int, str]:
    """What each rank of a generation is told to use, once all have started."""

    def started() -> dict[int, str]:
        found = {e["rank"]: e["env"].get("NCCL_IB_HCA", "") for e in job.events("start", generation=generation)}
        return found if len(found) == world else {}

    found: dict[int, str] = wait_until(f"generation {generation}", started)
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], LinkTree]:
    return lambda name: LinkTree(tmp_path / f"sysfs-{name}")


def test_a_port_goes_down_and_the_job_goes_on_without_it(
    job: MakeJob, tree: Callable[[str], LinkTree], tmp_path: Path
) -> None:
    host = tree("host")
    first, second = host.rdma("mlx5_0"), host.rdma("mlx5_1")
    runtime = {"ELAUNCH_RUNTIME_DIR": str(tmp_path / "runtime")}
    one = job(*PORTS, "--rdzv-id=ports", "--on-link-fault=restart", program=PROGRAM)
    agent = one.agent(ELAUNCH_SYSFS_ROOT=str(host.root), **runtime)
    seen = Operator("ports", **runtime)
    assert ports_of(one, 1, 2) == dict.fromkeys((0, 1), "=mlx5_0,mlx5_1")
    assert seen.ports() == []

    host.down(first)
    assert ports_of(one, 2, 2) == dict.fromkeys((0, 1), "=mlx5_1")
    name = os.uname().nodename
    assert seen.event("port_down") == f"port mlx5_0:1 of {name} (ranks 0-1) is down (Polling)"
    assert [e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in one.events("start", generation=2)] == ["0", "0"]
    (port,) = wait_until("no rank uses it", lambda: [port for port in seen.ports() if not port["ranks"]])
    assert (port["port"], port["host"], port["ranks"], port["code"]) == ("mlx5_0:1", name, [], "port_down")
    text = seen.text()
    assert f"port mlx5_0:1 of {name} (ranks 0-1) is down (Polling)" in text.splitlines()[1]  # why it is generation 2
    assert f"ports:\n  mlx5_0:1 of {name} (no rank uses it): is down (Polling), since " in text

    host.up(first)
    assert seen.event("port_up").startswith(f"port mlx5_0:1 of {name} (no rank uses it) is up again, after ")
    assert "mlx5_0:1 of" in seen.text().split("ports:\n")[1]  # it rests
    host.write(second / "counters", symbol_error=5000)
    assert "5000 symbol errors" in seen.event("port_errors")
    assert ports_of(one, 3, 2) == dict.fromkeys((0, 1), "")  # a node on its own can do without

    def rest() -> bool:  # which ranks use a port is known from the next look at it on
        rows = [(row["port"], row["left_out"]) for row in seen.ports()]
        return rows == [("mlx5_1:1", True), ("mlx5_0:1", True)]

    wait_until("both ports are left out", rest)
    one.finish()
    assert agent.wait() == 0, agent.output()
    assert {e["generation"] for e in one.events()} == {1, 2, 3}


def test_what_breaks_is_left_out_of_the_next_generation_though_another_leads(
    job: MakeJob, etcd: str, tree: Callable[[str], LinkTree]
) -> None:
    left, right = tree("left"), tree("right")
    for name in ("mlx5_0", "mlx5_1"):
        left.rdma(name)
    broken = right.rdma("ibp0")
    right.rdma("ibp1")
    elastic = ("--nnodes=1:2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=rails")
    two = job(*PORTS, *elastic, "--on-link-fault=redistribute", program=PROGRAM)
    leads = two.agent(ELAUNCH_SYSFS_ROOT=str(left.root))
    wait_until("a leader", lambda: ": leading (" in leads.output())
    goes_on = two.agent(ELAUNCH_SYSFS_ROOT=str(right.root))
    seen = Operator("rails", f"--rdzv-endpoint={etcd}")
    before = ports_of(two, 1, 4)
    (first, last) = ranks = [rank for rank, ports in sorted(before.items()) if ports == "=ibp0,ibp1"]
    assert {before[rank] for rank in before.keys() - ranks} == {"=mlx5_0,mlx5_1"}

    errors = itertools.count(5000, 5000)

    def told() -> list[str]:
        right.write(broken / "counters", symbol_error=next(errors))
        return seen.events("port_errors")

    (text,) = wait_until("the errors are told", told)
    assert text.startswith(f"port ibp0:1 of {os.uname().nodename} (ranks {first}-{last}) has errors: ")
    assert {e["generation"] for e in two.events()} == {1}

    leads.kill()
    assert ports_of(two, 2, 2) == {0: "=ibp1", 1: "=ibp1"}
    leads.wait()
    (port,) = wait_until("the next leader hears of it", lambda: [port for port in seen.ports() if not port["ranks"]])
    assert (port["port"], port["code"], port["ranks"]) == ("ibp0:1", "port_errors", [])
    assert seen.events("port_errors") == [text]
    two.finish()
    assert goes_on.wait() == 0, two.outputs()
