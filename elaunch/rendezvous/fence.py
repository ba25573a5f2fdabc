"""Writing as a leader: exactly once, and not at all after another leader was elected."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from elaunch.errors import AmbiguousError, ConflictError, DeposedError
from elaunch.rendezvous.store import Compare, Field, KeyValue, Op, Put, Store

_TRIES = 20


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to write for as long as ``compare`` holds."""

    compare: Compare


class Committer:
    """Commits of one author, one after the other. It remembers its last one, so that most need one request only."""

    def __init__(self, store: Store, token_key: str) -> None:
        self._store = store
        self._token_key = token_key
        self._last: int | None = None

    async def commit(self, guards: Sequence[Compare], ops: Sequence[Op]) -> int:
        """As the function ``commit``."""
        last, self._last = self._last, None
        self._last = await commit(self._store, guards, ops, token_key=self._token_key, last=last)
        return self._last


async def commit(
    store: Store, guards: Sequence[Compare], ops: Sequence[Op], *, token_key: str, last: int | None = None
) -> int:
    """Apply ``ops`` exactly once if all ``guards`` hold; the revision at which they were applied.

    A guard on a nonzero create revision says that this incarnation of a key must still stand: that is a
    leader's fence. Raises DeposedError if such a one fails, ConflictError if another does, AmbiguousError if
    etcd broke off every try.

    How it works: each commit also writes a random token to ``token_key``, on condition that this key has not
    changed since before the first try. So of several sendings of one commit one at most is applied, however
    late, and the token tells whether one was. ``last`` is a revision that the key had at some time before; if it
    has another by now, one more try is needed.
    """
    token = uuid.uuid4().bytes
    before = _revision(await store.get(token_key)) if last is None else last
    unresolved: AmbiguousError | None = None
    for _ in range(_TRIES):
        once = Compare(token_key, Field.MOD_REVISION, before)
        try:
            result = await store.txn([*guards, once], [*ops, Put(token_key, token)])
            if result.succeeded:
                return result.revision
        except AmbiguousError as error:
            unresolved = error
        mark = await store.get(token_key)
        if mark is not None and mark.value == token:
            return mark.mod_revision
        await _check(store, guards)
        # Unchanged: the same condition again, so that a copy still under way and this one exclude each other.
        # Changed by another commit: no copy of ours can be applied any more.
        before = _revision(mark)
    raise AmbiguousError(f"etcd did not settle a write in {_TRIES} tries") from unresolved


async def _check(store: Store, guards: Sequence[Compare]) -> None:
    """Raises what a guard that does not hold means, those of incarnations first."""
    broken = [guard for guard in guards if not _holds(guard, await store.get(guard.key))]
    for guard in broken:
        if guard.field is Field.CREATE_REVISION and guard.value:
            raise DeposedError(f"{guard.key} is no longer that of revision {guard.value!r}: another one leads")
    if broken:
        raise ConflictError(f"{broken[0].key} has changed: its {broken[0].field.value} is not the expected one")


def _holds(guard: Compare, kv: KeyValue | None) -> bool:
    if guard.field is Field.VALUE:
        return kv is not None and kv.value == guard.value
    if kv is None:
        return guard.value == 0
    return guard.value == (kv.create_revision if guard.field is Field.CREATE_REVISION else kv.mod_revision)


def _revision(kv: KeyValue | None) -> int:
    return 0 if kv is None else kv.mod_revision
