"""The random number generators of a rank as one state.

Restored into the same world, every rank goes on with the numbers it would have drawn. In another world rank r goes on
with the state of old rank r, if there was one; a new rank is seeded from old rank 0's state and its own number, so that
it is the same in each restore of that checkpoint, and draws as no other rank does.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from elaunch.checkpoint.state.digest import digest
from elaunch.checkpoint.state.tree import encode


class RNG:
    """Python's ``random``, numpy's global generator if numpy is imported, torch's on CPU and current accelerator.

    It is per rank by itself: ``Checkpointer(..., {"rng": RNG(), ...})``.
    """

    per_rank = True

    def state_dict(self) -> dict[str, Any]:
        version, words, gauss = random.getstate()
        state = {"python": (version, words, gauss), "torch": torch.get_rng_state()}
        if (numpy := sys.modules.get("numpy")) is not None:
            state["numpy"] = numpy.random.get_state()
        if (device := _accelerator()) is not None:
            state["accelerator"] = (device, torch.get_device_module(device).get_rng_state())
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Whatever was not there when the state was saved stays as it is."""
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
        torch.set_rng_state(state["torch"])
        if "numpy" in state and (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.set_state(state["numpy"])
        if "accelerator" in state:
            device, words = state["accelerator"]
            if device == _accelerator():
                torch.get_device_module(device).set_rng_state(words)

    def reshard_state_dict(self, states: list[dict[str, Any]], rank: int, world: int) -> dict[str, Any]:
        """The state of ``rank`` in a world of another size than ``states`` is of."""
        if rank < len(states):
            return states[rank]
        stored, _ = encode(states[0], ("rng",))
        seed = int.from_bytes(digest((stored, rank)), "big") >> 65  # 63 bits: what torch takes for a seed
        made = {"python": random.Random(seed).getstate(), "torch": torch.Generator().manual_seed(seed).get_state()}
        if "numpy" in states[0]:
            made["numpy"] = _numpy_state(seed)
        if "accelerator" in states[0] and (device := _accelerator()) is not None:
            made["accelerator"] = (device, torch.Generator(device).manual_seed(seed).get_state())
        return made


def _numpy_state(seed: int) -> Any:
    import numpy

    return numpy.random.RandomState([seed >> 32, seed & 0xFFFFFFFF]).get_state()


def _accelerator() -> str | None:
    """The current accelerator's type; None also if no program has used it yet: asking would wake it."""
    if not torch.accelerator.is_available():
        return None
    device = str(torch.accelerator.current_accelerator().type)
    initialised = getattr(torch.get_device_module(device), "is_initialized", None)
    return device if initialised is None or initialised() else None
