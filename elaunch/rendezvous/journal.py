"""What operators asked of a job, and what happened to it: the records below ``commands/`` and ``events/``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

_YEAR_3000 = 32_503_680_000.0  # seconds since the epoch
LONGEST = 1000  # characters of who and why


class Standing(str, Enum):
    """How far a command is. ``PENDING``: written by the operator, not yet seen by a leader."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"

    @property
    def open(self) -> bool:
        """Whether something is still to come of it."""
        return self in (Standing.PENDING, Standing.ACCEPTED)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator's command, and what became of it.

    ``who`` is ``user@host``, ``at`` wall-clock seconds of the operator's machine, ``order`` the create revision of the
    key, filled in by the reader: the order in which the store took the commands. ``answer`` is a sentence,
    ``exit_code`` what the command line ends with. ``generation`` is the one in which it took effect, ``nodes`` those
    that it is about, ``answers`` what they said. ``seal`` shows that an operator wrote it, where the job has tokens.
    """

    id: str
    kind: str
    who: str
    at: float
    reason: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    standing: Standing = Standing.PENDING
    answer: str = ""
    exit_code: int = 0
    generation: int = 0
    nodes: tuple[str, ...] = ()
    answers: dict[str, str] = field(default_factory=dict)
    order: int = 0
    seal: str = ""

    @property
    def words(self) -> dict[str, Any]:
        """What the operator wrote, and its seal is for."""
        return {name: getattr(self, name) for name in ("id", "kind", "who", "at", "reason", "arguments")}

    @property
    def because(self) -> str:
        """Who and why, to stand at the end of a sentence."""
        return f"by {self.who}{': ' + self.reason if self.reason else ''}"


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of a job's history. ``code`` for a machine, ``text`` for a person, ``time`` in wall-clock seconds.

    ``spans`` are the seconds of a recovery's phases that are over by it (:data:`elaunch.metrics.goodput.PHASES`), and
    of the work that was lost.
    """

    seq: int
    time: float
    code: str
    text: str
    generation: int = 0
    who: str = ""
    why: str = ""
    spans: dict[str, float] = field(default_factory=dict)


def one_line(text: str) -> str:
    """A text that comes from outside, as one line that is not too long, of characters that messages take."""
    return " ".join(text.encode(errors="replace").decode().split())[:LONGEST].rstrip()


def decode_operation(value: bytes, order: int) -> Operation:
    """The operation in ``value``. Raises ValueError if it is none, or one with values of the wrong kind."""
    data = _members(value, Operation.__slots__)
    if wrong := [name for name, member in data.items() if not isinstance(member, _KINDS[name])]:
        raise ValueError(f"not an Operation: {wrong[0]} is of the wrong kind")
    nodes, answers = data.get("nodes", []), data.get("answers", {})
    if not all(isinstance(text, str) for text in (*nodes, *answers.values())) or not data.get("id"):
        raise ValueError("not an Operation: an id or a text is of the wrong kind")
    standing = Standing(data.get("standing", Standing.PENDING.value))
    made = {"order": order, "nodes": tuple(nodes), "standing": standing}
    operation: Operation = _make(Operation, data | made)
    return replace(operation, who=one_line(operation.who), reason=one_line(operation.reason))


def decode_happening(value: bytes) -> Happening:
    """The happening in ``value``. Raises ValueError if it is none."""
    data = _members(value, Happening.__slots__)
    if any(not isinstance(member, _HAPPENING.get(name, str)) for name, member in data.items()):
        raise ValueError("not a Happening: a value is of the wrong kind")
    if any(isinstance(s, bool) or not isinstance(s, int | float) for s in data.get("spans", {}).values()):
        raise ValueError("not a Happening: a phase has no number of seconds")
    happening: Happening = _make(Happening, data)
    if not 0 <= happening.time < _YEAR_3000:
        raise ValueError("not a Happening: its time is none")
    return happening


_HAPPENING: dict[str, Any] = {"seq": int, "generation": int, "time": (int, float), "spans": dict}
_KINDS: dict[str, Any] = {
    "id": str,
    "kind": str,
    "who": str,
    "at": (int, float),
    "reason": str,
    "arguments": dict,
    "standing": str,
    "answer": str,
    "seal": str,
    "exit_code": int,
    "generation": int,
    "nodes": list,
    "answers": dict,
    "order": int,
}


def _members(value: bytes, known: Any) -> dict[str, Any]:
    try:
        data = json.loads(value)
    except RecursionError:
        raise ValueError("not a record: nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("not a record")
    return {name: value for name, value in data.items() if name in known}


def _make(kind: Any, values: dict[str, Any]) -> Any:
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error
