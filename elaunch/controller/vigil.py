"""What a leader hears of the ranks' progress while a generation runs, and what it makes of it.

Everything is in memory: a new leader begins with nothing, and knows all again after one interval. Heartbeats come by
the thousand, so judging is not done for each, but at a pace of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from elaunch.controller.blame import Hang
from elaunch.controller.deadlines import Deadlines
from elaunch.controller.findings import Finding
from elaunch.controller.hang import diagnose
from elaunch.controller.hang_report import HangReport, reported
from elaunch.controller.job import Job
from elaunch.controller.links import Links
from elaunch.controller.liveness import Liveness, Silent
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.patience import Patience
from elaunch.controller.policy import Policy
from elaunch.controller.sightings import RankView, Sightings
from elaunch.controller.start_check import Starts
from elaunch.controller.straggler import Straggler, StragglerPolicy, Stragglers
from elaunch.progress import Heartbeat
from elaunch.rendezvous.memory import Learnt
from elaunch.rendezvous.records import Phase

PACE = 0.5  # seconds between two judgements, and as long for each so many ranks:
RANKS_PER_PACE = 4096


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found at one moment: a hang, or None, and what has changed since the last one.

    ``silent`` are the nodes that have become so, ``stragglers`` the ranks that have become some, or caught up,
    ``links`` the ports that are in trouble or no longer so.
    ``refusal`` is why the ranks will never be one group, "" where they may.
    """

    hang: Hang | None
    silent: tuple[Silent, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    links: tuple[Finding, ...] = ()
    refusal: str = ""


class Vigil:
    """One leader's watch over the generation that runs. Times are seconds of its monotonic clock."""

    def __init__(self, policy: Policy, now: float) -> None:
        self._patience = patience_of(policy)
        self._deadlines = Deadlines(self._patience)
        self._straggling = StragglerPolicy(policy.straggler_factor)
        self._stragglers = Stragglers(self._straggling)
        self._liveness = Liveness(now)
        self._sightings = Sightings(0)
        self.links = Links()
        self._starts = Starts(0, 0)
        self._hosts: dict[str, str] = {}
        self._silent: set[str] = set()
        self._due = now
        self._followed = (False, 0)
        self.stale = 0
        self.step = -1
        self.report: HangReport | None = None
        """The last hang that was found."""
        self.first: tuple[int, float] | None = None
        """The first step that a rank of the generation has told, and when."""

    @property
    def starts(self) -> Starts:
        """What is known of the generation's start."""
        return self._starts

    @property
    def generation(self) -> int:
        """The generation that is watched."""
        return self._sightings.generation

    @property
    def views(self) -> tuple[RankView, ...]:
        """Every rank that was heard of."""
        return self._sightings.views()

    @property
    def stragglers(self) -> Mapping[int, float]:
        """The ranks that are stragglers now, each with the ratio at which it was told."""
        return self._stragglers.ranks

    def age(self, node_id: str, now: float) -> float:
        """Seconds since the last heartbeat of a node."""
        return self._liveness.age(node_id, now)

    def recall(self, learnt: Learnt) -> None:
        """Begin with what the leader before has handed on of the job's pace."""
        self._deadlines = Deadlines(self._patience, learnt)

    def handed_on(self, told: Learnt) -> Learnt:
        """What the next leader is to know of the job's pace; ``told``, which it would know, while that will do."""
        return self._deadlines.handed_on(told)

    def follow(self, job: Job, now: float) -> None:
        """Take note of which nodes run what, after every step of the job."""
        running = job.phase in (Phase.STARTING, Phase.RUNNING) and not job.uncommitted
        if (running, job.generation) == self._followed:
            return
        self._followed = (running, job.generation)
        if job.generation != self._sightings.generation:
            self._sightings = Sightings(job.generation)
            self._starts = Starts(job.generation, job.plan.world_size if job.plan else 0)
            self._stragglers = Stragglers(self._straggling)
            self._deadlines.begin(job.generation)
            self.step, self.first = -1, None
        self.links.follow(job.members if running else (), job.nodes)
        expected = {m.node_id: m.host for m in job.members} if running else {}
        for node_id in self._hosts.keys() - expected.keys():
            self._liveness.forget(node_id)
            self._sightings.forget(node_id)
            self._starts.forget(node_id)
        for node_id, host in expected.items():
            self._liveness.expect(node_id, host, now)
        self._hosts = expected
        self._silent &= expected.keys()

    def expects(self, node_id: str, generation: int) -> bool:
        """Whether a heartbeat of this node and generation is not stale."""
        return node_id in self._hosts and generation == self._sightings.generation

    def hear_starts(self, status: NodeStatus, now: float, host: str = "") -> None:
        """Take in what a status of ``host`` tells of starts, and of what was saved of a hang."""
        if self.report is not None:
            self.report.hear(status, host)
        if status.node_id in self._hosts:
            self._starts.hear(status.node_id, status.starts, now)

    def hear(self, beat: Heartbeat, now: float) -> bool:
        """Take a heartbeat in. False for one that is stale: of another generation, or of a node that has no part."""
        host = self._hosts.get(beat.node_id)
        if host is None or not self._sightings.heard(beat, host, now, self._liveness.look(now)):
            self.stale += 1
            return False
        self.step = max((self.step, *(rank.step for rank in beat.ranks)))
        if self.first is None and self.step >= 0:
            self.first = self.step, now
        self._deadlines.observe(beat, now)
        self.links.hear(beat)
        self._liveness.heard(beat.node_id, now, beat.interval)
        return True

    @property
    def due(self) -> float | None:
        """When to judge next; None while nothing runs."""
        return self._due if self._hosts else None

    def judge(self, now: float, wall: float = 0.0) -> Judgement | None:
        """What is found now; None before it is due. ``wall`` is the wall clock."""
        if not self._hosts or now < self._due:
            return None
        views = self._sightings.views()
        self._due = now + PACE * (1 + len(views) / RANKS_PER_PACE)
        found = self._liveness.silent(now)
        news = tuple(silent for silent in found if silent.node_id not in self._silent)
        self._silent = {silent.node_id for silent in found}
        awake = self._liveness.awake
        limits = replace(self._deadlines.limits(), ending=self._sightings.ending)
        links = self.links.changes(now, wall)
        hang = self._starts.explained(diagnose(views, limits)) or self._starts.overdue(limits.hang, now, awake)
        refusal = self._starts.refusal(now, awake)
        if hang is not None:
            hang = self._related(hang)
            self.report = reported(hang, self.generation, views, wall)
            return Judgement(hang, news, (), links, refusal)
        stragglers = tuple(map(self._straggler_related, self._stragglers.observe(views)))
        return Judgement(None, news, stragglers, links, refusal)

    def _related(self, hang: Hang) -> Hang:
        """With what is wrong with the ports of those to blame, or with any port where it is the transport."""
        blamed = hang.culprits[:1]
        text = "".join(self.links.about(c.node_id, c.rank) for c in blamed) if blamed else self.links.anywhere()
        return replace(hang, text=hang.text + text)

    def _straggler_related(self, straggler: Straggler) -> Straggler:
        text = "" if straggler.recovered else self.links.about(straggler.node_id, straggler.rank)
        return replace(straggler, text=straggler.text + text)


def patience_of(policy: Policy) -> Patience:
    """What ``--hang-timeout`` and ``--hang-floor`` ask for."""
    timeout = policy.hang_timeout
    return Patience(0.0 if timeout == math.inf else timeout, policy.hang_floor)
