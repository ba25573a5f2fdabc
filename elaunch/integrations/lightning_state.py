"""What of a Lightning trainer belongs in a checkpoint, as objects that :class:`elaunch.Checkpointer` takes."""

from __future__ import annotations

import copy
import logging
from typing import Any

from elaunch.checkpoint import PerRank
from elaunch.checkpoint.state.tree import encode
from elaunch.errors import StateError

_LOADERS = "combined_loader"
_log = logging.getLogger("elaunch.integrations")


def state_of(trainer: Any, module: Any, callback: object) -> dict[str, Any]:
    """The model, the optimizers, their schedules, how far the loops are, and what other callbacks remember."""
    state: dict[str, Any] = {"model": module}
    for number, optimizer in enumerate(trainer.optimizers):
        state[f"optimizer{number}"] = optimizer
    for number, config in enumerate(trainer.lr_scheduler_configs):
        state[f"schedule{number}"] = config.scheduler
    state["loops"] = Loops(trainer)
    state["loaders"] = PerRank(Loaders(trainer), reshard=lambda states, rank, world: {"states": []})
    state["callbacks"] = PerRank(Callbacks(trainer, callback), reshard=lambda states, rank, world: states[0])
    if trainer.precision_plugin.state_dict():
        state["precision"] = trainer.precision_plugin
    if trainer.datamodule is not None and trainer.datamodule.state_dict():
        state["datamodule"] = trainer.datamodule
    return state


class Loops:
    """Epochs, batches and steps that are done: the same on all ranks."""

    def __init__(self, trainer: Any) -> None:
        self._loop = trainer.fit_loop

    def state_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = self._loop.state_dict()
        found["state_dict"] = {name: value for name, value in found["state_dict"].items() if name != _LOADERS}
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loop.load_state_dict(state)


class Loaders:
    """Where each rank's data loaders are, of those that can tell. In another world they begin the epoch anew."""

    def __init__(self, trainer: Any) -> None:
        self._loop = trainer.fit_loop

    def state_dict(self) -> dict[str, Any]:
        return {"states": self._loop.state_dict()["state_dict"].get(_LOADERS, [])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loop._combined_loader_states_to_load = list(state["states"])


class Callbacks:
    """What the other callbacks remember: when to stop early, say."""

    def __init__(self, trainer: Any, ours: object) -> None:
        self._others = [callback for callback in trainer.callbacks if callback is not ours]
        self._told: set[str] = set()

    def state_dict(self) -> dict[str, Any]:
        found = {callback.state_key: callback.state_dict() for callback in self._others}
        return {name: state for name, state in found.items() if state and self._plain(name, state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for callback in self._others:
            if callback.state_key in state:
                callback.load_state_dict(copy.deepcopy(state[callback.state_key]))

    def _plain(self, name: str, state: dict[str, Any]) -> bool:
        try:
            encode(state, ("callbacks", name))
        except StateError as error:
            if name not in self._told:
                self._told.add(name)
                _log.warning("the state of callback %s is not saved: %s", name, error)
            return False
        return True
