"""The timers of torch's local watchdog, as ``FileTimerClient`` asks for them. Pure; times are wall-clock seconds."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timer:
    """A worker's wish to be ended by ``signum`` unless it releases ``scope`` in time; 0 or less: only a warning."""

    pid: int
    scope: str
    expires: float
    signum: int

    @property
    def release(self) -> bool:
        return self.expires < 0


def parse(line: bytes) -> Timer:
    """One line of the pipe. Raises ValueError."""
    data = json.loads(line)
    try:
        timer = Timer(int(data["pid"]), str(data["scope_id"]), float(data["expiration_time"]), int(data["signal"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no timer request: {error!r}") from None
    if timer.pid <= 0:
        raise ValueError(f"no process has pid {timer.pid}")
    return timer


class Timers:
    """What is armed now, by process and scope."""

    def __init__(self) -> None:
        self._armed: dict[tuple[int, str], Timer] = {}

    def take(self, timer: Timer) -> None:
        """Arm, arm anew or release a timer."""
        if timer.release:
            self._armed.pop((timer.pid, timer.scope), None)
        else:
            self._armed[timer.pid, timer.scope] = timer

    @property
    def next(self) -> float | None:
        """When the first one expires."""
        return min((t.expires for t in self._armed.values()), default=None)

    def expired(self, now: float) -> list[Timer]:
        """One timer for each process with an expired one: the first of them that names a signal.

        Such a process's other timers are forgotten, as the process will be gone or did not want to be.
        """
        due: dict[int, Timer] = {}
        for timer in sorted(self._armed.values(), key=lambda t: t.expires):
            if timer.expires <= now and (timer.pid not in due or due[timer.pid].signum <= 0 < timer.signum):
                due[timer.pid] = timer
        self._armed = {key: t for key, t in self._armed.items() if t.pid not in due}
        return list(due.values())
