"""The checkpointer of a program: ``save(step)`` and ``restore()``."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

import elaunch
from elaunch.checkpoint.collective import launched, leaving, planning
from elaunch.checkpoint.collective.agreeing import agree
from elaunch.checkpoint.collective.arguments import check_options, check_state, whole_step
from elaunch.checkpoint.collective.calls import Calls
from elaunch.checkpoint.collective.committing import Outcome, Save
from elaunch.checkpoint.collective.foreign import Load
from elaunch.checkpoint.collective.launcher import Launcher
from elaunch.checkpoint.collective.pending import Pending
from elaunch.checkpoint.collective.planning import Described, Planned
from elaunch.checkpoint.collective.ranks import Ranks, connect, rounds
from elaunch.checkpoint.collective.restoring import Restore, Restored, Wish
from elaunch.checkpoint.encoding.image import Image
from elaunch.checkpoint.records import attempts
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.claims import Claim, claim
from elaunch.checkpoint.records.manifest import Origin
from elaunch.checkpoint.records.retention import Keep, to_remove
from elaunch.checkpoint.state.digest import difference, differing
from elaunch.checkpoint.state.rng import RNG
from elaunch.checkpoint.state.states import States
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.failures import describe, line
from elaunch.checkpoint.storages.open_storage import open_storage, parent_of
from elaunch.errors import CheckpointError, StateError

_CLAIM_PATIENCE = 5.0
_ALIKE = "every rank makes the same calls, in the same order"

_log = logging.getLogger("elaunch.checkpoint")


class Checkpointer:
    """Saves the state of a program and restores it, into whatever world it is started in.

    ``state`` names the objects: modules, optimizers, whatever has ``state_dict`` and ``load_state_dict``, dicts,
    tensors; ``PerRank(obj)`` for what differs between ranks (states.py). With ``rng`` each rank's random number
    generators are saved too, as the state "rng", unless ``state`` has an ``RNG()`` of its own. ``keep_last``
    checkpoints are kept, and those of steps that are a multiple of ``keep_every``. ``verify`` "full" checks the sum of
    all that a restore reads, "fast" sizes and the sums of all that is no tensor. A save that finds the one before it
    still being written waits for it, or, with ``on_busy="skip"``, is not made. ``timeout`` is how many seconds a rank
    waits for the others.

    Creating it, and each of its methods, is collective: every rank does the same, in the same order. Raises
    DirectoryInUseError where another job writes to ``path``, and CheckpointError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        state: Mapping[str, object],
        *,
        keep_last: int = 3,
        keep_every: int = 0,
        verify: Literal["full", "fast"] = "full",
        on_busy: Literal["wait", "skip"] = "wait",
        rng: bool = True,
        timeout: float = 1800.0,
        launcher: Launcher | None = None,
    ) -> None:
        check_options(keep_last, keep_every, verify, on_busy)
        check_state(state)
        self._storage = open_storage(path)
        self._calls = Calls(self._storage.url)
        self._keep = Keep(keep_last, keep_every)
        self._verify = verify == "full"
        self._skip = on_busy == "skip"
        self._timeout = timeout
        self._launcher = launcher if launcher is not None else launched.launcher()
        self._owner = self._launcher.owner()
        with elaunch.section("checkpoint open", timeout=timeout):
            self._front, self._back = connect(timeout, 2)
            with rounds(self._front, self._back):
                self._states = agree(self._front, lambda: _states(state, rng, self._front), "its state cannot be taken")
                self._claim = agree(self._front, self._claimed, f"{self._storage.url} cannot be claimed")
        self._planned: Planned | None = None
        self._image: Image | None = None
        self._pending: Pending | None = None
        self._last = Outcome(-1, error="nothing was saved yet")
        self._restored = Restored()

    def restore(self, step: int | None = None) -> int:
        """Restore the newest good checkpoint, and return its step; 0 where there is none.

        With ``step`` that of this step; under elaunch, the one that an operator has asked for. Raises CheckpointError
        where there are checkpoints and none can be restored: the objects are not to be used then.
        """
        step = None if step is None else whole_step(step, "restore")
        with self._calls.turn("restore()"):
            self.wait()
            with rounds(self._front):
                return self._restore(step)

    def _restore(self, step: int | None) -> int:
        self._same("restores the newest" if step is None else f"restores step {step}")
        first = self._front.rank == 0
        planned = self._launcher.wish()
        if step is not None:
            wish = Wish(step)
        elif planned is not None:
            wish = planned
        else:
            wish = Wish(avoid=attempts.suspects(self._storage) if first else frozenset())
        tell, begin = self._launcher.tell, self._launcher.restoring
        restore = Restore(self._storage, self._front, self._states, self._verify, self._owner, tell, begin)
        try:
            with elaunch.section("checkpoint restore", timeout=self._timeout):
                self._restored = restore.run(wish)
        except CheckpointError as error:
            if first and wish.step >= 0:
                self._launcher.missing(wish.step, str(error))
            raise
        if self._claim is not None and self._last.step >= 0:
            self._claim.turn()
        self._last = Outcome(-1, error="nothing was saved since the restore")
        if first:
            name = self._restored.name
            if planned is None and name:
                self._count_attempt(self._restored.step)
            self._launcher.restored(self._restored.step if name else -1, f"{self._storage.url}/{name}" if name else "")
        return self._restored.step

    def load(self, path: str | os.PathLike[str], *, partial: bool = False) -> None:
        """Load a checkpoint from somewhere else: any directory that torch.distributed.checkpoint's writer wrote.

        With ``partial`` objects that it knows nothing of stay as they are. What has no manifest is checked for sizes
        only. Raises CheckpointError; the objects are not to be used then.
        """
        with self._calls.turn("load()"):
            self.wait()
            self._load(path, partial)

    def _load(self, path: str | os.PathLike[str], partial: bool) -> None:
        above, name = parent_of(path)
        load = Load(open_storage(above), name, self._front, self._states, self._verify)
        with elaunch.section("checkpoint load", timeout=self._timeout), rounds(self._front):
            load.run(partial)

    def save(self, step: int) -> bool:
        """Save the state as it is now; returns when training may go on, the rest happens behind it.

        False where it was skipped. A save that fails is told as an event and a warning, and in ``wait()``; training
        goes on. Raises StateError, on all ranks, for a state that cannot be saved, and for a state or a step that ranks
        do not agree on.
        """
        step = whole_step(step)
        with self._calls.turn(f"save({step})"):
            return self._save_now(step)

    def _save_now(self, step: int) -> bool:
        with elaunch.section("checkpoint save", timeout=self._timeout), rounds(self._front):
            if self._skip and self._anywhere(self._pending is not None and not self._pending.done.is_set()):
                return False
            self.wait()
            agreed = self._agreed(step)
            if agreed.done:
                return True
            if agreed.lost:
                self._reconnect()
            with rounds(self._back):
                broken = self._stage(agreed.mine, agreed.changed)
                pending = Pending(self._save(step, broken), self._settled)
                pending.start()
            self._pending = pending
            leaving.expect(pending.done, self._timeout)
        return True

    def wait(self) -> Outcome:
        """Wait for the save that is in flight, and return what became of the last one."""
        pending = self._pending
        if pending is not None and not self._calls.forked:
            with elaunch.section("checkpoint save", timeout=self._timeout):
                outcome = pending.result()
            if self._pending is pending:  # no other thread was faster
                self._last, self._pending = outcome, None
        return self._last

    def close(self) -> None:
        """Wait for the save that is in flight, and let go of the directory. A forked child has nothing to let go of."""
        if self._calls.closed or self._calls.forked:
            return
        with self._calls.turn("close()"):
            self._close()

    def _close(self) -> None:
        self._calls.close()
        self.wait()
        if self._image is not None:
            self._image.close()
            self._image = None
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _claimed(self) -> Claim | None:
        """Claim the directory, on rank 0."""
        if self._front.rank != 0:
            return None
        try:
            self._check_path()
            return claim(self._storage, self._owner, _CLAIM_PATIENCE)
        except (CheckpointError, OSError) as error:
            self._launcher.tell("checkpoint_refused", describe(error))
            raise

    def _reconnect(self) -> None:
        """Where a save ended because a rank did not answer in time: the next one has another try."""
        self._back.leave("another rank has")
        try:
            (self._back,) = connect(self._timeout, 1)
        except CheckpointError as error:  # perhaps on this rank alone: it ends the save, and not the training
            _log.warning("saves cannot go on: %s", error)

    def _check_path(self) -> None:
        """Raises CheckpointError where the directory is one checkpoint: others in it would never be found."""
        try:
            self._storage.size(layout.METADATA)
        except OSError:
            return
        raise CheckpointError(
            f"{self._storage.url} is one checkpoint; give the directory above it, or read this one with load()"
        )

    def _count_attempt(self, step: int) -> None:
        try:
            attempts.begun(self._storage, step)
        except OSError as error:
            self._launcher.tell("checkpoint_attempt", f"the start from step {step} is not counted: {describe(error)}")

    def _stage(self, mine: Described, changed: bool) -> str:
        """Copy the state into this rank's image. What went wrong on this rank alone, in words."""
        if self._planned is None or changed:
            self._planned = planning.share_out(mine, self._front)
            if self._image is not None:
                self._image.close()
                self._image = None
        try:
            if self._image is None:
                self._image = Image(self._planned.share)
            self._image.fill(mine.planner())
        except Exception as error:  # noqa: BLE001 -- whatever torch raises: the others are told, and go on
            return f"its state could not be copied: {line(error)}"
        return ""

    def _agreed(self, step: int) -> _Agreed:
        """What there is to save here, and what all ranks have told each other of it.

        Raises StateError on all where one cannot say.
        """
        mine, error, digests = Described({}, {}, []), "", {}
        cause: Exception | None = None
        try:
            mine = planning.describe(self._states.collect(), self._states.of_lowest())
            digests = {name: digest.hex() for name, digest in self._states.shared_values().items()}
        except StateError as problem:
            cause, error = problem, str(problem)
        except Exception as problem:  # noqa: BLE001 -- the others are told
            cause, error = problem, f"rank {self._front.rank}: its state cannot be saved: {line(problem)}"
        changed = self._planned is None or mine.signature != self._planned.signature
        done = self._last.committed and self._last.step == step
        word = {"step": step, "error": error, "changed": changed, "lost": self._back.left, "done": done}
        word["digests"] = digests
        told = [json.loads(one) for one in self._front.share(json.dumps(word).encode())]
        for rank, one in enumerate(told):
            if one["error"]:
                raise StateError(one["error"]) from cause
            if one["step"] != told[0]["step"]:
                raise StateError(
                    f"rank 0 saves step {told[0]['step']} where rank {rank} saves step {one['step']}; "
                    "every rank makes the same saves, in the same order"
                )
        for name, one_rank, another in differing([_bytes(one["digests"]) for one in told]):
            lacking = next((rank for rank in (one_rank, another) if name not in told[rank]["digests"]), None)
            raise StateError(difference(name, one_rank, another, lacking, self._states.differs_because(name)))
        return _Agreed(
            mine,
            changed=any(one["changed"] for one in told),
            lost=any(one["lost"] for one in told),
            done=all(one["done"] for one in told),
        )

    def _save(self, step: int, broken: str) -> Save:
        if self._planned is None:
            raise RuntimeError("a save without a plan")
        origin = Origin(
            job=self._owner.job,
            incarnation=self._owner.incarnation,
            generation=self._owner.generation,
            restart_count=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
            host=self._owner.host,
            torch=planning.torch_version(),
            elaunch=elaunch.__version__,
        )
        return Save(self._storage, self._back, self._planned, self._image, step, origin, self._claim, broken)

    def _settled(self, outcome: Outcome) -> None:
        """After a save, on every rank, behind the training: tell it, and on rank 0 make room."""
        if self._back.rank != 0:
            return
        if not outcome.committed:
            self._launcher.tell("checkpoint_failed", f"step {outcome.step} was not saved: {outcome.error}")
            return
        self._launcher.committed(outcome, f"{self._storage.url}/{outcome.name}")
        try:
            self._make_room()
        except (OSError, CheckpointError) as error:
            self._launcher.tell("checkpoint_retention", f"older checkpoints were not removed: {describe(error)}")
        try:
            attempts.over(self._storage)
        except OSError as error:
            self._launcher.tell("checkpoint_attempt", f"starts are not counted anew: {describe(error)}")

    def _make_room(self) -> None:
        if self._claim is None:
            return
        catalog = Catalog(self._storage)
        gone = to_remove(catalog.readable(), self._keep, frozenset(catalog.marks()), frozenset({self._restored.name}))
        retired = self._claim.retired() if gone else ""
        for one in gone:
            self._storage.retire(one.name, retired)

    def _same(self, call: str) -> None:
        """Raises StateError, on all ranks, where they make different calls. One that saves reads the error."""
        word = {"call": call, "error": f"rank {self._front.rank} {call} where others save; {_ALIKE}"}
        told = [json.loads(one) for one in self._front.share(json.dumps(word).encode())]
        calls = [one.get("call", f"saves step {one.get('step')}") if isinstance(one, dict) else "saves" for one in told]
        for rank, one in enumerate(calls):
            if one != calls[0]:
                raise StateError(f"rank 0 {calls[0]} where rank {rank} {one}; {_ALIKE}")

    def _anywhere(self, here: bool) -> bool:
        """Whether it is so on any rank."""
        return b"1" in self._front.share(b"1" if here else b"0")


@dataclass(frozen=True, slots=True)
class _Agreed:
    """What a save begins with: whether the state has changed its shape on any rank, whether any has lost the
    connection of the others' saves, and whether this step was the last that they committed.
    """

    mine: Described
    changed: bool
    lost: bool
    done: bool


def _states(state: Mapping[str, object], rng: bool, ranks: Ranks) -> States:
    """The program's objects, and the random number generators where they are wanted and not among them."""
    here = any(isinstance(one, RNG) or isinstance(getattr(one, "obj", None), RNG) for one in state.values())
    added = {"rng": RNG()} if rng and not here and "rng" not in state else {}
    return States({**state, **added}, rank=ranks.rank, world=ranks.size, optional=frozenset(added))


def _bytes(digests: dict[str, str]) -> dict[str, bytes]:
    return {name: bytes.fromhex(digest) for name, digest in digests.items()}
