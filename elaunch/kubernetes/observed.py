"""What the cluster has of a job: pods, etcd, and what the job's leader says of it. Read once, frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from elaunch.kubernetes.names import ETCD, HASH, INCARNATION, ROLE, RUN, SLOT, WORKER
from elaunch.rendezvous.journal import Happening

MAIN = "elaunch"
OVERDUE = 15.0  # seconds after which a pod that should be gone is on a node that does not answer


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod. ``code`` and ``reason`` are of its end, if it has ended; ``since`` and ``until`` wall-clock seconds.

    ``leaving`` is when a pod that is being deleted should be gone, 0 for one that is not.
    """

    name: str
    uid: str
    role: str = WORKER
    slot: int = 0
    incarnation: int = 0
    run: int = 0
    digest: str = ""
    node: str = ""
    address: str = ""
    ready: bool = False
    phase: str = "Pending"
    code: int | None = None
    reason: str = ""
    message: str = ""
    leaving: float = 0.0
    since: float = 0.0
    until: float = 0.0

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed") or self.code is not None

    @property
    def alive(self) -> bool:
        """Neither ended nor asked to end."""
        return not self.ended and not self.leaving


@dataclass(frozen=True, slots=True)
class Seat:
    """A node of the elaunch job: the pod in which its agent runs has this address, and slot (-1: not told)."""

    node_id: str
    address: str
    place: int = -1
    host: str = ""


class Seating:
    """Which pods have a seat, asked for each of thousands of pods."""

    def __init__(self, seats: Iterable[Seat]) -> None:
        self._taken = frozenset((seat.address, seat.place) for seat in seats)

    def has(self, pod: Pod) -> bool:
        return (pod.address, pod.slot) in self._taken or (pod.address, -1) in self._taken


@dataclass(frozen=True, slots=True)
class Aside:
    """A host that the job's leader has put aside, since then."""

    host: str
    since: float
    why: str


@dataclass(frozen=True, slots=True)
class Truth:
    """What etcd has of the job. ``phase`` is "" for a job of which it has nothing.

    ``low`` and ``high`` are the numbers of nodes that the job may have now, 0 where nobody has said. ``horizon`` tells
    one final state from the next. ``cluster`` is etcd's own id: another one is an etcd that has lost its data.
    ``asked`` are the scale commands of operators that are not over, ``denied`` why the last one was not carried out;
    ``retry`` is when it may be given again, 0 for a refusal, which stands.
    """

    cluster: str = ""
    phase: str = ""
    generation: int = 0
    restarts: int = 0
    code: str = ""
    text: str = ""
    exit_code: int = 0
    final: str = ""
    horizon: int = 0
    low: int = 0
    high: int = 0
    seats: tuple[Seat, ...] = ()
    members: tuple[str, ...] = ()
    ranks: int = 0
    step: int = -1
    fault_host: str = ""
    quarantined: tuple[Aside, ...] = ()
    asked: tuple[tuple[int, int], ...] = ()
    denied: str = ""
    retry: float = 0.0
    lines: tuple[Happening, ...] = ()

    @property
    def seated(self) -> tuple[Seat, ...]:
        """The nodes that are in the present generation."""
        members = frozenset(self.members)
        return tuple(seat for seat in self.seats if seat.node_id in members)


@dataclass(frozen=True, slots=True)
class Observed:
    """``truth`` is None where etcd does not answer, ``silence`` then says why.

    ``service``, ``etcd_service``, ``etcd_set`` and ``budget`` are the objects as the server has them, None where there
    is none; one of another owner stands in ``foreign``, pods of another in ``strangers``. ``shown`` are the names in an
    external etcd's secret, ``user`` is whom it names. ``trouble`` is what the server said to the last round's actions,
    where it refused one.
    ``lost_nodes`` are those of the etcd's pods that are being deleted and whose node is not ready; of them,
    ``silent_nodes`` are gone, or have not been heard of for long.
    """

    pods: tuple[Pod, ...] = ()
    members: tuple[Pod, ...] = ()
    service: Mapping[str, Any] | None = None
    etcd_service: Mapping[str, Any] | None = None
    etcd_set: Mapping[str, Any] | None = None
    budget: Mapping[str, Any] | None = None
    budget_version: str = "v1"
    foreign: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    truth: Truth | None = None
    silence: str = ""
    shown: tuple[str, ...] = ()
    user: str = ""
    trouble: str = ""
    lost_nodes: tuple[str, ...] = ()
    silent_nodes: tuple[str, ...] = ()

    def node_of(self, host: str) -> str:
        """The cluster's name for the machine that agents call ``host``, which is their pod's name; "" where none is."""
        return next((pod.node for pod in self.pods if host and host in (pod.name, pod.node)), "")


def seconds(text: str | None) -> float:
    """Kubernetes' time as seconds since the epoch; 0 for none."""
    if not text:
        return 0.0
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def stamp(at: float) -> str:
    """Seconds since the epoch as Kubernetes writes times."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_pod(found: Mapping[str, Any]) -> Pod:
    """A pod as the server has it. A container beside the main one does not keep an ended pod alive."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    labels = metadata.get("labels") or {}
    main = main_container(spec.get("containers") or ())
    told: Mapping[str, Any] = next(
        (s for s in status.get("containerStatuses") or () if s.get("name") == main.get("name")), {}
    )
    ended = (told.get("state") or {}).get("terminated")
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    worker = labels.get(ROLE) != ETCD
    phase = status.get("phase") or "Pending"
    # A pod that failed as a whole (evicted, say) may have no container's word.
    code = int(ended["exitCode"]) if ended and worker else None
    disrupted = conditions.get("DisruptionTarget", {}).get("status") == "True"
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        role=ETCD if not worker else WORKER,
        slot=_number(labels.get(SLOT)),
        incarnation=_number(labels.get(INCARNATION)),
        run=_number(labels.get(RUN)),
        digest=labels.get(HASH, ""),
        node=spec.get("nodeName") or "",
        address=status.get("podIP") or "",
        ready=conditions.get("Ready", {}).get("status") == "True",
        phase=phase,
        code=code,
        reason="Evicted" if disrupted else status.get("reason") or (ended or {}).get("reason") or "",
        message=_message(status, ended, conditions),
        leaving=seconds(metadata.get("deletionTimestamp")),
        since=seconds(metadata.get("creationTimestamp")),
        until=seconds((ended or {}).get("finishedAt")),
    )


def main_container(containers: Any) -> Mapping[str, Any]:
    """The container that runs elaunch: the one of that name, else the first."""
    named = [c for c in containers if c.get("name") == MAIN]
    found: Mapping[str, Any] = (named or list(containers) or [{}])[0]
    return found


def _message(status: Mapping[str, Any], ended: Mapping[str, Any] | None, conditions: Mapping[str, Any]) -> str:
    """The best sentence for why the pod is as it is: of its end, else of why it is on no node yet."""
    unscheduled = conditions.get("PodScheduled", {})
    waits = [
        (s.get("state") or {}).get("waiting") or {} for s in status.get("containerStatuses") or () if s.get("state")
    ]
    words = [f"{w.get('reason')}: {w.get('message', '')}" for w in waits if w.get("reason") not in (None, *_ORDINARY)]
    if unscheduled.get("status") == "False":
        words.insert(0, unscheduled.get("message") or "")
    text = (ended or {}).get("message") or status.get("message") or next(iter(words), "")
    return " ".join(str(text).split())[-300:]


_ORDINARY = ("ContainerCreating", "PodInitializing")


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
