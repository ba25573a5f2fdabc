"""What a job that a program starts is to be like: ``elaunch.LaunchConfig``, and the command line that says the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from elaunch.errors import UsageError

_CHANGED = {"run_id": "rdzv_id", "numa_options": "numa_binding"}
_APART = {"min_nodes", "max_nodes", "rdzv_configs", "rdzv_timeout", "logs_specs"}
_NOT_OURS = {"log_line_prefix_template", "metrics_cfg"}
_STREAMS = ("redirects", "tee")


@dataclass(frozen=True)
class LaunchConfig:
    """A job: the fields of torch's ``LaunchConfig``, then ours, which are the options of ``elaunch`` by their names.

    Defaults are those of the command line, times are in seconds, and docs/reference.md tells what each means. Three of
    torch's take what torch gives them, or text as on the command line: ``logs_specs`` torch's ``DefaultLogsSpecs`` or
    an entry point's name, ``numa_options`` torch's ``NumaOptions`` or ``node``, ``socket``, ``exclusive`` or
    ``core-complex``, ``nproc_per_node`` a number, ``auto``, ``cpu``, ``gpu`` or ``xpu``. ``metrics_cfg`` and
    ``start_method`` have no effect. ``PET_*`` variables are not looked at.
    """

    min_nodes: int = 1
    max_nodes: int = 1
    nproc_per_node: int | str = 1
    logs_specs: Any = None
    run_id: str = "none"
    role: str = "default"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "static"
    rdzv_configs: Mapping[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 0
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: Mapping[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: Sequence[str] | None = None
    duplicate_stderr_filters: Sequence[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None
    # Ours from here.
    standalone: bool = False
    node_rank: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int | None = None
    start: Literal["warm", "exec"] = "warm"
    preload: Sequence[str] = ()
    no_start_check: bool = False
    nic_policy: str = "auto"
    nic_map: str | None = None
    exclude_nic: Sequence[str] = ()
    rails: int | None = None
    nics_per_rank: int | None = None
    nic_bandwidth: float | None = None
    cpu_bind: str = "none"
    device_map: Sequence[str] = ()
    topology: str | None = None
    probe: Literal["auto", "off"] = "auto"
    allow_asymmetry: bool = False
    grace_period: float | None = None
    notice_signal: str | None = None
    warning_signal: str = "USR1"
    on_failure: Literal["restart", "stop"] = "restart"
    restart_window: float = 0.0
    crash_loop: int = 5
    suspect_after: int = 3
    hang_timeout: float | str = "auto"
    hang_floor: float = 60.0
    straggler_factor: float = 2.0
    quarantine_faults: int = 3
    on_link_fault: Literal["report", "redistribute", "restart"] = "report"
    fixed_world: bool = False
    slurm_drain: bool = False
    spares: int = 0
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    token_file: str | None = None
    web: str | int | None = None
    web_actions: bool = False
    web_names: Sequence[str] = ()
    otel: bool = False
    allow_injection: bool = False
    log_dir: str | None = None
    redirects: int | str = "0"
    tee: int | str = "0"
    local_ranks_filter: Sequence[int] | str = ""
    log_level: str | None = None
    quiet: bool = False

    @classmethod
    def like(cls, other: Any) -> LaunchConfig:
        """What torch's ``LaunchConfig`` says: the fields that both have."""
        found = {one.name: getattr(other, one.name) for one in fields(cls) if hasattr(other, one.name)}
        if not found.get("run_id"):
            found.pop("run_id", None)
        return cls(**found)

    def options(self) -> list[str]:
        """The options of ``elaunch`` that say the same. Raises UsageError for what cannot be said."""
        found = [f"--nnodes={self.min_nodes}:{self.max_nodes}"]
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in _APART or one.name in _NOT_OURS or value is None or value == one.default:
                continue
            name = "--" + _CHANGED.get(one.name, one.name).replace("_", "-")
            if isinstance(value, bool):
                found += [name] if value else []
            else:
                found.append(f"{name}={_text(one.name, value)}")
        return [*found, *self._conf(), *_logs(self.logs_specs)]

    def _conf(self) -> list[str]:
        conf = dict(self.rdzv_configs)
        if self.rdzv_timeout != -1:
            conf["timeout"] = self.rdzv_timeout
        for key, value in conf.items():
            if "," in f"{key}{value}" or "=" in str(key):
                raise UsageError(f"launch: rdzv_configs={{{key!r}: ...}}: neither a key nor a value may have a comma")
        text = ",".join(
            f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in conf.items()
        )
        return [f"--rdzv-conf={text}"] if text else []


def _text(name: str, value: Any) -> str:
    if name == "numa_options" and not isinstance(value, str):
        mode = getattr(value, "affinity_mode", value)
        return str(getattr(mode, "value", mode))
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, Sequence):
        parts = [str(part) for part in value]
        if any("," in part for part in parts):
            raise UsageError(f"launch: {name}={value!r}: expected values without a comma")
        return ",".join(parts)
    raise UsageError(f"launch: {name}={value!r}: expected text, a number or a list of them")


def _logs(specs: Any) -> list[str]:
    """torch's DefaultLogsSpecs as options; an entry point by its name."""
    if specs is None:
        return []
    if isinstance(specs, str):
        return [f"--logs-specs={specs}"]
    if type(specs).__name__ != "DefaultLogsSpecs":
        raise UsageError(
            f"launch: logs_specs={type(specs).__name__}(...): expected torch's DefaultLogsSpecs, or the name of an"
            " entry point of group torchrun.logs_specs"
        )
    found = [f"--log-dir={specs._root_log_dir}"] if specs._root_log_dir else []
    for name in _STREAMS:
        value = getattr(specs, f"_{name}")
        if text := _of_ranks(value):
            found.append(f"--{name}={text}")
    if specs._local_ranks_filter:
        found.append(f"--local-ranks-filter={','.join(map(str, sorted(specs._local_ranks_filter)))}")
    return found


def _of_ranks(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{rank}:{int(streams)}" for rank, streams in value.items())
    return str(int(value)) if int(value) else ""
