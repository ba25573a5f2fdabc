"""One fault: what, whom, where, when and for how long. Values only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from elaunch.inject.kinds import KINDS, STEP, UNDO, Kind

LONGEST = 86_400.0  # seconds
_POINT = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_NAMES = {
    "node": re.compile(r"[\w.:/-]{0,100}"),
    "port": re.compile(r"|[\w-][\w.-]{0,63}(:[\w-][\w.-]{0,63})?"),  # a part of a path below $ELAUNCH_SYSFS_ROOT
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one of ``KINDS``, or ``undo``, which ends those of a rank or of a node.

    ``rank`` is whom it hits, -1 for none; ``node`` a host or a node's id, ``port`` as ``mlx5_0:1`` or an interface.
    ``at`` is the point of the program, "" for at once; there it happens when the program has reached that point for
    the ``nth`` time since the fault was armed, ``step`` or a later one being the program's step then. ``seconds`` is
    how long it lasts, 0 for good. ``signal`` is a number, ``code`` an exit code, ``share`` what is left of the CPU, or
    how many of the packets are hit, ``period`` the seconds from one pulse to the next, ``delay`` seconds, ``bytes``
    what is allocated (0: until nothing is left of a limit that the rank sets itself), ``mbit`` Mbit/s, ``jump``
    seconds.

    Raises ValueError, one line, for what cannot be.
    """

    kind: str
    rank: int = -1
    node: str = ""
    port: str = ""
    at: str = ""
    step: int = -1
    nth: int = 1
    seconds: float = 0.0
    signal: int = 9
    code: int = 1
    share: float = 0.5
    period: float = 0.2
    delay: float = 0.1
    bytes: int = 0
    mbit: float = 10.0
    jump: float = 3600.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS and self.kind != UNDO.name:
            raise ValueError(f"no fault {self.kind!r}: expected one of {', '.join(KINDS)}")
        if not self.at and not self.what.now:
            object.__setattr__(self, "at", STEP)
        if wrong := self._out_of_range() or self._out_of_place():
            raise ValueError(f"{self.kind}: {wrong}")

    @property
    def what(self) -> Kind:
        return KINDS.get(self.kind, UNDO)

    @property
    def inside(self) -> bool:
        """Whether the program itself brings it about, at a point."""
        return bool(self.at)

    def _out_of_range(self) -> str:
        whole = {
            "rank": (-1, 1 << 20),
            "step": (-1, 1 << 62),
            "nth": (1, 1 << 40),
            "signal": (1, 64),
            "code": (0, 255),
            "bytes": (0, 1 << 50),
        }
        for name, (low, high) in whole.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                return f"{name}={_short(value)}: expected a whole number from {low} to {high}"
        numbers = {"seconds": (0.0, LONGEST), "share": (0.0, 1.0), "period": (0.01, 3600.0), "delay": (0.0, 3600.0)}
        for name, (least, most) in (numbers | {"mbit": (0.001, 1e6), "jump": (-1e9, 1e9)}).items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
                return f"{name}={_short(value)}: expected a number"
            if not least <= value <= most:  # an integer may be too large for a float
                return f"{name}={_short(value)}: expected {least:g} to {most:g}"
        for name, form in _NAMES.items():
            if not isinstance(getattr(self, name), str) or not form.fullmatch(getattr(self, name)):
                return f"{name}={_short(getattr(self, name))} is no name"
        if "/" in self.port or {".", ".."} & {*self.port.split(":")}:
            return f"port={_short(self.port)} is no name of a port"  # it is looked for as a file
        return ""

    def _out_of_place(self) -> str:
        kind = self.what
        if self.at and not kind.inside:
            return "it does not happen at a point of the program"
        if self.at and not (isinstance(self.at, str) and _POINT.fullmatch(self.at)):
            return f"at={_short(self.at)} is no point of a program"
        if not self.at and (self.step >= 0 or self.nth > 1):
            return "step and nth are of a point of the program (at)"
        if self.seconds and not kind.lasts:
            return "it has no duration"
        if kind.name == "link-flap" and not self.seconds:
            return "it needs a duration"
        return ""

    @property
    def values(self) -> dict[str, Any]:
        """What is not as usual, for JSON: ``Fault(**values)`` is the same again."""
        usual = {f.name: f.default for f in fields(self)}
        return {name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Fault:
        """The fault with these values. Raises ValueError where they are none."""
        known = {f.name for f in fields(cls)}
        if more := sorted(set(values) - known):
            raise ValueError(f"a fault has no {more[0]!r}")
        if not isinstance(values.get("kind"), str):
            raise ValueError("a fault has a kind")
        return cls(**values)

    def __str__(self) -> str:
        """In a few words, for events and tables."""
        words = [self.kind]
        words += [f"{name}={getattr(self, name):g}" for name in self.what.takes if name not in ("port", "signal")]
        if "signal" in self.what.takes:
            words.append(_signal(self.signal))
        if self.at:
            words.append(f"at {self.at}" + (f" {self.nth}" if self.nth > 1 else ""))
        if self.step >= 0:
            words.append(f"from step {self.step} on")
        if self.what.lasts:
            words.append(f"for {self.seconds:g} s" if self.seconds else "for good")
        return " ".join(words)


def _short(value: object) -> str:
    """For a message: what comes from outside may be long."""
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return f"{value:g}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _signal(number: int) -> str:
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def encoded(fault: Fault) -> bytes:
    """As it goes to a rank."""
    return json.dumps(fault.values, separators=(",", ":")).encode()


def decoded(value: bytes) -> Fault:
    """Raises ValueError where it is none."""
    found = json.loads(value)
    if not isinstance(found, dict):
        raise ValueError("not a fault")
    return Fault.of(found)
