"""Hosts that probe each other without a job: tests/programs/probing.py on each."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from types import TracebackType
from typing import Any

from elaunch.topology.probe.facts import Interface, NodeFacts, Report, Row
from elaunch.topology.probe.findings import Verdict, findings
from elaunch.topology.probe.rounds import targets
from tests.e2e.harness import PROGRAMS, ROOT
from tests.lab.network import Network

SECONDS = 2.4


class Probers:
    """One process on each host of a network."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self._ids = iter(range(1000))

    def __enter__(self) -> Probers:
        self.processes = [
            subprocess.Popen(
                [*self.net.at(n), sys.executable, str(PROGRAMS / "probing.py")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
            )
            for n in range(1, self.net.count + 1)
        ]  # fmt: skip
        told = [self._hear(process) for process in self.processes]
        self.facts = [_facts(f"n{n}", self.net.host(n), of) for n, of in enumerate(told, 1)]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self.processes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait(20)
            process.stdout.close()

    def probe(self, facts: list[NodeFacts] | None = None, seconds: float = SECONDS) -> tuple[Verdict, float]:
        """What the hosts find out about each other, and the seconds that the slowest of them took."""
        facts = facts or self.facts
        identity, asked = f"probe-{next(self._ids)}", targets(facts)
        for node, process in zip(facts, self.processes, strict=True):
            values = [dataclasses.asdict(target) for target in asked[node.node_id]]
            self._say(process, ["probe", identity, "a secret", seconds, values])
        answers = [self._hear(process) for process in self.processes]
        reports = {
            node.node_id: Report(told["id"], tuple(Row(**row) for row in told["rows"]))
            for node, told in zip(facts, answers, strict=True)
        }
        return findings(facts, reports), max(told["seconds"] for told in answers)

    def _say(self, process: subprocess.Popen[str], value: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(value) + "\n")
        process.stdin.flush()

    def _hear(self, process: subprocess.Popen[str]) -> Any:
        assert process.stdout is not None
        return json.loads(process.stdout.readline())


def _facts(node_id: str, host: str, told: list[dict[str, Any]]) -> NodeFacts:
    names = ("name", "link_local", "mtu", "port")
    found = (Interface(addresses=tuple(link["addresses"]), **{n: link[n] for n in names}) for link in told)
    return NodeFacts(node_id, host, tuple(found))
