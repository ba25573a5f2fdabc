"""What an agent is told to do: validated, resolved, frozen. Times are in seconds."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Literal

from elaunch.agent.program import Program
from elaunch.controller.access import OPEN, Security
from elaunch.topology.binding import Wishes
from elaunch.topology.machine import Topology
from elaunch.web.options import WebOptions

Backend = Literal["etcd", "c10d", "static"]
StartMode = Literal["warm", "exec"]
StartMethod = Literal["spawn", "fork", "forkserver"]
ProbeMode = Literal["auto", "off"]
NumaBinding = Literal["node", "socket", "exclusive", "core-complex"]


class Streams(IntFlag):
    """The standard streams of a rank that a log setting is about; numbered as torchrun numbers them."""

    NONE = 0
    OUT = 1
    ERR = 2
    BOTH = 3


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port; ``str`` gives ``host:port``, an IPv6 address in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """How to speak to etcd. Paths are of PEM files; the password never shows in a ``repr``.

    ``server_name`` is what its certificate must name, where that is not the host of the endpoint.
    """

    protocol: Literal["http", "https"] = "http"
    ca_cert: str | None = None
    cert: str | None = None
    key: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class RendezvousConf:
    """``--rdzv-conf``, with torchrun's names and defaults, and ``lease_ttl`` and ``etcd_timeout`` of ours.

    ``lease_ttl`` is how long a silent node counts as alive; ``etcd_timeout`` how long an etcd that was there
    is waited for. ``is_host`` is None where the endpoint's host decides. ``timeout`` is the static backend's.
    """

    join_timeout: float = 600.0
    last_call_timeout: float = 30.0
    close_timeout: float = 30.0
    heartbeat_timeout: float = 5.0
    keep_alive_interval: float = 5.0
    keep_alive_max_attempt: int = 3
    read_timeout: float = 60.0
    is_host: bool | None = None
    store_type: Literal["tcp", "file"] = "tcp"
    timeout: float = 900.0
    lease_ttl: int = 15
    etcd_timeout: float = 30.0
    access: EtcdAccess = EtcdAccess()


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Where the ranks' streams go. ``redirects`` and ``tee`` hold one value for each local rank.

    ``shown`` is None where every rank's output reaches the console, ``directory`` for a temporary folder.
    """

    directory: str | None = None
    redirects: tuple[Streams, ...] = ()
    tee: tuple[Streams, ...] = ()
    shown: frozenset[int] | None = None
    duplicate_stdout: tuple[str, ...] = ()
    duplicate_stderr: tuple[str, ...] = ()
    line_prefix: str | None = None
    specs: str | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """What is to happen when ranks fail, hang or lag.

    ``hang_timeout`` is None where it is to be learnt from the job's own times, and then never under ``hang_floor``;
    infinite where nothing is to be called a hang. ``restart_window`` is 0 where every restart counts for good.
    """

    on_failure: Literal["restart", "stop"] = "restart"
    restart_window: float = 0.0
    hang_timeout: float | None = None
    hang_floor: float = 60.0
    straggler_factor: float = 2.0
    fixed_world: bool = False
    spares: int = 0
    crash_loop: int = 5
    suspect_after: int = 3
    quarantine_faults: int = 3
    on_link_fault: Literal["report", "redistribute", "restart"] = "report"


@dataclass(frozen=True, slots=True)
class Binding:
    """What ranks are to be bound to. ``machine`` is the machine as a file describes it, None: none was given.

    ``nccl_file`` is that file where it was named on the command line and NCCL can read it too.
    """

    wishes: Wishes = field(default_factory=Wishes)
    machine: Topology | None = None
    nccl_file: str = ""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What a scheduler says of this start of the job.

    Generations are numbered above ``floor``, so that no number of an earlier start comes again though nothing of that
    is left; ``incarnation`` is the same for all starts of the job. ``place`` is the node's among those of the job.
    ``whole``: the scheduler's signals are to all nodes of the job, not only to some that leave it.
    ``notice_signal`` says that the job is to end soon: at ``ends_at``, in seconds since the epoch, where that is known.
    With ``drain`` a host that fails is to be taken out of service, if it is one of ``nodes``.
    ``scheduler_job`` is the scheduler's number of the job, ``starts`` how often it was started before, and ``port``
    one at which the first node was met, 0: none. A node that is told to leave has ``leave_seconds`` from SIGTERM to
    SIGKILL, 0: the usual grace; the scheduler ``replaces`` it by another. The agent beats in ``probe_file``, if any.
    """

    scheduler: str
    floor: int = 0
    incarnation: str = ""
    place: int = -1
    whole: bool = True
    notice_signal: signal.Signals | None = None
    ends_at: float | None = None
    drain: bool = False
    nodes: tuple[str, ...] = ()
    scheduler_job: str = ""
    port: int = 0
    starts: int = 0
    leave_seconds: float = 0.0
    replaces: bool = False
    probe_file: str = ""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """Everything that the command line, ``PET_*`` and the machine said.

    ``place`` orders nodes without a scheduler, -1: as they come. ``node_rank`` is -1 where none was asked for; with
    ``owns_rank`` no other node may have it. ``warnings`` are sentences to be logged once logging stands.
    """

    program: Program
    min_nodes: int
    max_nodes: int
    slots: int
    job: str
    backend: Backend
    endpoints: tuple[Endpoint, ...]
    standalone: bool
    conf: RendezvousConf
    logs: LogOptions
    max_restarts: int = 0
    recovery: Recovery = Recovery()
    monitor_interval: float = 0.1
    start: StartMode = "warm"
    start_method: StartMethod = "spawn"
    preload: tuple[str, ...] = ()
    role: str = "default"
    local_addr: str | None = None
    node_rank: int = -1
    owns_rank: bool = False
    numa_binding: NumaBinding | None = None
    virtual_local_rank: bool = False
    binding: Binding = Binding()
    allow_asymmetry: bool = False
    probe: ProbeMode = "auto"
    allow_injection: bool = False
    start_check: bool = True
    signals: tuple[signal.Signals, ...] = ()
    shutdown_timeout: float = 30.0
    notice_signal: signal.Signals | None = None
    event_log_handler: str = "null"
    log_level: str = "info"
    security: Security = OPEN
    scheduled: Scheduled | None = None
    place: int = -1
    web: WebOptions | None = None
    otel: bool = False
    warnings: tuple[str, ...] = ()
