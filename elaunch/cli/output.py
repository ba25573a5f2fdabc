"""What elaunch itself says, on stderr: short lines for people at a terminal, JSON lines elsewhere, for collectors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

from elaunch.agent.console import Writable, own_words
from elaunch.errors import UsageError

_GRPC_LEVEL = "GRPC_VERBOSITY"
FORMAT_VARIABLE = "ELAUNCH_LOG_FORMAT"
AUTO = "auto"  # short lines at a terminal, JSON elsewhere
_FOR_COLLECTORS = ("rank_started",)  # a line for each rank: too much for a person, who has `elaunch status --ranks`
_SECRET = ("password", "token", "secret")
_COLOURS = {
    "debug": "\033[2m",
    "info": "\033[32m",
    "warning": "\033[33m",
    "error": "\033[31m",
    "critical": "\033[31m",
}
_PLAIN = "\033[0m"

Event = MutableMapping[str, Any]


def configure(
    level: str, form: str, stream: Writable | None = None, **context: Any
) -> structlog.typing.FilteringBoundLogger:
    """Set structlog up for this process, with ``context`` on every line, and return a logger.

    Raises UsageError unless ``form`` is ``auto``, ``console`` or ``json``.
    """
    target = stream or own_words()
    form = chosen(form, target)
    renderer: structlog.typing.Processor
    if form == "json":
        renderer = structlog.processors.JSONRenderer(default=str)
    elif form == "console":
        renderer = _Console(colour=target.isatty())
    else:
        raise UsageError(f"{FORMAT_VARIABLE}={form}: expected auto, console or json")
    structlog.contextvars.clear_contextvars()
    bind(**context)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper("iso" if form == "json" else "%H:%M:%S", utc=form == "json"),
            structlog.processors.format_exc_info,
            hide_secrets,
            *([] if form == "json" or level.lower() == "debug" else [_leave_to_collectors]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=lambda *_: _Lines(target),
        cache_logger_on_first_use=False,
    )
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger


def chosen(form: str, target: Writable) -> str:
    """What ``auto`` means for ``target``; else ``form`` as it is."""
    if form != AUTO:
        return form
    return "console" if target.isatty() else "json"


def _leave_to_collectors(_: Any, __: str, event: Event) -> Event:
    if event.get("event") in _FOR_COLLECTORS:
        raise structlog.DropEvent
    return event


@contextmanager
def silent_grpc(environ: MutableMapping[str, str]) -> Iterator[None]:
    """gRPC, imported in here, writes no line for each stranger's handshake or frame; no rank inherits the variable."""
    if _GRPC_LEVEL in environ:
        yield
        return
    environ[_GRPC_LEVEL] = "NONE"
    try:
        yield
    finally:
        del environ[_GRPC_LEVEL]


def bind(**context: Any) -> None:
    """Put ``job``, ``node``, ``generation``, ... on every further line of this task and its children."""
    structlog.contextvars.bind_contextvars(**context)


def hide_secrets(_: Any, __: str, event: Event) -> Event:
    """No line carries a password or token, whoever logs it."""
    for key in event:
        if any(word in key.lower() for word in _SECRET):
            event[key] = "***"
    return event


class _Lines:
    """The logger below structlog's: one write for each line, whatever its level."""

    def __init__(self, target: Writable) -> None:
        self._target = target

    def msg(self, line: str) -> None:
        self._target.write(line + "\n")
        self._target.flush()

    debug = info = warning = error = critical = exception = fatal = msg


class _Console:
    """``elaunch 12:30:01 warning  node_lost: text (generation=3 node=a1)``."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def __call__(self, _: Any, __: str, event: Event) -> str:
        level, name, time = (str(event.pop(key, "")) for key in ("level", "event", "timestamp"))
        text, trace = event.pop("text", None), event.pop("exception", None)
        event.pop("traceback", None)  # the rank has printed it, and the report at the end has it
        event.pop("job", None)  # a person at a terminal knows it
        more = " ".join(f"{key}={value}" for key, value in sorted(event.items()))
        shown = f"{_COLOURS.get(level, '')}{level}{_PLAIN}" if self._colour else level
        line = f"elaunch {time} {shown}: {name}" + (f": {text}" if text else "") + (f" ({more})" if more else "")
        return f"{line}\n{trace}" if trace else line
