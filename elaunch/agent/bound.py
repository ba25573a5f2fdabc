"""What one rank is bound to, as it is started with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from elaunch.topology.cpus import CpuSet

Ports = Sequence[tuple[str, str]]
"""Names of ports, each with a reason."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Variables, CPUs, and the NUMA node to take memory from."""

    env: Mapping[str, str]
    cpus: CpuSet | None = None
    memory: int | None = None


class Binds(Protocol):
    """Says what the ranks of a generation are bound to; ``ahead`` that it will be asked for one soon."""

    def ahead(self) -> None: ...

    async def bind(self, generation: int, nodes: int, avoid: Ports = (), unreachable: Ports = ()) -> list[Bound]: ...
