"""What a Prometheus collects, made at each scrape from what the leader knows: nothing is counted a second time.

The number of series is bounded whatever the size of the job: ranks are told of as counts and as the worst few, hosts
and ports up to a number; what is left out is told as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from elaunch.metrics.catalogue import METRICS
from elaunch.metrics.goodput import CAUSES, USEFUL, ratio
from elaunch.metrics.tally import Figures, Tally
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.records import Checkpoint, Phase

GBIT = 1e9 / 8  # bytes per second
MOST_HOSTS = 256
MOST_PORTS = 512
MOST_STRAGGLERS = 16
MOST_RANKS = 16_384
MOST_REASONS = 64
Labels = Sequence[str]
Made = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily


@dataclass(frozen=True, slots=True)
class Scraped:
    """One job that this process leads. ``states`` are its ranks by what they do.

    ``booked`` are the seconds of each activity that its accounts have for good: unlike those of the ``reply``, which go
    up to this moment, by this host's clock, those of a cause never fall.
    """

    job: str
    reply: pb.StatusReply
    figures: Figures
    checkpoint: Checkpoint | None = None
    states: Mapping[str, int] = field(default_factory=dict)
    booked: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Process:
    """What belongs to no job."""

    version: str
    refused: Mapping[str, int] = field(default_factory=dict)
    loop_lag: float = 0.0
    streams: int = 0


class JobsCollector(Collector):
    """The metrics of these jobs at one moment; ``ranks``: of each rank too."""

    def __init__(self, jobs: Sequence[Scraped], process: Process, *, ranks: bool = False) -> None:
        self._jobs = jobs
        self._process = process
        self._ranks = ranks
        self._families: dict[str, Made] = {}

    def collect(self) -> Iterable[Family]:
        """For prometheus_client."""
        self._families = {name: _family(name) for name in METRICS}
        for one in self._jobs:
            self._job(one)
            self._recovery(one)
            self._progress(one)
            self._checkpoint(one)
            self._ports(one)
        self._of_process()
        return [family for family in self._families.values() if family.samples]

    def _put(self, name: str, labels: Labels, value: float) -> None:
        family = self._families[name]
        assert not isinstance(family, HistogramMetricFamily)
        if math.isnan(value):
            return  # an agent has told of no number: nothing is known
        family.add_metric(labels, value)

    def _observed(self, name: str, labels: Labels, tally: Tally) -> None:
        family = self._families[name]
        assert isinstance(family, HistogramMetricFamily)
        family.add_metric(labels, tally.buckets, tally.sum)

    def _job(self, one: Scraped) -> None:
        job, reply = one.job, one.reply
        for phase in Phase:
            self._put("elaunch_phase", (job, phase.value), phase.value == reply.phase)
        for reason, count in sorted(reply.accounts.restarts.items())[:MOST_REASONS]:
            self._put("elaunch_restarts_total", (job, reason), count)
        for state, count in one.states.items():
            self._put("elaunch_ranks", (job, state), count)
        self._put("elaunch_generation", (job,), reply.generation)
        self._put("elaunch_restarts_left", (job,), reply.budget_left)
        self._put("elaunch_world_size", (job,), reply.world_size)
        self._put("elaunch_nodes", (job,), len(reply.nodes))
        self._put("elaunch_nodes_attached", (job,), sum(node.attached for node in reply.nodes))
        self._put("elaunch_nodes_min", (job,), reply.min_nodes)
        self._put("elaunch_nodes_max", (job,), reply.max_nodes)
        self._put("elaunch_leader_epoch", (job,), reply.leader_epoch)

    def _recovery(self, one: Scraped) -> None:
        job, reply = one.job, one.reply
        for phase, tally in one.figures.phases.items():
            self._observed("elaunch_recovery_phase_seconds", (job, phase), tally)
        self._observed("elaunch_store_write_seconds", (job,), one.figures.writes)
        if reply.HasField("accounts"):
            seconds, total = reply.accounts.seconds, reply.accounts.total_seconds
            useful = seconds.get(USEFUL, 0.0)
            self._put("elaunch_useful_seconds", (job,), useful)
            if (part := ratio(useful, total)) is not None:
                self._put("elaunch_goodput_ratio", (job,), part)
            for cause in CAUSES:
                self._put("elaunch_lost_seconds_total", (job, cause), one.booked.get(cause, 0.0))
        self._put("elaunch_failure_cost_seconds", (job,), reply.lost_seconds)
        if reply.lost_steps >= 0:
            self._put("elaunch_failure_cost_steps", (job,), reply.lost_steps)

    def _progress(self, one: Scraped) -> None:
        job, reply = one.job, one.reply
        steps = [line.step for line in reply.ranks if line.step >= 0]
        if steps:
            self._put("elaunch_step", (job,), max(steps))
            self._put("elaunch_step_lag", (job,), max(steps) - min(steps))
        if reply.usual_step_seconds:
            self._put("elaunch_step_seconds", (job,), reply.usual_step_seconds)
        if reply.ranks:
            ages = (line.progress_seconds for line in reply.ranks)
            self._put("elaunch_progress_age_seconds", (job,), max(ages))
        self._heartbeats(one)
        slow = sorted((line for line in reply.ranks if line.slower), key=lambda line: -line.slower)
        self._put("elaunch_stragglers", (job,), len(slow))
        self._put("elaunch_straggler_ratio", (job,), slow[0].slower if slow else 1.0)
        hosts = {node.node_id: node.host for node in reply.nodes} if slow else {}
        for line in slow[:MOST_STRAGGLERS]:
            labels = (job, str(line.rank), hosts.get(line.node_id, ""))
            self._put("elaunch_rank_straggler_ratio", labels, line.slower)
        for line in reply.ranks[:MOST_RANKS] if self._ranks else ():
            if line.step >= 0:
                self._put("elaunch_rank_step", (job, str(line.rank)), line.step)
            self._put("elaunch_rank_progress_age_seconds", (job, str(line.rank)), line.progress_seconds)

    def _heartbeats(self, one: Scraped) -> None:
        """Of several nodes of one host the most silent."""
        ages: dict[str, float] = {}
        for node in one.reply.nodes:
            if node.rank0 >= 0 and node.heard_seconds >= 0:
                ages[node.host] = max(ages.get(node.host, 0.0), node.heard_seconds)
        if ages:
            self._put("elaunch_heartbeat_age_seconds", (one.job,), max(ages.values()))
        for host in sorted(ages)[:MOST_HOSTS]:
            self._put("elaunch_node_heartbeat_age_seconds", (one.job, host), ages[host])
        self._put("elaunch_series_left_out", (one.job, "host"), max(0, len(ages) - MOST_HOSTS))

    def _checkpoint(self, one: Scraped) -> None:
        last, job = one.checkpoint, one.job
        if last is None:
            return
        self._put("elaunch_checkpoint_step", (job,), last.step)
        self._put("elaunch_checkpoint_size_bytes", (job,), last.bytes)
        self._put("elaunch_checkpoint_save_seconds", (job,), last.seconds)
        if last.blocked is not None:
            self._put("elaunch_checkpoint_blocked_seconds", (job,), last.blocked)
        if one.reply.HasField("checkpoint"):
            self._put("elaunch_checkpoint_age_seconds", (job,), one.reply.checkpoint.age_seconds)

    def _ports(self, one: Scraped) -> None:
        job, levels = one.job, {(level.host, level.port): level for level in one.reply.port_levels}
        for code, count in Counter(line.code for line in one.reply.ports if not line.left_out).items():
            self._put("elaunch_ports_in_trouble", (job, code), count)
        for (host, port), level in sorted(levels.items())[:MOST_PORTS]:
            labels = (job, host, port)
            self._put("elaunch_port_up", labels, level.state == "active")
            if level.HasField("rate"):
                self._put("elaunch_port_rate_bytes_per_second", labels, level.rate * GBIT)
            if level.HasField("sent"):
                self._put("elaunch_port_transmit_bytes_per_second", labels, level.sent)
            if level.HasField("received"):
                self._put("elaunch_port_receive_bytes_per_second", labels, level.received)
            for counter, rose in sorted(level.rose.items())[:MOST_REASONS]:
                self._put("elaunch_port_errors", (*labels, counter), rose)
        self._put("elaunch_series_left_out", (job, "port"), max(0, len(levels) - MOST_PORTS))

    def _of_process(self) -> None:
        self._put("elaunch_build_info", (self._process.version,), 1)
        self._put("elaunch_jobs", (), len(self._jobs))
        self._put("elaunch_loop_lag_seconds", (), self._process.loop_lag)
        self._put("elaunch_web_streams", (), self._process.streams)
        for reason, count in sorted(self._process.refused.items())[:MOST_REASONS]:
            self._put("elaunch_refused_total", (reason,), count)


def _family(name: str) -> Made:
    metric = METRICS[name]
    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "histogram": HistogramMetricFamily}
    made: Made = kinds[metric.kind](name.removesuffix("_total"), metric.help, labels=metric.all_labels)
    return made
