"""What a server refused, counted by reason, and told at a bounded rate: a flood of refusals must not fill the log."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import structlog

from elaunch.clock import Clock, SystemClock

TELL_EVERY = 10.0  # seconds
_SHOWN = 200  # characters
_SLACK = 0.05  # seconds: a timer may come a moment early


class Counters:
    """The refusals of one process. ``refused`` is what ``elaunch status`` shows: how many for which reason."""

    def __init__(self, clock: Clock | None = None, tell: Callable[..., None] | None = None) -> None:
        self.refused: Counter[str] = Counter()
        self._clock = clock or SystemClock()
        self._tell = tell or _warn
        self._quiet: dict[str, float] = {}  # until when the next refusal for a reason is only counted
        self._untold: Counter[str] = Counter()

    def count(self, reason: str) -> None:
        """Count what is refused in the ordinary course of things, and say nothing of it."""
        self.refused[reason] += 1

    def refuse(self, reason: str, **context: Any) -> None:
        """Count a refusal. The first is logged with ``context``, those that follow as one line every 10 s."""
        self.refused[reason] += 1
        now = self._clock.monotonic()
        if reason not in self._quiet:
            self._quiet[reason] = now + TELL_EVERY
            self._tell("refused", reason=reason, **{name: _tame(value) for name, value in context.items()})
            self._later(reason)
        else:
            self._untold[reason] += 1
            if now >= self._quiet[reason]:
                self.flush(reason)

    def flush(self, reason: str) -> None:
        """Tell what was counted and not told; where that is nothing, the next refusal is a first one again."""
        if self._clock.monotonic() < self._quiet.get(reason, 0.0):
            return  # told meanwhile
        untold = self._untold.pop(reason, 0)
        if untold:
            self._quiet[reason] = self._clock.monotonic() + TELL_EVERY
            self._tell("refused_more", reason=reason, count=untold, seconds=TELL_EVERY)
            self._later(reason)
        else:
            self._quiet.pop(reason, None)

    def snapshot(self) -> dict[str, int]:
        """How many were refused so far, by reason."""
        return dict(sorted(self.refused.items()))

    def _later(self, reason: str) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # no loop turns: the next refusal tells
        loop.call_later(TELL_EVERY + _SLACK, self.flush, reason)


def _tame(value: Any) -> Any:
    """A stranger's text as one short line: it must not look like lines of ours, or steer a terminal."""
    if not isinstance(value, str) or (value.isprintable() and len(value) <= _SHOWN):
        return value
    return ascii(value)[1:-1][:_SHOWN]


def _warn(event: str, **context: Any) -> None:
    structlog.get_logger().warning(event, **context)
