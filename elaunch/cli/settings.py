"""Single options into their final values, with the checks that torchrun leaves to chance."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from elaunch.agent.options import LogOptions, NumaBinding
from elaunch.cli.convert import number
from elaunch.cli.devices import gpu_count, none_found, torch_build
from elaunch.cli.flags import LOG_LEVELS
from elaunch.cli.parser import Values
from elaunch.cli.streams import parse_ranks, parse_streams
from elaunch.errors import UsageError
from elaunch.hosts.plan import PLACE_VARIABLE
from elaunch.rendezvous.addresses import foreign
from elaunch.web.options import WebOptions, parse_web

T = TypeVar("T")
_MOST = 100_000  # nodes; a slip of the finger is no reason to wait for the join timeout
_NEVER = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)


def checked(values: Values, dest: str, parse: Callable[..., T], *more: Any) -> T:
    """``parse(value, *more)``, its ValueError turned into an error that names the option."""
    try:
        return parse(values[dest], *more)
    except ValueError as error:
        raise values.error(dest, str(error)) from None


def parse_nodes(text: str) -> tuple[int, int]:
    """``N`` or ``MIN:MAX``. Raises ValueError."""
    if not re.fullmatch(r"[0-9]+(:[0-9]+)?", text):
        raise ValueError("expected N or MIN:MAX, such as 2 or 1:4")
    low, _, high = text.partition(":")
    least, most = int(low), int(high or low)
    if not 0 < least <= most <= _MOST:
        raise ValueError(f"expected 0 < MIN <= MAX <= {_MOST}")
    return least, most


def nodes(values: Values) -> tuple[int, int]:
    """The least and the greatest number of nodes: those of ``--nnodes``, the least by ``--min-nodes`` where given."""
    low, high = checked(values, "nnodes", parse_nodes)
    least: int | None = values["min_nodes"]
    if least is None:
        return low, high
    if not 1 <= least <= high:
        raise values.error("min_nodes", f"expected 1 to {high}, the greatest number of --nnodes")
    return least, high


def parse_signals(text: str) -> tuple[signal.Signals, ...]:
    """Names of signals between commas. Raises ValueError for an unknown one or one that cannot be caught."""
    names = [_full(name.strip()) for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in signal.Signals.__members__]
    if unknown or not names:
        raise ValueError(f"{unknown[0]!r} is no signal here" if unknown else "expected names such as SIGTERM,SIGUSR1")
    signals = tuple(dict.fromkeys(signal.Signals[name] for name in names))
    for one in signals:
        if one in _NEVER:
            raise ValueError(f"{one.name} cannot be handed on")
    return signals


def _full(name: str) -> str:
    """``USR1`` is SIGUSR1, as for ``elaunch signal``."""
    return f"SIG{name}" if f"SIG{name}" in signal.Signals.__members__ else name


def notice_signal(values: Values) -> signal.Signals | None:
    """Raises UsageError for what is no signal, or for several."""
    if not values["notice_signal"]:
        return None
    found = checked(values, "notice_signal", parse_signals)
    if len(found) > 1:
        raise values.error("notice_signal", "expected one signal")
    return found[0]


def shutdown_timeout(values: Values, environ: Mapping[str, str]) -> float:
    """Seconds between asking and killing. Raises UsageError."""
    for dest in ("grace_period", "shutdown_timeout"):
        if values[dest] is not None:
            return float(_at_least(values, dest, 0))
    text = environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30")
    try:
        seconds = number(text)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise UsageError(f"TORCH_ELASTIC_SHUTDOWN_TIMEOUT={text}: expected seconds, 0 or more")
    return seconds


def max_restarts(values: Values) -> int:
    """Raises UsageError for a negative one."""
    return int(_at_least(values, "max_restarts", 0))


def monitor_interval(values: Values) -> float:
    """Raises UsageError for a negative one."""
    return float(_at_least(values, "monitor_interval", 0))


def _at_least(values: Values, dest: str, least: int) -> int | float:
    value: int | float = values[dest]
    if value < least:
        raise values.error(dest, f"expected {least} or more")
    return value


def role(values: Values) -> str:
    """Raises UsageError for a blank one."""
    name: str = values["role"]
    if not name.strip() or not name.isprintable():
        raise values.error("role", "expected a name")
    return name


def local_addr(values: Values) -> str | None:
    """This node's address, without the brackets of IPv6; None where it is to be found out.

    Raises UsageError for what is no address of this host: nobody could reach what listens here, this node included.
    """
    given: str | None = values["local_addr"]
    if given is not None and not re.fullmatch(r"\[?[\w.:%-]+\]?", given):
        raise values.error("local_addr", "expected a host name or an address")
    address = given.strip("[]") if given else None
    if address is not None and (why := foreign(address)):
        raise values.error("local_addr", f"{why}; give one at which the other nodes reach it, or leave it out")
    return address


def numa_binding(values: Values, environ: Mapping[str, str]) -> NumaBinding | None:
    """Raises UsageError where no GPU is there to bind ranks near to."""
    mode: NumaBinding | None = values["numa_binding"]
    if mode is not None:
        build = torch_build()
        if not gpu_count(environ, build):
            raise values.error("numa_binding", f"binds each rank near its GPU, and {none_found('gpu', build)}")
    return mode


def place(environ: Mapping[str, str]) -> int:
    """The place that ``elaunch ssh`` gave this node among the others, for the order of ranks; -1 without one."""
    text = environ.get(PLACE_VARIABLE, "")
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else -1


def event_log_handler(values: Values) -> str:
    """Raises UsageError for a name that torch does not know either."""
    name: str = values["event_log_handler"]
    if name not in ("null", "console", "dynamic_rendezvous"):
        raise values.error("event_log_handler", "expected null or console")
    return name


def web(values: Values) -> WebOptions | None:
    """Where to serve the job's page; None for not at all. Raises UsageError."""
    if not values["web"]:
        if values["web_actions"]:
            raise values.error("web_actions", "is for --web, which is not given")
        return None
    actions: bool = values["web_actions"]
    return checked(values, "web", parse_web, actions, tuple(values["web_names"]))


def otel(values: Values, environ: Mapping[str, str]) -> bool:
    """Whether recoveries are told as traces. Raises UsageError where that cannot be."""
    wanted: bool = values["otel"]
    if wanted:
        from elaunch.metrics.traces import check_traces

        check_traces(environ)
    return wanted


def log_level(values: Values, environ: Mapping[str, str]) -> str:
    """The option, else ``--quiet``, else the environment, else info. Raises UsageError."""
    if values["log_level"]:
        return str(values["log_level"])
    if values["quiet"]:
        return "warning"
    level = environ.get("ELAUNCH_LOG_LEVEL", "info").lower()
    if level not in LOG_LEVELS:
        raise UsageError(f"ELAUNCH_LOG_LEVEL={level}: expected one of {', '.join(LOG_LEVELS)}")
    return level


def log_options(values: Values, slots: int, environ: Mapping[str, str]) -> LogOptions:
    """Where the ranks' streams go. Raises UsageError."""
    return LogOptions(
        directory=_log_dir(values),
        redirects=checked(values, "redirects", parse_streams, slots),
        tee=checked(values, "tee", parse_streams, slots),
        shown=checked(values, "local_ranks_filter", parse_ranks),
        duplicate_stdout=_filters(values, "duplicate_stdout_filters"),
        duplicate_stderr=_filters(values, "duplicate_stderr_filters"),
        line_prefix=environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        specs=_logs_specs(values),
    )


def _log_dir(values: Values) -> str | None:
    path: str | None = values["log_dir"]
    if not path or path == os.devnull:  # no files at all, as torchrun takes it
        return path or None
    existing = os.path.abspath(path)
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        raise values.error("log_dir", f"{existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise values.error("log_dir", f"this user cannot write in {existing}")
    probe = os.path.join(existing, f".elaunch-{os.getpid()}")  # rights alone do not tell: a full disk, root over NFS
    try:
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError as error:
        raise values.error("log_dir", f"no folder can be made in {existing}: {error.strerror}") from None
    return path


def _filters(values: Values, dest: str) -> tuple[str, ...]:
    return tuple(text for text in values[dest] if text)


def _logs_specs(values: Values) -> str | None:
    name: str | None = values["logs_specs"]
    if name is not None:
        from importlib.metadata import entry_points

        known = sorted(entry_points(group="torchrun.logs_specs").names)
        if name not in known:
            known_text = f"installed are {', '.join(known)}" if known else "none is installed"
            raise values.error("logs_specs", f"no such entry point in group torchrun.logs_specs; {known_text}")
    return name
