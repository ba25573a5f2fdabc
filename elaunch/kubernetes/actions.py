"""What the operator does to the cluster: one value each, that can be done twice without harm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from elaunch.kubernetes.memory import Memory

PODS = "pods"
SERVICES = "services"
STATEFUL_SETS = "statefulsets"
BUDGETS = "poddisruptionbudgets"


@dataclass(frozen=True, slots=True)
class Create:
    """An object under a name that nothing else has; that it exists already is no error."""

    kind: str
    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Remove:
    """An object of that uid, and no later one of its name. With ``force`` nobody is waited for to say that it ended."""

    kind: str
    name: str
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class Amend:
    """A merge patch."""

    kind: str
    name: str
    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scale:
    """The command ``elaunch scale LOW:HIGH`` to the job; ``asked`` is the resource's generation that wants it."""

    low: int
    high: int
    asked: int


@dataclass(frozen=True, slots=True)
class Expire:
    """The ElasticJob itself goes: its time after the end is over."""


Action: TypeAlias = Create | Remove | Amend | Scale | Expire


@dataclass(frozen=True, slots=True)
class Note:
    """An Event of the operator's own. ``key`` makes its name: the same note twice is one Event."""

    reason: str
    text: str
    key: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """``memory`` and ``status`` are to be written before ``actions`` are done.

    ``again``: seconds to the next look; None where there is nothing to do before the resource is changed.
    """

    memory: Memory
    status: Mapping[str, Any]
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    again: float | None = None
