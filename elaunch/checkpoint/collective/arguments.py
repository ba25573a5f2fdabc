"""What a program may give a Checkpointer: said at once where it is wrong, since a restore could only lose it later."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from typing import Any

from elaunch.checkpoint.collective.ranks import Ranks
from elaunch.checkpoint.state.per_rank import PerRank
from elaunch.checkpoint.state.rng import RNG
from elaunch.checkpoint.state.states import States
from elaunch.errors import StateError

_PLAIN = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))

_HIGHEST_STEP = 1 << 62


def check_options(keep_last: int, keep_every: int, verify: str, on_busy: str) -> None:
    """Raises ValueError."""
    if keep_last < 1:
        raise ValueError(f"keep_last={keep_last!r} must be 1 or more")
    if keep_every < 0:
        raise ValueError(f"keep_every={keep_every!r} must be 0 or more")
    if verify not in ("full", "fast"):
        raise ValueError(f'verify={verify!r} must be "full" or "fast"')
    if on_busy not in ("wait", "skip"):
        raise ValueError(f'on_busy={on_busy!r} must be "wait" or "skip"')


def whole_step(step: object, call: str = "save") -> int:
    """``step`` as an int. Raises TypeError and ValueError."""
    try:
        number = operator.index(step)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{call}({step!r}): a step is a whole number") from None
    if not 0 <= number < _HIGHEST_STEP:
        raise ValueError(f"{call}({number}): a step is 0 or more, and less than 2 to the power of 62")
    return number


def check_state(state: object) -> None:
    """Every object has a name, and a restore can put something into it. Raises TypeError and StateError."""
    if not isinstance(state, Mapping):
        raise TypeError(f"the state is a dict of names and objects, as {{'model': model}}; this is {_a(state)}")
    for name, held in state.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"the names in the state are strings, as 'model'; this is {name!r}")
        _check_fillable(name, held.obj if isinstance(held, PerRank) else held)


def _check_fillable(name: str, held: Any) -> None:
    numpy = sys.modules.get("numpy")
    if isinstance(held, _PLAIN) or (numpy is not None and isinstance(held, numpy.generic)):
        raise StateError(
            f"state {name!r} is {_a(held)}, into which nothing can be restored; hold it in a dict, and read it from "
            f"there: {{'{name}': ...}}"
        )
    if callable(getattr(held, "state_dict", None)) and not callable(getattr(held, "load_state_dict", None)):
        raise StateError(
            f"state {name!r} is {_a(held)}, which has state_dict and no load_state_dict, so nothing could restore it; "
            "give it one"
        )


def _a(held: object) -> str:
    if held is None:
        return "None"
    kind = type(held).__qualname__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def states_of(state: Mapping[str, object], rng: bool, ranks: Ranks) -> States:
    """The program's objects, and the random number generators where they are wanted and not among them."""
    here = any(isinstance(one, RNG) or isinstance(getattr(one, "obj", None), RNG) for one in state.values())
    added = {"rng": RNG()} if rng and not here and "rng" not in state else {}
    return States({**state, **added}, rank=ranks.rank, world=ranks.size, optional=frozenset(added))
