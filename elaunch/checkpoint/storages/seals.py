"""Which checkpoints of older claims count, where nothing can take away what an older run would publish.

Each claim has a *seal*, an object that is created once: the list of what counts of all claims before it. It is made
after the claim, from what is published then. Who publishes looks for newer claims *afterwards*: if there is none, its
checkpoint will be on every later list. If there is one, the seal of that claim says what became of it; where that is
not made yet, whoever needs it makes it. So each checkpoint of an older run was either told to be committed and counts,
or was refused and does not, at whatever instants the two were frozen, and without a clock.
"""

from __future__ import annotations

import errno
import json
from typing import Protocol

from elaunch.checkpoint.storages import layout

_MOST_BYTES = 1 << 20
_LOOKS = 100


class Store(Protocol):
    """What is needed of a storage."""

    def names(self, path: str) -> list[str]:
        """What stands in a directory."""

    def read(self, path: str, most: int) -> bytes:
        """A small object."""

    def create(self, path: str, data: bytes) -> bool:
        """Put an object that is not there yet, as one step; False where it is."""

    def published(self) -> list[str]:
        """The names of all that has a manifest."""


def newest_claim(store: Store) -> int:
    """Its number, 0 for none."""
    return max(_numbers(store, layout.CLAIMS), default=0)


def counting(store: Store) -> list[str]:
    """The names of what is committed, by the newest seal."""
    for _ in range(_LOOKS):
        number = max(_numbers(store, layout.SEALS), default=0)
        listed = _read(store, number) if number else frozenset()
        if listed is not None:  # else it was swept: there is a newer one
            return [name for name in store.published() if layout.claim_in(name) >= number or name in listed]
    raise OSError(errno.EAGAIN, "changes all the time", layout.SEALS)


def seal(store: Store, number: int) -> frozenset[str]:
    """What counts of the claims before ``number``. If that is not settled, it is now.

    Raises OSError (ESTALE) where a newer claim has swept the seal away.
    """
    path = _path(number)
    if (listed := _read(store, number)) is None:
        store.create(path, json.dumps(_before(store, number)).encode())
        listed = _read(store, number)
    if listed is None:
        raise OSError(errno.ESTALE, "a newer claim has taken it away", path)
    return listed


def is_refused(store: Store, name: str) -> bool:
    """Whether a newer claim came before the checkpoint ``name``, which was published just now."""
    for _ in range(_LOOKS):
        newest = newest_claim(store)
        if newest <= layout.claim_in(name):
            return False
        try:
            return name not in seal(store, newest)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
    raise OSError(errno.EAGAIN, "changes all the time", layout.SEALS)


def _before(store: Store, number: int) -> list[str]:
    older = [one for one in (*_numbers(store, layout.CLAIMS), *_numbers(store, layout.SEALS)) if one < number]
    last = max(older, default=0)
    listed = seal(store, last) if last else frozenset()
    published = [name for name in store.published() if layout.claim_in(name) < number]
    return [name for name in published if layout.claim_in(name) >= last or name in listed]


def _numbers(store: Store, path: str) -> list[int]:
    return [number for name in store.names(path) if (number := layout.claim_of(name))]


def _read(store: Store, number: int) -> frozenset[str] | None:
    """The list of a seal; None where there is none."""
    path = _path(number)
    try:
        listed = json.loads(store.read(path, _MOST_BYTES))
        return frozenset(map(str, listed))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise OSError(errno.EIO, "is no list of checkpoints: damaged", path) from error


def _path(number: int) -> str:
    return f"{layout.SEALS}/{layout.claim_name(number)}"
