"""Something that every rank does for itself, and that has failed on all of them if it has on one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from elaunch.checkpoint.collective.ranks import Ranks
from elaunch.checkpoint.storages.failures import describe, line
from elaunch.errors import CheckpointError, DamagedCheckpointError, DirectoryInUseError, FencedError, StateError

_KINDS: dict[str, type[CheckpointError]] = {
    kind.code: kind for kind in (StateError, DamagedCheckpointError, DirectoryInUseError, FencedError)
}
_T = TypeVar("_T")


def agree(ranks: Ranks, act: Callable[[], _T], doing: str) -> _T:
    """What it gives, on every rank; raises a CheckpointError on all of them where it fails on one. Collective.

    ``doing`` says what was tried, for errors that nobody foresaw: they are not to end one rank, and leave the others
    waiting for it.
    """
    mine: Exception | None = None
    told = {"code": "", "error": ""}
    try:
        made = act()
    except CheckpointError as error:
        mine, told = error, {"code": error.code, "error": str(error)}
    except OSError as error:
        mine, told = error, {"code": "", "error": describe(error)}
    except Exception as error:  # noqa: BLE001 -- the others are told
        mine, told = error, {"code": "", "error": f"rank {ranks.rank}: {doing} ({line(error)})"}
    for one in ranks.share(json.dumps(told).encode()):
        other = json.loads(one)
        if other["error"]:
            raise _KINDS.get(other["code"], CheckpointError)(other["error"]) from mine
    return made
