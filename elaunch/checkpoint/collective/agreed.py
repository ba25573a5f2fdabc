"""What all ranks tell each other at the start of a call: that they make the same one, and what they save in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from elaunch.checkpoint.collective import planning
from elaunch.checkpoint.collective.planning import Described, Planned
from elaunch.checkpoint.collective.ranks import Ranks
from elaunch.checkpoint.state.digest import difference, differing
from elaunch.checkpoint.state.states import States
from elaunch.checkpoint.storages.failures import line
from elaunch.errors import StateError

_ALIKE = "every rank makes the same calls, in the same order"


@dataclass(frozen=True, slots=True)
class Agreed:
    """What a save begins with: whether the state has changed its shape on any rank, whether any has lost the
    connection of the others' saves, and whether this step was the last that they committed.
    """

    mine: Described
    changed: bool
    lost: bool
    done: bool


def agreed_save(ranks: Ranks, states: States, step: int, before: Planned | None, *, lost: bool, done: bool) -> Agreed:
    """What there is to save here, and what all ranks have told each other of it.

    ``before`` is how the save before was shared out; ``lost`` and ``done`` are this rank's own of what ``Agreed`` says.
    Raises StateError on all where one cannot say, and where they do not agree.
    """
    mine, error, digests = Described({}, {}, []), "", {}
    cause: Exception | None = None
    try:
        mine = planning.describe(states.collect(), states.of_lowest())
        digests = {name: digest.hex() for name, digest in states.shared_values().items()}
    except StateError as problem:
        cause, error = problem, str(problem)
    except Exception as problem:  # noqa: BLE001 -- the others are told
        cause, error = problem, f"rank {ranks.rank}: its state cannot be saved: {line(problem)}"
    changed = before is None or mine.signature != before.signature
    word = {"step": step, "error": error, "changed": changed, "lost": lost, "done": done}
    word["digests"] = digests
    told = [json.loads(one) for one in ranks.share(json.dumps(word).encode())]
    _compare(told, states, cause)
    return Agreed(
        mine,
        changed=any(one["changed"] for one in told),
        lost=any(one["lost"] for one in told),
        done=all(one["done"] for one in told),
    )


def same_call(ranks: Ranks, call: str) -> None:
    """Raises StateError, on all ranks, where they make different calls. One that saves reads the error."""
    word = {"call": call, "error": f"rank {ranks.rank} {call} where others save; {_ALIKE}"}
    told = [json.loads(one) for one in ranks.share(json.dumps(word).encode())]
    calls = [one.get("call", f"saves step {one.get('step')}") if isinstance(one, dict) else "saves" for one in told]
    for rank, one in enumerate(calls):
        if one != calls[0]:
            raise StateError(f"rank 0 {calls[0]} where rank {rank} {one}; {_ALIKE}")


def anywhere(ranks: Ranks, here: bool) -> bool:
    """Whether it is so on any rank."""
    return b"1" in ranks.share(b"1" if here else b"0")


def _compare(told: list[dict[str, Any]], states: States, cause: Exception | None) -> None:
    """Raises StateError where one rank cannot say what it saves, and where they do not save the same."""
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
        raise StateError(difference(name, one_rank, another, lacking, states.differs_because(name)))


def _bytes(digests: dict[str, str]) -> dict[str, bytes]:
    return {name: bytes.fromhex(digest) for name, digest in digests.items()}
