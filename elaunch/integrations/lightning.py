"""``ElaunchCallback`` for Lightning: steps, sections, checkpoints, and a clean stop on notice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:  # the package by its older name
    from pytorch_lightning.callbacks import Callback

import elaunch
from elaunch.checkpoint import Checkpointer
from elaunch.integrations.lightning_state import state_of
from elaunch.integrations.manners import Notice, Sections, spare_from_scheduler


class ElaunchCallback(Callback):  # type: ignore[misc]
    """Tells elaunch of steps and sections, and stops the trainer on all ranks at the same step when notice is given.

    With ``dirpath`` all of the training is saved there by :class:`elaunch.Checkpointer`, every ``every_n_steps``
    optimizer steps, on notice and at the end, and restored when ``fit`` begins: the newest good checkpoint, or the one
    that an operator asks for. It wins over ``fit(ckpt_path=...)``, which is for the first start then. ``state`` names
    more objects to save; other keywords are the Checkpointer's.

    ``check_every`` is in how many steps the ranks agree whether there was notice; ``validation_timeout`` how many
    seconds a validation may take before it is called a hang (None: as other work). ``restored`` is the step that
    training went on from, ``stopped`` whether it ended on notice.
    """

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        *,
        every_n_steps: int = 100,
        check_every: int = 1,
        validation_timeout: float | None = None,
        state: Mapping[str, object] | None = None,
        **checkpointer: Any,
    ) -> None:
        if every_n_steps < 1:
            raise ValueError(f"every_n_steps={every_n_steps}: expected a number from 1")
        self.restored = 0
        self._dirpath = dirpath
        self._every = every_n_steps
        self._validation_timeout = validation_timeout
        self._more = dict(state or {})
        self._options = checkpointer
        self._checkpointer: Checkpointer | None = None
        self._sections = Sections()
        self._notice = Notice(check_every)
        self._step = self._saved = -1

    @property
    def stopped(self) -> bool:
        """Whether training ended because the ranks were told to stop: work remains."""
        return self._notice.given

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Everything is made, nothing has run: what was saved last is put in its place."""
        if self._dirpath is None:
            return
        state = {**state_of(trainer, pl_module, self), **self._more}
        self._checkpointer = Checkpointer(self._dirpath, state, **self._options)
        self.restored = self._step = self._saved = self._checkpointer.restore()
        if self.restored:
            trainer._checkpoint_connector._loaded_checkpoint = {}  # of ckpt_path, which is for the first start

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        spare_from_scheduler()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        elaunch.step(trainer.global_step)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step
        if step == self._step:
            return  # gradients are still being accumulated
        before, self._step = self._step, step
        elaunch.step(step)
        stop = self._notice.now()
        if stop or step // self._every > max(before, 0) // self._every:
            self._save(step)
        if stop:
            _stop(trainer)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._sections.enter("validation", self._validation_timeout)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._sections.leave("validation")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.global_step > 0:
            self._save(trainer.global_step)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._sections.clear()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None

    def _save(self, step: int) -> None:
        if self._checkpointer is not None and step != self._saved:
            self._checkpointer.save(step)
            self._saved = step


def _stop(trainer: Any) -> None:
    """At once: no minimum holds it up, and no validation that takes the time that is left."""
    trainer.should_stop = True
    trainer.fit_loop.min_epochs = 0
    trainer.fit_loop.epoch_loop.min_steps = 0
    trainer.limit_val_batches = 0
