"""Who a process is in its job: what elaunch, or torchrun, has put into its environment. Without torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

REASON = "ELAUNCH_REASON"


@dataclass(frozen=True, slots=True)
class Context:
    """A rank's place. Outside of any launcher: ``job`` is empty, one rank in a world of one.

    ``generation`` counts starts of ranks, from 1 (0: not under elaunch); ``restart_count`` those of them that were
    charged to ``max_restarts``. ``reason`` is why this generation was started, a sentence: after a failure it says
    which. ``node`` is the node's id, ``node_rank`` its number among ``nodes``. ``recorded_step`` is the step of the
    last checkpoint that the controller knows as committed, -1 for none. ``incarnation`` tells the job from an earlier
    one of the same name.
    """

    job: str = ""
    incarnation: str = ""
    generation: int = 0
    restart_count: int = 0
    max_restarts: int = 0
    reason: str = ""
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    role: str = "default"
    node: str = ""
    node_rank: int = 0
    nodes: int = 1
    recorded_step: int = -1

    @property
    def launched(self) -> bool:
        """Whether this process is a rank of elaunch."""
        return self.generation > 0


def context(environ: Mapping[str, str] = os.environ) -> Context:
    """Who this process is. It may be asked at any time, before torch as well, and costs microseconds."""

    def number(name: str, default: int) -> int:
        text = environ.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else default

    return Context(
        job=environ.get("ELAUNCH_JOB", environ.get("TORCHELASTIC_RUN_ID", "")),
        incarnation=environ.get("ELAUNCH_INCARNATION", ""),
        generation=number("ELAUNCH_GENERATION", 0),
        restart_count=number("TORCHELASTIC_RESTART_COUNT", 0),
        max_restarts=number("TORCHELASTIC_MAX_RESTARTS", 0),
        reason=environ.get(REASON, ""),
        rank=number("RANK", 0),
        world_size=number("WORLD_SIZE", 1),
        local_rank=number("LOCAL_RANK", 0),
        local_world_size=number("LOCAL_WORLD_SIZE", 1),
        role=environ.get("ROLE_NAME", "default"),
        node=environ.get("ELAUNCH_NODE_ID", ""),
        node_rank=number("GROUP_RANK", 0),
        nodes=number("GROUP_WORLD_SIZE", 1),
        recorded_step=number("ELAUNCH_RECORDED_STEP", -1),
    )
