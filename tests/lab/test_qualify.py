"""``elaunch qualify`` and laboratories: ``--hosts`` with a real sshd, and faults of a cluster as cells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from elaunch.lab import impossible
from elaunch.qualify.cells import Outcome
from tests.e2e.harness import wait_until
from tests.e2e.test_qualify import left, logs, report, started
from tests.lab.network import Network
from tests.lab.sshd import Daemons, missing

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(600)]


def test_hosts_are_qualified_by_ssh(three: Network, tmp_path: Path) -> None:
    """Launches, collectives and a death on two hosts; what a shared directory takes says so."""
    if why := missing():
        pytest.skip(why)
    output = tmp_path / "out"
    keys = tmp_path / "keys"
    keys.mkdir()
    with Daemons(three, keys) as sshd:
        hosts = ",".join(three.control(number) for number in (1, 2))
        wanted = (
            "launch/fixed",
            "launch/elastic",
            "collectives/broadcast/int64/contiguous",
            "faults/kill/at-once",
            "faults/kill/save",
            "faults/agent-*/at-once",
            "faults/partition/at-once",
        )
        only = [f"--only={name}" for name in wanted]
        process = started(output, "--full", f"--hosts={hosts}", "--nproc-per-node=1", *sshd.options, *only)
        code = process.wait(540)
        found = report(output)
        outcomes = {result.name: (result.outcome, result.why) for result in found.cells}
        skipped = {name: why for name, (outcome, why) in outcomes.items() if outcome is Outcome.NOT_RUN}
        assert set(skipped) == {
            *("launch/elastic", "faults/kill/save", "faults/agent-kill/at-once", "faults/partition/at-once"),
        }, (outcomes, logs(output))
        assert "--shared" in skipped["faults/kill/save"]
        assert "starts no agent again" in skipped["faults/agent-kill/at-once"]
        assert "nothing of other people's hosts" in skipped["faults/partition/at-once"]
        frozen = next(result for result in found.cells if result.name == "faults/agent-freeze/at-once")
        (number,) = (n for n in (1, 2) if f"node {three.host(n)} " in frozen.reason)  # the one that did not lead
        began = [line for line in (output / "logs/faults.log").read_text().splitlines() if "injection_began" in line]
        assert [line.split(" | ")[0] for line in began if "agent-freeze" in line] == [three.control(number)], began
        assert {name for name, (outcome, _) in outcomes.items() if outcome is Outcome.OK} == {
            *("launch/fixed", "collectives/broadcast/int64/contiguous", "faults/kill/at-once"),
            "faults/agent-freeze/at-once",
        }, (outcomes, logs(output))
        assert code == 0
        both = {three.host(number) for number in (1, 2)}
        assert {rank["host"] for rank in found.ranks} == both
        assert all({"import", "rendezvous", "communicator"} <= set(rank["start"]) for rank in found.ranks), found.ranks
        assert {str(rank["transport"]) for rank in found.ranks} == {"gloo"}
        assert {machine["host"] for machine in found.topology} == both, "of the hosts, and not of whoever asked"
        assert all(machine["digest"] and machine["cores"] for machine in found.topology)
        assert {(port["host"], port["port"]) for port in found.ports} >= {(host, "ctl") for host in both}
        text = (output / "report.html").read_text()
        for machine in found.topology:
            assert f"<td>{machine['host']}</td><td>{machine['digest'][:12]}</td>" in text
        wait_until("nothing is left", lambda: not left(output))


@pytest.mark.timeout(900)
def test_faults_of_a_cluster_are_cells_too(tmp_path: Path) -> None:
    """One of each target, in several phases; one is falsified, and found."""
    if why := impossible():
        pytest.skip(why)
    output, spoilt = tmp_path / "out", "faults/mtu/at-once"
    wanted = (
        *("faults/agent-kill/save", "faults/controller-kill/at-once", "faults/etcd-freeze/restore"),
        *("faults/reset/at-once", spoilt, "faults/link-down/at-once"),
    )
    process = started(output, "--full", *(f"--only={name}" for name in wanted), f"--spoil={spoilt}")
    code = process.wait(780)
    results = {result.name: result for result in report(output).cells}
    told = (output / "printed").read_text(), logs(output)
    assert list(results) == list(wanted)
    assert code == 1, told
    bad = results.pop(spoilt)
    assert (bad.outcome, bad.why) == (Outcome.FAILED, "the fault was never injected")
    assert {name: r.why for name, r in results.items() if r.outcome is not Outcome.OK} == {}, told

    for name, words in (("agent-kill/save", ("-h2", "was lost")), ("reset/at-once", ("rank", "exited with code"))):
        stopped = results[f"faults/{name}"]
        assert all(word in stopped.reason for word in words), stopped
        assert stopped.detection is not None
        assert stopped.abort is not None
        assert stopped.first_step is not None
        assert 0.0 <= stopped.detection <= stopped.abort < stopped.first_step
        assert stopped.lost_steps is not None
    assert re.fullmatch(r"controller [0-9a-f]+ leads", results["faults/controller-kill/at-once"].reason)
    assert results["faults/controller-kill/at-once"].detection is not None
    assert results["faults/etcd-freeze/restore"].reason == ""
    assert results["faults/link-down/at-once"].reason.startswith("port mlx5_0:1 of ")
    for result in results.values():
        assert result.first_step is not None, result
    wait_until("nothing is left", lambda: not left(output))
