"""The checkpointer of a program: ``save(step)`` and ``restore()``."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Literal

import elaunch
from elaunch.checkpoint.collective import launched, leaving, planning
from elaunch.checkpoint.collective.agreed import agreed_save, anywhere, same_call
from elaunch.checkpoint.collective.agreeing import agree
from elaunch.checkpoint.collective.arguments import check_options, check_state, states_of, whole_step
from elaunch.checkpoint.collective.calls import Calls
from elaunch.checkpoint.collective.claiming import claimed
from elaunch.checkpoint.collective.committing import Outcome, Save
from elaunch.checkpoint.collective.foreign import Load
from elaunch.checkpoint.collective.launcher import Launcher
from elaunch.checkpoint.collective.pending import Pending
from elaunch.checkpoint.collective.ranks import connect, rounds
from elaunch.checkpoint.collective.restoring import Restore, Restored, Wish
from elaunch.checkpoint.collective.settling import count_attempt, make_room, settle
from elaunch.checkpoint.collective.staging import Stage
from elaunch.checkpoint.records import attempts
from elaunch.checkpoint.records.claims import Claim
from elaunch.checkpoint.records.manifest import Origin
from elaunch.checkpoint.records.retention import Keep
from elaunch.checkpoint.storages.open_storage import open_storage, parent_of
from elaunch.errors import CheckpointError
from elaunch.inject.points import reached

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
            with rounds(self._front, self._back, fatal=True):
                self._states = agree(
                    self._front, lambda: states_of(state, rng, self._front), "its state cannot be taken"
                )
                self._claim = agree(self._front, self._claimed, f"{self._storage.url} cannot be claimed")
        self._stage = Stage()
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
            with rounds(self._front, fatal=True):
                return self._restore(step)

    def _restore(self, step: int | None) -> int:
        same_call(self._front, "restores the newest" if step is None else f"restores step {step}")
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
                reached("restore")
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
                count_attempt(self._storage, self._launcher, self._restored.step)
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
        with elaunch.section("checkpoint load", timeout=self._timeout), rounds(self._front, fatal=True):
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
        began = time.monotonic()
        with elaunch.section("checkpoint save", timeout=self._timeout), rounds(self._front):
            if self._skip and anywhere(self._front, self._pending is not None and not self._pending.done.is_set()):
                return False
            self.wait()
            done = self._last.committed and self._last.step == step
            lost = self._back.left
            agreed = agreed_save(self._front, self._states, step, self._stage.planned, lost=lost, done=done)
            if agreed.done:
                return True
            if agreed.lost:
                self._reconnect()
            reached("save")
            with rounds(self._back):
                broken = self._stage.copy(agreed.mine, self._front, changed=agreed.changed)
                pending = Pending(self._save(step, broken, time.monotonic() - began), self._settled)
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
        self._stage.close()
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _claimed(self) -> Claim | None:
        """Rank 0 has the claim."""
        return claimed(self._storage, self._owner, self._launcher) if self._front.rank == 0 else None

    def _reconnect(self) -> None:
        """Where a save ended because a rank did not answer in time: the next one has another try."""
        self._back.leave("another rank has")
        try:
            (self._back,) = connect(self._timeout, 1)
        except CheckpointError as error:  # perhaps on this rank alone: it ends the save, and not the training
            _log.warning("saves cannot go on: %s", error)

    def _save(self, step: int, broken: str, blocked: float) -> Save:
        """``blocked`` are the seconds since the call of ``save``, in which the program has waited."""
        planned, image = self._stage.planned, self._stage.image
        if planned is None:
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
        return Save(self._storage, self._back, planned, image, step, origin, self._claim, broken, blocked)

    def _settled(self, outcome: Outcome) -> None:
        if self._back.rank == 0:
            settle(outcome, self._storage, self._launcher, self._make_room)

    def _make_room(self) -> None:
        if self._claim is not None:
            make_room(self._storage, self._claim, self._keep, self._restored.name)
