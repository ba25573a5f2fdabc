"""Hosts that failed are drained on request, once, and training does not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from elaunch.agent.drainer import Drainer, words_for
from elaunch.agent.options import Scheduled
from elaunch.agent.slurm_commands import Said, ask

NODES = ("gpu-01", "gpu-02.cluster")


def asked(scheduled: Scheduled | None, *hosts: str) -> list[list[str]]:
    words: list[list[str]] = []

    def run(command: Sequence[str]) -> Said:
        words.append(list(command))
        return Said(False, "slurm_update error: Access/permission denied")

    async def failing() -> None:
        drainer = Drainer(scheduled, run)
        for host in hosts:
            drainer.host_failed(host, "host was lost\n in generation 2")
        await drainer.close()

    asyncio.run(failing())
    return words


def test_a_host_is_drained_once_with_the_reason() -> None:
    scheduled = Scheduled("Slurm", drain=True, nodes=NODES)
    update = ["scontrol", "update", "nodename=gpu-01", "state=drain", "reason=elaunch: host was lost in generation 2"]
    assert asked(scheduled, "gpu-01", "gpu-01") == [update]


def test_nothing_is_drained_unasked_nor_a_host_of_others() -> None:
    assert asked(Scheduled("Slurm", nodes=NODES), "gpu-01") == []
    assert asked(None, "gpu-01") == []
    assert asked(Scheduled("Slurm", drain=True, nodes=NODES), "login") == []


def test_a_node_is_found_by_the_first_part_of_its_name() -> None:
    assert (words_for("gpu-01.cluster.example", "x", NODES) or [])[2] == "nodename=gpu-01"
    assert (words_for("gpu-02", "x", NODES) or [])[2] == "nodename=gpu-02.cluster"
    assert words_for("gpu-03", "x", NODES) is None


def test_a_command_that_is_missing_or_hangs_is_told() -> None:
    assert ask(["/none/scontrol"]).text == "/none/scontrol is not installed here"
    assert ask(["sleep", "5"], seconds=0.1).text == "sleep did not answer within 0 s"
    assert ask(["sh", "-c", "echo no >&2; exit 3"]) == Said(False, "no")
    assert ask(["cat"], given="x") == Said(True, "x")
