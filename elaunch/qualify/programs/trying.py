"""One cell, tried: what it raises is its verdict, and all ranks know of each other's."""

from __future__ import annotations

import datetime
import time
import traceback
from collections.abc import Callable
from dataclasses import replace

from elaunch.qualify.cells import Outcome
from elaunch.qualify.programs.place import Place
from elaunch.qualify.programs.telling import tell

Handler = Callable[[Place], "str | None"]
"""Says a word of how. Raises NotHereError where the cell cannot be; whatever else it raises is a failed cell."""
_WAIT = datetime.timedelta(seconds=60)


class NotHereError(Exception):
    """The cell cannot be run here; why is in its text."""


def attempt(name: str, handler: Handler, place: Place, *, spoiled: bool) -> Outcome:
    """Run one cell, and tell what came of it. An error of any kind is a failed cell."""
    begin = time.monotonic()
    why, said, outcome = "", "", Outcome.OK
    try:
        said = handler(replace(place, spoiled=spoiled)) or ""
    except NotHereError as error:
        outcome, why = Outcome.NOT_RUN, str(error)
    except Exception as error:  # noqa: BLE001  # the outermost loop: whatever a cell raises is its verdict
        outcome, why = Outcome.FAILED, _sentence(error)
        traceback.print_exc()
    seconds = round(time.monotonic() - begin, 4)
    tell("cell", name=name, outcome=outcome.value, why=why, said=said, seconds=seconds)
    return outcome


def settle(place: Place, name: str, mine: Outcome) -> bool:
    """Whether the cell failed nowhere; every rank knows the same."""
    place.store.set(f"{name}/{place.rank}", mine.value)
    keys = [f"{name}/{rank}" for rank in range(place.world)]
    place.store.wait(keys, _WAIT)
    return all(place.store.get(key).decode() != Outcome.FAILED.value for key in keys)


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())[:400]
    return text if isinstance(error, AssertionError) and text else f"{type(error).__name__}: {text}"
