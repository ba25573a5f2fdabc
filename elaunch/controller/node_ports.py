"""The ports of one node as its agent tells of them, and what of it is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from elaunch.controller.findings import Finding, recovered
from elaunch.controller.rails import Below
from elaunch.links import BROKEN, DOWN, FLAPPING, SLOW, PortReport
from elaunch.topology.machine import PortState


@dataclass(slots=True)
class NodePorts:
    """``ports``: all that it told of; ``told``: its troubles by port and code; ``below``: its ports slower than peers'.

    ``rank0`` is its first rank. ``open`` is what was told of, and is not over.
    """

    node_id: str
    host: str
    rank0: int
    ports: Mapping[str, PortReport] = field(default_factory=dict)
    told: Mapping[tuple[str, str], tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    below: Mapping[str, Below] = field(default_factory=dict)
    open: dict[tuple[str, str], Finding] = field(default_factory=dict)

    @property
    def rates(self) -> dict[str, float]:
        """Of the ports in use, and of those left out, which would be too."""
        return {name: port.rate for name, port in self.ports.items() if port.rate}

    def ranks(self, report: PortReport) -> tuple[int, ...]:
        """Those that use a port, of the whole job."""
        return tuple(self.rank0 + local for local in report.local_ranks)

    def knows(self, port: str) -> bool:
        """Whether the state of this port is told."""
        report = self.ports.get(port)
        return report is not None and report.state is not PortState.UNKNOWN

    def suffers(self, port: str) -> bool:
        """Whether this port is broken."""
        return any(finding.broken and finding.port == port for finding in self.open.values())

    def settle(self, now: float) -> Iterator[Finding]:
        """Bring what is open in line with what is told; the changes."""
        wanted = {key: (text, ranks, key[1] in BROKEN) for key, (text, ranks) in self.told.items()}
        for name, below in self.below.items():
            wanted.setdefault((name, SLOW), (below.text, self.ranks(self.ports[name]), not below.whole))
        for key in [key for key in self.open if key not in wanted]:
            finding = self.open.pop(key)
            if finding.code == DOWN and (finding.port, FLAPPING) in wanted:
                continue  # which says the same, and more
            yield replace(finding, over=True, trouble=recovered(finding.code, now - finding.since))
        for (port, code), (text, ranks, broken) in wanted.items():
            old = self.open.get((port, code))
            since = old.since if old else now
            self.open[port, code] = Finding(code, self.host, self.node_id, port, ranks, text, since, broken)
            if old is None:
                yield self.open[port, code]
