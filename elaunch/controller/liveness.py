"""Which nodes are silent: heartbeats and the times at which they came in, verdicts out. No clock in here.

A silent node is not a dead one. Its lease tells whether its ranks are gone; silence tells a person what to look at,
and the leader whom to ask. Two things would make healthy nodes look silent, and both are held against the leader
instead: a new leader begins every age at its own start, with patience for the nodes that have to find it; and the time
in which the leader itself was not running (stopped, swapped out, starved) is nobody's silence.
"""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST = 0.25  # seconds: news goes out at once anyway, so a shorter interval would only cost
LONGEST = 5.0
MESSAGES = 800.0  # heartbeats a second that one Python core takes in while it has other things to do

MISSED = 4  # heartbeats: one can be lost with its stream, one late on a busy node, one on either side of that
LEAST_SILENCE = 3.0  # seconds, however short the interval: a loaded node's scheduler, a garbage collection
RECONNECT = (
    15.0  # seconds that nodes have to find a new leader: the time of a lease, after which silence is no question
)
LOOKED = 2.0  # seconds between two looks beyond which the leader was not running


def interval_for(nodes: int) -> float:
    """Seconds between two heartbeats of one node in a job of ``nodes``: 0.25 s up to 200 nodes, 5 s from 4,000 on.

    Between these the leader gets the same number of messages a second, whatever the number of nodes.
    """
    return min(LONGEST, max(SHORTEST, nodes / MESSAGES))


@dataclass(frozen=True, slots=True)
class Silent:
    """A node that was not heard of for ``age`` seconds, and in one sentence why that is too long."""

    node_id: str
    host: str
    age: float
    text: str


@dataclass(slots=True)
class _Heard:
    host: str
    at: float
    interval: float
    ever: bool


class Liveness:
    """The ages of the heartbeats of one leader's nodes.

    ``start`` is when its term began, ``patience`` the seconds that a node has for its first heartbeat from then, or
    from when it is first expected. All times are seconds of the leader's monotonic clock.
    """

    def __init__(self, start: float, patience: float = RECONNECT) -> None:
        self._patience = patience
        self._nodes: dict[str, _Heard] = {}
        self._looked = start
        self.awake = start
        """Since when the leader has been running without a gap, as of the last call."""

    def look(self, now: float) -> float:
        """Note that the leader runs; since when it has been running without a gap."""
        if now - self._looked > LOOKED:
            self.awake = now
        self._looked = max(self._looked, now)
        return self.awake

    def expect(self, node_id: str, host: str, now: float) -> None:
        """``node_id`` on ``host`` should send heartbeats from now on. A node that is known already stays as it is."""
        self.look(now)
        if node_id not in self._nodes:
            self._nodes[node_id] = _Heard(host, now, SHORTEST, ever=False)

    def heard(self, node_id: str, now: float, interval: float) -> bool:
        """A heartbeat came, the next is due within ``interval`` seconds. False for a node that is not expected."""
        self.look(now)
        seen = self._nodes.get(node_id)
        if seen is None:
            return False
        seen.at, seen.interval, seen.ever = now, min(max(interval, 0.0), LONGEST), True
        return True

    def forget(self, node_id: str) -> None:
        """The node is gone, or has nothing to send any more."""
        self._nodes.pop(node_id, None)

    def age(self, node_id: str, now: float) -> float:
        """Seconds of silence that count against ``node_id``; 0 for an unknown one."""
        seen = self._nodes.get(node_id)
        return max(0.0, now - max(seen.at, self.awake)) if seen else 0.0

    def silent(self, now: float) -> tuple[Silent, ...]:
        """The nodes that are silent now, longest first. To be called once a second at least."""
        self.look(now)
        found = [
            Silent(node_id, seen.host, age, _sentence(node_id, seen, age))
            for node_id, seen in self._nodes.items()
            if (age := now - max(seen.at, self.awake)) > self._limit(seen)
        ]
        return tuple(sorted(found, key=lambda silent: (-silent.age, silent.node_id)))

    def _limit(self, seen: _Heard) -> float:
        limit = max(LEAST_SILENCE, MISSED * seen.interval)
        return limit if seen.ever else max(limit, self._patience)


def _sentence(node_id: str, seen: _Heard, age: float) -> str:
    if not seen.ever:
        return f"node {seen.host} ({node_id}) has sent no heartbeat to this leader for {age:.1f} s"
    return (
        f"node {seen.host} ({node_id}) has sent no heartbeat for {age:.1f} s; one was due every {seen.interval:.2g} s"
    )
