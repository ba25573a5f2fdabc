"""The fence of a checkpoint directory: who may write to it, and from when on an older run may not.

Each start of a program that writes here makes a claim, a file with the next number. The newest claim is the fence. A
save makes its staging directory *and then* looks at the fence; a new claim is made *and then* the staging directories
of older ones are taken away. So whichever comes second sees the first: an older run finds the fence, or it has lost
what it would have published. That holds for a process that was frozen at any instant, without a clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from elaunch.checkpoint import layout
from elaunch.checkpoint.storage import Hold, Storage
from elaunch.errors import CheckpointError, DirectoryInUseError, FencedError

_MOST_BYTES = 1 << 16
_FIELDS = {"job": str, "incarnation": str, "generation": int, "host": str, "pid": int, "since": float}
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Owner:
    """Who claims: ``job`` is empty, and ``generation`` 0, outside of elaunch. ``since`` is seconds since the epoch.

    ``incarnation`` tells a job from an earlier one of the same name, whose generations were numbered from 1 as well.
    """

    job: str
    incarnation: str
    generation: int
    host: str
    pid: int
    since: float

    def supersedes(self, other: Owner) -> bool:
        """Whether this is a later start of the same job: then the other one has been stopped, or it is frozen."""
        return self._is_job_of(other) and self.generation > other.generation

    def is_superseded_by(self, other: Owner) -> bool:
        """Whether this is an earlier start of the same job: it may not come after the later one, even if that ended."""
        return other.supersedes(self)

    def _is_job_of(self, other: Owner) -> bool:
        return bool(self.job) and (self.job, self.incarnation) == (other.job, other.incarnation)

    def __str__(self) -> str:
        who = f"job {self.job} generation {self.generation}" if self.job else "a program"
        return f"{who} on {self.host} (pid {self.pid})"


@dataclass(slots=True)
class Claim:
    """The right to write, while no newer claim exists."""

    storage: Storage
    number: int
    owner: Owner
    hold: Hold

    def check(self) -> None:
        """Raises FencedError where a newer run has claimed the directory."""
        newest = _newest(self.storage)
        if newest > self.number:
            raise FencedError(
                f"{self.storage.url}: {_owner(self.storage, newest)} has claimed it after {self.owner}, "
                "whose saves are refused from now on"
            )

    def release(self) -> None:
        """Let another program have the directory at once."""
        self.hold.release()


def claim(storage: Storage, owner: Owner, patience: float, sleep: Callable[[float], None] = time.sleep) -> Claim:
    """Claim a directory, and take away what older runs had not published.

    A live owner that this one does not supersede is waited for, for ``patience`` seconds: its process may be ending.
    Raises DirectoryInUseError after that, FencedError where a later generation of the same job has it.
    """
    storage.make(layout.CLAIMS)
    deadline = time.monotonic() + patience
    while True:
        newest = _newest(storage)
        other = _owner(storage, newest) if newest else None
        if other is not None and _stands(storage, newest, other, owner):
            if owner.is_superseded_by(other):
                raise FencedError(f"{storage.url}: {other} has claimed it before {owner} could")
            if time.monotonic() >= deadline:
                raise DirectoryInUseError(
                    f"{storage.url}: {other} writes its checkpoints there; give each job a directory of its own"
                )
            sleep(_LOOK_SECONDS)
            continue
        hold = storage.claim(f"{layout.CLAIMS}/{layout.claim_name(newest + 1)}", json.dumps(asdict(owner)).encode())
        if hold is not None:
            _sweep(storage, newest + 1)
            return Claim(storage, newest + 1, owner, hold)


def _stands(storage: Storage, number: int, other: Owner, owner: Owner) -> bool:
    """Whether the newest claim keeps this owner out."""
    if owner.is_superseded_by(other):
        return True
    return not owner.supersedes(other) and storage.held(f"{layout.CLAIMS}/{layout.claim_name(number)}")


def _newest(storage: Storage) -> int:
    return max((layout.claim_of(name) or 0 for name in storage.names(layout.CLAIMS)), default=0)


def _owner(storage: Storage, number: int) -> Owner:
    path = f"{layout.CLAIMS}/{layout.claim_name(number)}"
    try:
        raw: dict[str, Any] = json.loads(storage.read(path, _MOST_BYTES))
        return Owner(**{name: kind(raw[name]) for name, kind in _FIELDS.items()})
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{storage.url}/{path}: not a claim ({error!r}); remove it if no program runs") from error


def _sweep(storage: Storage, number: int) -> None:
    """Take away what older claims were writing, and all claims but the newest."""
    for path in storage.leftovers(number):
        storage.discard(path)
    for name in storage.names(layout.CLAIMS):
        older = layout.claim_of(name.removesuffix(".beat"))
        if older is not None and older < number:
            storage.remove(f"{layout.CLAIMS}/{name}")
