"""The fence of a checkpoint directory: who may write to it, and from when on an older run may not.

Each start of a program that writes here makes a claim, a file with the next number. The newest claim is the fence. A
save makes its staging directory *and then* looks at the fence; a new claim is made *and then* the staging directories
of older ones are taken away. So whichever comes second sees the first: an older run finds the fence, or it has lost
what it would have published. That holds for a process that was frozen at any instant, without a clock.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from elaunch.checkpoint.records import documents
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.storage import Hold, Storage
from elaunch.errors import CheckpointError, DirectoryInUseError, FencedError

_MOST_BYTES = 1 << 16
_FIELDS: dict[str, Callable[[Any], Any]] = {
    "job": str,
    "incarnation": str,
    "generation": documents.whole,
    "host": str,
    "pid": documents.whole,
    "since": float,
}
_LOOK_SECONDS = 0.2
_MOST_TRIES = 100


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
    """The right to write, while no newer claim exists.

    ``gone`` is whether its file was found to be away, ``turned`` whether the program went back to an older step.
    """

    storage: Storage
    number: int
    owner: Owner
    hold: Hold
    gone: bool = False
    turned: bool = False

    def check(self) -> None:
        """Raises FencedError where a newer run has claimed the directory, CheckpointError where the claim is gone."""
        newest = max(_numbers(self.storage), default=0)
        if newest > self.number:
            raise FencedError(
                f"{self.storage.url}: {_name_of(self.storage, newest)} has claimed it after {self.owner}, "
                "whose saves are refused from now on"
            )
        self.gone = not self._is_there()
        if self.gone:
            raise CheckpointError(
                f"{self.storage.url}: the claim of this run is not there any more (was the directory removed, or its "
                "file system unmounted?); the next save looks again, and begins anew"
            )

    def prepare(self) -> None:
        """Before a save: claim anew a directory that was removed, take away what earlier saves have left.

        Raises DirectoryInUseError where another has it now, and as ``check()`` does, and OSError.
        """
        if self.gone and not self._is_there():
            self._become(claim(self.storage, self.owner, 0))
        elif self.turned:
            newest = max(_numbers(self.storage), default=0)
            if newest == self.number or (newest and owner_of(self.storage, newest) == self.owner):  # half made before
                self._become(_try(self.storage, self.owner, newest + 1))
        self.check()
        _take_away(self.storage, self.number + 1)

    def turn(self) -> None:
        """From the next save on all comes after what was saved so far, whatever its step: later claims are newer."""
        self.turned = True

    def retired(self) -> str:
        """Where checkpoints that this run removes are moved to.

        It is there before this looks at the fence, and a newer claim takes it away: so a run that was frozen can no
        more remove a checkpoint than it can commit one. Raises as ``check()`` does.
        """
        path = f"{layout.RETIRED}/{layout.retired_name(self.number)}"
        self.check()
        self.storage.make(path)
        try:
            self.check()
        except CheckpointError:
            self.storage.discard(path)
            raise
        return path

    def _become(self, other: Claim | None) -> None:
        if other is not None:
            self.hold.release()
            self.number, self.hold, self.turned = other.number, other.hold, False

    def _is_there(self) -> bool:
        """Whether the claim of this number is this one: where the directory was removed, others count from 1 again."""
        try:
            return owner_of(self.storage, self.number) == self.owner
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let another program have the directory at once."""
        self.hold.release()


def claim(storage: Storage, owner: Owner, patience: float, sleep: Callable[[float], None] = time.sleep) -> Claim:
    """Claim a directory, and take away what older runs had not published.

    A live owner that this one does not supersede is waited for, for ``patience`` seconds: its process may be ending.
    Raises DirectoryInUseError after that, FencedError where a later generation of the same job has it, and OSError.
    """
    deadline = time.monotonic() + patience
    for path in (layout.CLAIMS, layout.STAGING, layout.RETIRED, layout.TRASH):
        storage.make(path)  # now: a full disk may have no room for them when something is to be taken away
    for _ in range(_MOST_TRIES):
        committed = Catalog(storage).latest_claim()  # where the claims of what is there were lost
        newest = _when_free(storage, owner, deadline, sleep)
        if (got := _try(storage, owner, max(newest, committed) + 1)) is not None:
            return got
    raise CheckpointError(f"{storage.url}: {_MOST_TRIES} times others claimed it first; how many programs write there?")


def _when_free(storage: Storage, owner: Owner, deadline: float, sleep: Callable[[float], None]) -> int:
    """The number of the newest claim, 0 for none, once it keeps this owner out no more."""
    missed = 0
    while newest := max(_numbers(storage), default=0):
        try:
            other = owner_of(storage, newest)
        except FileNotFoundError:  # a newer one has taken its place
            missed += 1
            if missed > _MOST_TRIES:
                raise
            continue
        if owner.is_superseded_by(other):
            raise FencedError(f"{storage.url}: {other} has claimed it before {owner} could")
        path = f"{layout.CLAIMS}/{layout.claim_name(newest)}"
        if owner.supersedes(other) or not storage.held(path):
            return newest
        if time.monotonic() >= deadline:
            raise DirectoryInUseError(
                f"{storage.url}: {other} writes its checkpoints there; give each job a directory of its own"
            )
        sleep(_LOOK_SECONDS)
    return 0


def _try(storage: Storage, owner: Owner, number: int) -> Claim | None:
    """Make the claim of this number; None where another was faster."""
    path = f"{layout.CLAIMS}/{layout.claim_name(number)}"
    if number > layout.MOST_CLAIM:  # nobody would see it as a claim: nothing would be fenced
        raise CheckpointError(f"{storage.url}: claim {number - 1} was the last there can be; who wrote that number?")
    hold = storage.claim(path, json.dumps(asdict(owner)).encode())
    if hold is None:
        return None
    try:
        if max(_numbers(storage), default=0) > number:  # this process was held up, and the number was free again
            storage.remove(path)
            hold.release()
            return None
        _sweep(storage, number)
    except OSError:
        hold.release()
        raise
    return Claim(storage, number, owner, hold)


def _numbers(storage: Storage) -> set[int]:
    return {number for name in storage.names(layout.CLAIMS) if (number := layout.claim_of(name))}


def owner_of(storage: Storage, number: int) -> Owner:
    """Who has made the claim of this number. Raises CheckpointError where it is none, and OSError."""
    path = f"{layout.CLAIMS}/{layout.claim_name(number)}"
    try:
        raw: dict[str, Any] = documents.parse(storage.read(path, _MOST_BYTES))
        return Owner(**{name: kind(raw[name]) for name, kind in _FIELDS.items()})
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{storage.url}/{path}: not a claim ({error!r}); remove it if no program runs") from error


def _name_of(storage: Storage, number: int) -> str:
    try:
        return str(owner_of(storage, number))
    except (OSError, CheckpointError):
        return "a newer run"


def _sweep(storage: Storage, number: int) -> None:
    """Take away what older claims were writing and removing, and all that is left over, but for the newest claim."""
    _take_away(storage, number)
    with contextlib.suppress(OSError):  # the rest is in nobody's way
        for name in storage.names(layout.CLAIMS):
            older = layout.claim_of(name.removesuffix(".beat"))
            if older is not None and older < number:
                storage.remove(f"{layout.CLAIMS}/{name}")
        for path in (layout.PRIVATE, layout.CLAIMS, layout.MARKS):
            for name in filter(layout.is_temporary, storage.names(path)):
                storage.remove(f"{path}/{name}")


def _take_away(storage: Storage, number: int) -> None:
    """What claims before this number were at: out of sight, then deleted, or else left in the trash for next time."""
    for path in storage.leftovers(number):
        above, _, name = path.rpartition("/")
        try:
            storage.discard(path)
        except OSError:
            if above != layout.TRASH and name in storage.names(above):
                raise
