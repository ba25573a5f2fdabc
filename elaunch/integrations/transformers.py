"""``ElaunchCallback`` for the Hugging Face Trainer: steps, sections, commits, and a clean stop on notice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback

import elaunch
from elaunch.integrations import committed
from elaunch.integrations.manners import Notice, Sections
from elaunch.worker import ledger

_EVALUATION, _CHECKPOINT = "evaluation", "checkpoint"


class ElaunchCallback(TrainerCallback):  # type: ignore[misc]
    """Tells elaunch of steps and sections, and on notice has the Trainer save and stop, on all ranks at the same step.

    Checkpoints are the Trainer's own (``save_steps``, ``output_dir``). When all ranks have written one it is marked as
    whole and recorded; :meth:`checkpoint` finds the newest such one::

        callback = ElaunchCallback()
        trainer = Trainer(..., callbacks=[callback])
        trainer.train(resume_from_checkpoint=callback.checkpoint(args.output_dir))

    ``check_every`` is in how many steps the ranks agree whether there was notice. ``evaluation_timeout`` and
    ``checkpoint_timeout`` are how many seconds those may take before they are called a hang (None: as other work).
    """

    def __init__(
        self,
        *,
        check_every: int = 1,
        evaluation_timeout: float | None = None,
        checkpoint_timeout: float | None = 1800.0,
    ) -> None:
        self.restored = 0
        self._timeouts = {_EVALUATION: evaluation_timeout, _CHECKPOINT: checkpoint_timeout}
        self._sections = Sections()
        self._notice = Notice(check_every)
        self._began = 0.0

    @property
    def stopped(self) -> bool:
        """Whether training ended because the ranks were told to stop: work remains."""
        return self._notice.given

    def checkpoint(self, output_dir: str | Path) -> str | None:
        """The checkpoint to go on from, None for none: the same on all ranks, which all must ask.

        Raises FileNotFoundError, on all of them, where an operator asks for a step that is not there.
        """
        folder, point = Path(output_dir), ledger.restore_point()
        step, error = -1, ""
        if _rank() == 0:
            try:
                found = committed.newest(folder, point)
                step = found.step if found is not None else -1
            except FileNotFoundError as missing:
                step, error = -2, str(missing)
                ledger.missing(point.step, error)
        step = _told_by_first(step)
        if step == -2:
            raise FileNotFoundError(error or f"{folder} has no whole checkpoint of step {point.step}")
        path = folder / f"checkpoint-{step}"
        self.restored = max(step, 0)
        if _rank() == 0:
            ledger.restored(step, str(path) if step >= 0 else "")
        return str(path) if step >= 0 else None

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        elaunch.step(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        elaunch.step(state.global_step)
        if self._notice.now():
            control.should_save = control.should_training_stop = True
            control.should_evaluate = False  # what time is left is for the checkpoint
        self._before(args, state, control)
        return control

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if self._notice.given:
            control.should_evaluate = control.should_save = False  # it was saved at the step
        self._before(args, state, control)
        return control

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._sections.enter(_EVALUATION, self._timeouts[_EVALUATION])

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._sections.leave(_EVALUATION)
        if control.should_save:
            self._saving(args, state)

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any, **_: Any) -> None:
        self._sections.leave(_EVALUATION)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Every rank has come back from its part of the save, or is about to: the first commits when all have."""
        path = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        _barrier()
        if _rank() == 0:
            seconds = time.monotonic() - self._began if self._began else 0.0
            committed.commit(path, state.global_step, seconds)
        self._sections.leave(_CHECKPOINT)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._sections.clear()

    def _before(self, args: Any, state: Any, control: Any) -> None:
        """What the Trainer does next is told beforehand; a folder that is written again is not whole meanwhile."""
        if control.should_evaluate:
            self._sections.enter(_EVALUATION, self._timeouts[_EVALUATION])
        elif control.should_save:
            self._saving(args, state)

    def _saving(self, args: Any, state: Any) -> None:
        self._began = time.monotonic()
        self._sections.enter(_CHECKPOINT, self._timeouts[_CHECKPOINT])
        if _rank() == 0:
            committed.unmark(Path(args.output_dir) / f"checkpoint-{state.global_step}")


def _rank() -> int:
    return int(dist.get_rank()) if dist.is_available() and dist.is_initialized() else 0


def _barrier() -> None:
    if dist.is_available() and dist.is_initialized():
        dist.barrier()


def _told_by_first(number: int) -> int:
    """Rank 0's number, on all ranks."""
    if not (dist.is_available() and dist.is_initialized()):
        return number
    device = "cpu" if "gloo" in dist.get_backend() else torch.accelerator.current_accelerator()
    told = torch.tensor([number], dtype=torch.int64, device=device)
    dist.broadcast(told, src=0)
    return int(told.item())
