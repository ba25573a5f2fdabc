"""Every metric that elaunch tells, with its kind, its labels and what it means: one table for the code and the docs.

Names and units are by the conventions of Prometheus: base units, ``_total`` for what only grows, no unit in a label.
All but ``elaunch_build_info`` and the last group carry the label ``job_id``, the job's name; it is left out below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """``labels`` beside ``job_id``; ``of_job``: it has that."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    of_job: bool = True

    @property
    def all_labels(self) -> tuple[str, ...]:
        return ("job_id", *self.labels) if self.of_job else self.labels


JOB: Final = (
    Metric("elaunch_phase", "gauge", "1 for the phase that the job is in, 0 for the others", ("phase",)),
    Metric("elaunch_generation", "gauge", "Number of the present generation"),
    Metric("elaunch_restarts_total", "counter", "Restarts, by the code of their reason", ("reason",)),
    Metric("elaunch_restarts_left", "gauge", "Restarts that are left of --max-restarts"),
    Metric("elaunch_world_size", "gauge", "Ranks of the present generation"),
    Metric("elaunch_ranks", "gauge", "Ranks by what they do now", ("state",)),
    Metric("elaunch_nodes", "gauge", "Nodes that are there"),
    Metric("elaunch_nodes_attached", "gauge", "Nodes that have a stream to the leader"),
    Metric("elaunch_nodes_min", "gauge", "Nodes that the job needs"),
    Metric("elaunch_nodes_max", "gauge", "Nodes that the job may have"),
)
RECOVERY: Final = (
    Metric("elaunch_recovery_phase_seconds", "histogram", "Seconds of each phase of a recovery", ("phase",)),
    Metric("elaunch_goodput_ratio", "gauge", "Useful part of the time since the job began"),
    Metric("elaunch_useful_seconds", "gauge", "Useful seconds; falls when work turns out to be lost"),
    Metric("elaunch_lost_seconds_total", "counter", "Seconds that were not useful, by what they went into", ("cause",)),
    Metric("elaunch_failure_cost_seconds", "gauge", "Work that is in no checkpoint: what a failure now would cost"),
    Metric("elaunch_failure_cost_steps", "gauge", "The same in steps, where the program tells them"),
)
PROGRESS: Final = (
    Metric("elaunch_step", "gauge", "Step of the furthest rank, where the program tells steps"),
    Metric("elaunch_step_lag", "gauge", "Steps by which the last rank is behind the furthest"),
    Metric("elaunch_step_seconds", "gauge", "Seconds of a usual step"),
    Metric("elaunch_progress_age_seconds", "gauge", "Seconds since the last progress of the rank that stands longest"),
    Metric("elaunch_heartbeat_age_seconds", "gauge", "Seconds since the last word of the most silent member"),
    Metric("elaunch_node_heartbeat_age_seconds", "gauge", "The same by host; of 256 hosts at most", ("host",)),
    Metric("elaunch_stragglers", "gauge", "Ranks that are slower than their peers"),
    Metric("elaunch_straggler_ratio", "gauge", "Times as slow as its peers: the worst straggler; 1 without one"),
    Metric("elaunch_rank_straggler_ratio", "gauge", "The same by rank; the 16 worst", ("rank", "host")),
)
CHECKPOINT: Final = (
    Metric("elaunch_checkpoint_age_seconds", "gauge", "Seconds since the last checkpoint was recorded"),
    Metric("elaunch_checkpoint_step", "gauge", "Step of the last checkpoint"),
    Metric("elaunch_checkpoint_size_bytes", "gauge", "Size of the last checkpoint"),
    Metric("elaunch_checkpoint_save_seconds", "gauge", "Seconds from the call of save to its commit"),
    Metric("elaunch_checkpoint_blocked_seconds", "gauge", "Seconds of it for which the program had to wait"),
)
PORTS: Final = (
    Metric("elaunch_ports_in_trouble", "gauge", "Ports with a trouble, by its code", ("code",)),
    Metric("elaunch_port_up", "gauge", "1 for a port that is active; of 512 ports at most", ("host", "port")),
    Metric("elaunch_port_rate_bytes_per_second", "gauge", "What the port runs at", ("host", "port")),
    Metric("elaunch_port_transmit_bytes_per_second", "gauge", "What it sends", ("host", "port")),
    Metric("elaunch_port_receive_bytes_per_second", "gauge", "What it receives", ("host", "port")),
    Metric("elaunch_port_errors", "gauge", "By how much an error counter rose of late", ("host", "port", "counter")),
)
RANKS: Final = (
    Metric("elaunch_rank_step", "gauge", "Step of the rank; only with /metrics?ranks=1", ("rank",)),
    Metric("elaunch_rank_progress_age_seconds", "gauge", "Seconds since its last progress; likewise", ("rank",)),
)
CONTROL: Final = (
    Metric("elaunch_leader_epoch", "gauge", "Epoch of the leader: a change says that another one leads"),
    Metric("elaunch_store_write_seconds", "histogram", "Seconds of the leader's writes to etcd"),
    Metric(
        "elaunch_series_left_out", "gauge", "Hosts and ports that are not told of, as there are too many", ("kind",)
    ),
)
PROCESS: Final = (
    Metric("elaunch_build_info", "gauge", "1; the release of elaunch", ("version",), of_job=False),
    Metric("elaunch_jobs", "gauge", "Jobs that this process leads", of_job=False),
    Metric("elaunch_refused_total", "counter", "Messages and requests that were refused", ("reason",), of_job=False),
    Metric("elaunch_loop_lag_seconds", "gauge", "By how much this process was late, at worst, of late", of_job=False),
    Metric("elaunch_web_streams", "gauge", "Pages that are open", of_job=False),
)
GROUPS: Final = {
    "the job": JOB,
    "recoveries and goodput": RECOVERY,
    "progress": PROGRESS,
    "checkpoints": CHECKPOINT,
    "ports": PORTS,
    "each rank, when asked for": RANKS,
    "the control plane": CONTROL,
    "the process": PROCESS,
}
METRICS: Final = {metric.name: metric for group in GROUPS.values() for metric in group}
