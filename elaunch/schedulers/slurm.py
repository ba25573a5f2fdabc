"""What Slurm says in the environment: the job, the step, its nodes, this node's part. Values only.

``SLURM_*`` of a job step are srun's; those of a batch script are about the whole allocation, and look alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elaunch.schedulers.hostlist import counts, expand

FIRST_PORT = 16_384
PORTS = 16_381  # a prime, so that jobs and steps near each other never share a port; all below the ephemeral ones
GENERATIONS = 100_000  # that one start of a job may number
_SPECIAL_STEPS = 0xFFFF_FFF0  # from here on: the batch script, the interactive shell, the extern step
_ENDPOINTS = 3  # as many as an embedded etcd has members


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where in Slurm a process runs.

    ``job`` is Slurm's number of it, ``array`` as ``12_3`` in an array's task, ``step`` None in a batch script or a
    shell. ``nodes`` are those of the step, else of the allocation; of a step over several components of a heterogeneous
    job all of them. ``node`` is this one's place among them, ``tasks`` how many tasks of the step there are,
    ``tasks_on`` on each node. ``gpus`` and ``cpus`` are what was granted here, None where nothing was said.
    ``restarts`` counts how often Slurm has started the job again, ``ends_at`` is when it will end it, in seconds since
    the epoch, where that was told.
    """

    job: int
    cluster: str = ""
    array: str = ""
    step: int | None = None
    nodes: tuple[str, ...] = ()
    node: int = 0
    tasks: int = 1
    tasks_on: tuple[int, ...] = ()
    gpus: int | None = None
    cpus: int | None = None
    restarts: int = 0
    ends_at: float | None = None

    @property
    def name(self) -> str:
        """The job for elaunch: the same when Slurm starts it again, one for each step, as they run side by side."""
        step = f".{self.step}" if self.step is not None else ""
        return f"slurm-{self.array or self.job}{step}"

    @property
    def incarnation(self) -> str:
        """What is the same for all starts of this job and step, and for no other."""
        return f"slurm:{self.cluster}:{self.job}.{'batch' if self.step is None else self.step}"

    @property
    def floor(self) -> int:
        """Above this the generations of this start are numbered: no earlier one came so far."""
        return self.restarts * GENERATIONS

    @property
    def port(self) -> int:
        """Where the step's nodes meet: the same on all of them, another one for another step, job or start.

        So nothing of an earlier start is met there, neither an etcd that lives on nor its data.
        """
        return FIRST_PORT + (self.job * 31 + (self.step or 0) + self.restarts * 8191) % PORTS

    @property
    def endpoints(self) -> tuple[str, ...]:
        """``host:port`` of the first nodes. The first starts the embedded etcd."""
        return tuple(f"{host}:{self.port}" for host in self.nodes[:_ENDPOINTS])


def allocation(environ: Mapping[str, str]) -> Allocation | None:
    """What ``environ`` says, None outside of Slurm.

    Raises ValueError, with variable and value, for what Slurm would not write.
    """
    if not environ.get("SLURM_JOB_ID"):
        return None
    job = _number(environ, "SLURM_JOB_ID")
    step = _step(environ)
    nodes = _listed(environ, "SLURM_STEP_NODELIST" if step is not None else "SLURM_JOB_NODELIST")
    node = _number(environ, "SLURM_NODEID", 0)
    if nodes and node >= len(nodes):
        raise ValueError(f"SLURM_NODEID={node}: expected a number below {len(nodes)}, the nodes of the step")
    return Allocation(
        job=job,
        cluster=environ.get("SLURM_CLUSTER_NAME", ""),
        array=_array(environ),
        step=step,
        nodes=nodes,
        node=node,
        tasks=_number(environ, "SLURM_STEP_NUM_TASKS", len(nodes) or 1),
        tasks_on=_tasks_on(environ, len(nodes)),
        gpus=_gpus(environ, step),
        cpus=_number(environ, "SLURM_CPUS_ON_NODE") if environ.get("SLURM_CPUS_ON_NODE") else None,
        restarts=_number(environ, "SLURM_RESTART_COUNT", 0),
        ends_at=float(end) if (end := _number(environ, "SLURM_JOB_END_TIME", 0)) else None,
    )


def _step(environ: Mapping[str, str]) -> int | None:
    step = _number(environ, "SLURM_STEP_ID", _SPECIAL_STEPS)
    return step if step < _SPECIAL_STEPS and environ.get("SLURM_STEP_NODELIST") else None


def _array(environ: Mapping[str, str]) -> str:
    if not environ.get("SLURM_ARRAY_TASK_ID"):
        return ""
    return f"{_number(environ, 'SLURM_ARRAY_JOB_ID')}_{_number(environ, 'SLURM_ARRAY_TASK_ID')}"


def _tasks_on(environ: Mapping[str, str], nodes: int) -> tuple[int, ...]:
    text = environ.get("SLURM_STEP_TASKS_PER_NODE")
    if not text:
        return (1,) * nodes
    try:
        found = counts(text)
    except ValueError as error:
        raise ValueError(f"SLURM_STEP_TASKS_PER_NODE={text}: {error}") from None
    if len(found) < nodes:
        raise ValueError(f"SLURM_STEP_TASKS_PER_NODE={text}: expected counts of {nodes} nodes")
    return found


def _gpus(environ: Mapping[str, str], step: int | None) -> int | None:
    """How many GPUs this step, or this node's share of the allocation, was granted here.

    A step without any of its own still inherits what the batch script was told of the allocation.
    """
    if step is not None:
        listed = environ.get("SLURM_STEP_GPUS")
        return len(listed.split(",")) if listed else None
    if environ.get("SLURM_GPUS_ON_NODE"):
        return _number(environ, "SLURM_GPUS_ON_NODE")
    listed = environ.get("SLURM_JOB_GPUS")
    return len(listed.split(",")) if listed else None


def _listed(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    text = environ.get(name, "")
    try:
        return expand(text) if text else ()
    except ValueError as error:
        raise ValueError(f"{name}={text}: {error}") from None


def _number(environ: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environ.get(name, "")
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise ValueError(f"{name}={text}: expected a number")
    return int(text)
