"""What the nodes are asked in the probes that are under way: worked out once for each."""

from __future__ import annotations

from collections.abc import Iterator

from elaunch.controller.commands import Probe
from elaunch.controller.job import Job, Probing
from elaunch.controller.probing import MARGIN, secret_of

_LEAST = 0.2  # seconds that a node gets in any case


class Asking:
    """The commands of the probes of one term, by the probe's id and the node's."""

    def __init__(self) -> None:
        self._commands: dict[str, dict[str, Probe]] = {}

    def new(self, job: Job, now: float) -> Iterator[tuple[str, Probe]]:
        """What nodes are to be asked that were not, and whom."""
        if not job.probing and not self._commands:
            return
        here = {probing.id for probing in job.probing}
        self._commands = {known: of for known, of in self._commands.items() if known in here}
        for probing in job.probing:
            if probing.id not in self._commands:
                self._commands[probing.id] = commands = _commands(job, probing, now)
                yield from commands.items()

    def of(self, node_id: str) -> list[Probe]:
        """What a node whose stream has come anew is to be asked."""
        return [commands[node_id] for commands in self._commands.values() if node_id in commands]


def _commands(job: Job, probing: Probing, now: float) -> dict[str, Probe]:
    from elaunch.topology.probe.rounds import targets  # few leaders ever need it

    secret, seconds = secret_of(job, probing), max(_LEAST, probing.until - now - MARGIN)
    asked = targets(probing.nodes)
    return {node_id: Probe(probing.id, secret, seconds, of) for node_id, of in asked.items()}
