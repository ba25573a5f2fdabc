"""A node rank that was asked for: a second node with it is refused, a replacement of a dead one comes in."""

from __future__ import annotations

import signal
import socket

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, wait_until
from tests.e2e.test_launch import free_port

pytestmark = [pytest.mark.slow]


def test_a_rank_has_one_node_at_a_time(job: MakeJob) -> None:
    two = job(
        "--nnodes=1:2", f"--master-port={free_port()}", "--master-addr=127.0.0.1", "--rdzv-conf=lease_ttl=5",
        "--start=exec", program=(str(PROGRAMS / "signalled.py"),),
    )  # fmt: skip

    first, lost = two.agent("--node-rank=0"), two.agent("--node-rank=1")
    wait_until("two ranks", lambda: len(two.events("start", generation=1)) == 2)
    second, impatient = two.agent("--node-rank=1"), two.agent("--node-rank=1")
    wait_until("one waits", lambda: "rank_taken" in impatient.output())
    impatient.kill(signal.SIGTERM)
    assert impatient.wait() == 143, impatient.output()
    wait_until("the other waits", lambda: "rank_taken" in second.output())
    assert second.wait() == 2, second.output()
    line = second.output().splitlines()[-1]
    assert f"elaunch: error: rendezvous: --node-rank=1 is taken by node {socket.gethostname()} (" in line
    assert len(two.events("start")) == 2, "who was refused disturbed the job"
    replacement = two.agent("--node-rank=1", MINE="replacement")
    wait_until("it waits", lambda: "rank_taken" in replacement.output())
    lost.kill(signal.SIGSTOP)
    wait_until("its rank", lambda: any(e["env"].get("MINE") for e in two.events("start", rank=1)))
    lost.kill(signal.SIGCONT)
    assert lost.wait() == 2, lost.output()
    assert "lease_lost" in lost.output()
    first.kill(signal.SIGINT)
    assert [first.wait(), replacement.wait()] == [130, 130], two.outputs()
