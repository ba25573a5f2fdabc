"""Recoveries as OpenTelemetry traces: a span for each, with a child for each of its phases.

The SDK is an extra (``elaunch[otel]``) and is imported only with ``--otel``. Which exporter is used, and where it sends
to, the variables say that all of OpenTelemetry reads: ``OTEL_TRACES_EXPORTER``, ``OTEL_EXPORTER_OTLP_ENDPOINT``, ...
It works in a thread of its own, so that a collector that hangs holds nothing up.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from elaunch import __version__
from elaunch.errors import UsageError
from elaunch.metrics.recovery import Recovery

EXPORTER_VARIABLE = "OTEL_TRACES_EXPORTER"
_USUAL = "otlp"
_GROUP = "opentelemetry_traces_exporter"
_FLUSH = 5000  # milliseconds for what is still to be sent at the end
MISSING = "--otel: the OpenTelemetry SDK is not installed; install elaunch[otel], and an exporter"


def check_traces(environ: Mapping[str, str]) -> None:
    """Raises UsageError where traces cannot be told; imports nothing of the SDK."""
    try:
        found = find_spec("opentelemetry.sdk.trace")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise UsageError(MISSING)
    for name in _named(environ):
        if name != "none" and not entry_points(group=_GROUP, name=name):
            known = ", ".join(sorted({entry.name for entry in entry_points(group=_GROUP)})) or "none"
            hint = "; opentelemetry-exporter-otlp has it" if name.startswith("otlp") else ""
            raise UsageError(
                f"--otel: {EXPORTER_VARIABLE}={name}: no such exporter is installed{hint} (there is: {known})"
            )


def _named(environ: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in environ.get(EXPORTER_VARIABLE, _USUAL).split(",") if name.strip()]


class Traces:
    """Tells each recovery. ``exporters`` are those of the environment where none are given."""

    def __init__(self, environ: Mapping[str, str], exporters: list[Any] | None = None) -> None:
        """Raises UsageError."""
        check_traces(environ)
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create({"service.name": "elaunch", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in _exporters(environ) if exporters is None else exporters:
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("elaunch", __version__)

    def recovered(self, recovery: Recovery) -> None:
        """A job is at work again."""
        from opentelemetry.trace import set_span_in_context

        attributes: dict[str, str | int] = {
            "elaunch.job": recovery.job,
            "elaunch.generation": recovery.generation,
            "elaunch.restart_count": recovery.restart_count,
            "elaunch.reason.code": recovery.code,
            "elaunch.reason.text": recovery.reason,
            "elaunch.first_step": recovery.first_step,
        }
        name = "recovery" if recovery.generation > 1 else "start"
        whole = self._tracer.start_span(name, start_time=_nanoseconds(recovery.began), attributes=attributes)
        context = set_span_in_context(whole)
        for phase, begin, end in recovery.spans():
            span = self._tracer.start_span(phase, context, start_time=_nanoseconds(begin))
            span.end(_nanoseconds(end))
        whole.end(_nanoseconds(recovery.ended))

    def close(self) -> None:
        """Send what is left, within some seconds. Blocks: call it from a thread."""
        self._provider.force_flush(_FLUSH)
        self._provider.shutdown()


def _exporters(environ: Mapping[str, str]) -> list[Any]:
    found = []
    for name in _named(environ):
        for entry in list(entry_points(group=_GROUP, name=name))[:1]:
            found.append(entry.load()())
    return found


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
