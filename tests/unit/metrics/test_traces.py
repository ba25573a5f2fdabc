"""A recovery as a trace: the real SDK, its spans kept in memory."""

from __future__ import annotations

import pytest

from elaunch.errors import UsageError
from elaunch.metrics import traces
from elaunch.metrics.recovery import Recovery
from elaunch.metrics.traces import MISSING, Traces, check_traces

T = 1_000_000_000.0
PHASES = (("detection", 2.0), ("abort", 3.5), ("rendezvous", 0.5), ("start", 10.0), ("first_step", 1.0))
RECOVERY = Recovery("llm", 3, 2, "hang", "rank 3 does not come", T, PHASES, 120)


def test_a_recovery_is_a_span_with_a_child_for_each_phase() -> None:
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    told = Traces({"OTEL_TRACES_EXPORTER": "none"}, [memory])
    told.recovered(RECOVERY)
    told.close()
    *phases, whole = memory.get_finished_spans()
    assert (whole.name, whole.attributes["elaunch.job"], whole.attributes["elaunch.generation"]) == (
        "recovery",
        "llm",
        3,
    )
    assert whole.attributes["elaunch.reason.code"] == "hang"
    assert (whole.start_time, whole.end_time) == (int((T - 17) * 1e9), int(T * 1e9))
    assert [(span.name, (span.end_time - span.start_time) / 1e9) for span in phases] == list(PHASES)
    assert all(span.parent.span_id == whole.context.span_id for span in phases)
    assert phases[0].start_time == whole.start_time
    assert phases[-1].end_time == whole.end_time


def test_an_sdk_that_is_not_there_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "find_spec", lambda _: None)
    with pytest.raises(UsageError) as caught:
        check_traces({})
    assert str(caught.value) == MISSING


def test_an_exporter_that_is_not_there_is_told_by_name() -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    with pytest.raises(UsageError, match="OTEL_TRACES_EXPORTER=nothing_of_that_name: no such exporter"):
        check_traces({"OTEL_TRACES_EXPORTER": "nothing_of_that_name"})
    check_traces({"OTEL_TRACES_EXPORTER": "console"})
