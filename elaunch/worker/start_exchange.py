"""All ranks of a generation compare what they have at its store: one round, and the same answer for every rank.

Each leaves what it has under its rank. In a small world all read all (``compare``). In a large one rank 0 reads all,
judges, and answers each under a mark drawn for this round (``agree``): so no answer of a round before is taken for one
of this, and a rank that asks again, after a failure of its own, is answered anew. Whoever has the answer takes its keys
away, at once or when there is time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

_ROOT = "elaunch/"


@dataclass(frozen=True, slots=True)
class Answer:
    """``fault`` is the sentence of what differs, "" for nothing; ``number`` one that all have of rank 0."""

    fault: str
    number: int = 0


Judge = Callable[[Sequence[str]], Answer]


def agree(
    store: Any,
    topic: str,
    rank: int,
    world_size: int,
    value: str,
    judge: Judge,
    seconds: float,
    used: list[str] | None = None,
) -> Answer | None:
    """The answer, or None where not all ranks came within ``seconds``: then nothing is known, and nobody is held up.

    ``judge`` is given what all ranks have, by rank; only rank 0 calls it. ``store`` is torch's; its errors are
    RuntimeErrors. Keys that are not needed any more are put into ``used``, and taken away at once without.
    """
    if world_size == 1:
        return judge([value])
    before = store.timeout
    store.set_timeout(timedelta(seconds=seconds))
    try:
        if rank == 0:
            return _lead(store, topic, world_size, value, judge, used)
        return _follow(store, topic, rank, value, used)
    except RuntimeError:
        _give_up(store, topic, rank)
        return None
    finally:
        store.set_timeout(before)


def compare(store: Any, topic: str, rank: int, world_size: int, value: str, seconds: float) -> list[str] | None:
    """What all ranks have, by rank, for each to judge by itself; None where not all came within ``seconds``.

    Half the way of ``agree``, for worlds small enough that all may read all. Each round has a topic of its own; its
    keys may be taken away (``key_of``) when the ranks have come to another.
    """
    before = store.timeout
    store.set_timeout(timedelta(seconds=seconds))
    try:
        store.set(key_of(topic, rank), value)
        found = store.multi_get([key_of(topic, other) for other in range(world_size)])
        return [text.decode() for text in found]
    except RuntimeError:
        return None
    finally:
        store.set_timeout(before)


def key_of(topic: str, rank: int) -> str:
    return f"{_ROOT}{topic}/{rank}"


def clear(store: Any, used: list[str]) -> None:
    """Take keys away that are not needed any more."""
    try:
        while used:
            store.delete_key(used.pop())
    except RuntimeError:
        return  # the store is gone, and they with it


def _follow(store: Any, topic: str, rank: int, value: str, used: list[str] | None) -> Answer | None:
    mark = os.urandom(8).hex()
    keys = [f"{_ROOT}{topic}/{rank}", f"{_ROOT}{topic}/to/{mark}"]
    store.set(keys[0], f"{mark} {value}")
    if store.check([f"{_ROOT}{topic}/over"]):
        clear(store, keys[:1])
        return None
    # In one wait: torch warns on stderr of each that ends without.
    found = json.loads(store.get(keys[1]))
    if used is None:
        clear(store, keys)
    else:
        used += keys
    return Answer(str(found[0]), int(found[1]))


def _lead(store: Any, topic: str, world_size: int, value: str, judge: Judge, used: list[str] | None) -> Answer:
    if used is None:  # the topic is used again: what is there is of a round before
        store.delete_key(f"{_ROOT}{topic}/over")
    keys = [f"{_ROOT}{topic}/{other}" for other in range(1, world_size)]
    marks, values = zip(*(text.decode().split(" ", 1) for text in store.multi_get(keys)), strict=True)
    answer = judge([value, *values])
    told = json.dumps([answer.fault, answer.number])
    store.multi_set([f"{_ROOT}{topic}/to/{mark}" for mark in marks], [told] * len(marks))
    return answer


def _give_up(store: Any, topic: str, rank: int) -> None:
    try:
        if rank == 0:
            store.set(f"{_ROOT}{topic}/over", "1")  # who comes later need not wait for an answer
        else:
            store.delete_key(f"{_ROOT}{topic}/{rank}")
    except RuntimeError:
        return  # the store is gone: torch has its own words for that
