"""What happened to a job as Kubernetes Events, each once: its name tells which one it is."""

from __future__ import annotations

import hashlib
from typing import Any

from elaunch.kubernetes.actions import Note
from elaunch.kubernetes.names import API_VERSION, KIND, MANAGER
from elaunch.kubernetes.observed import Truth, stamp
from elaunch.kubernetes.spec import JobSpec
from elaunch.rendezvous.journal import Happening

_LONGEST = 1024  # characters of an Event's message
_BAD = (
    "fail",
    "lost",
    "silent",
    "abort",
    "hang",
    "hung",
    "quarantine",
    "refused",
    "bad_",
    "missing",
    "suspect",
    "crash",
)
_PLANNED = ("joined", "asked to leave", "scaled to", "restarted by")  # why a generation ends that has done no wrong
_QUIET = ("node_joined", "leading")


def of_line(spec: JobSpec, cluster: str, line: Happening) -> dict[str, Any] | None:
    """An Event of one line of the job's history; None for what a cluster's Events need not tell."""
    if line.code in _QUIET:
        return None
    bad = any(word in line.code for word in _BAD) and not any(word in line.text for word in _PLANNED)
    reason = "".join(word.capitalize() for word in line.code.split("_")) or "Told"
    return _event(spec, f"{cluster}-{line.seq}", reason, line.text, bad, line.time)


def of_note(spec: JobSpec, note: Note, now: float) -> dict[str, Any]:
    return _event(spec, f"note-{note.reason}-{note.key}", note.reason, note.text, note.warning, now)


def events(spec: JobSpec, truth: Truth | None, notes: tuple[Note, ...], now: float) -> list[dict[str, Any]]:
    """All Events that are news."""
    lines = [of_line(spec, truth.cluster, line) for line in truth.lines] if truth is not None else []
    return [*(event for event in lines if event is not None), *(of_note(spec, note, now) for note in notes)]


def _event(spec: JobSpec, key: str, reason: str, text: str, warning: bool, at: float) -> dict[str, Any]:
    digest = hashlib.sha256(f"{spec.uid}/{key}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{spec.name}.{digest}", "namespace": spec.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": spec.namespace,
            "name": spec.name,
            "uid": spec.uid,
        },
        "reason": reason[:128],
        "message": text[:_LONGEST],
        "type": "Warning" if warning else "Normal",
        "firstTimestamp": stamp(at),
        "lastTimestamp": stamp(at),
        "count": 1,
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "reportingInstance": MANAGER,
    }
