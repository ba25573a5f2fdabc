"""The environment of a rank: torchrun's variables, a few of ours, the user's otherwise untouched. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

from elaunch.errors import StartError
from elaunch.rendezvous.plan import Rewind


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank stands, in torch's words: in the world, on its node, in its role, and its node."""

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    group_rank: int
    group_world_size: int
    role: str
    role_rank: int
    role_world_size: int


@dataclass(frozen=True, slots=True)
class Group:
    """What the ranks of one generation on one node have in common.

    ``error_file`` of a rank is not here; ``signals`` are the names in ``--signals-to-handle``,
    comma-separated.
    """

    job: str
    node_id: str
    generation: int
    restart_count: int
    max_restarts: int
    master_addr: str
    master_port: int
    signals: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    virtual_local_rank: bool = False
    start_check: bool = True
    allow_asymmetry: bool = False
    from_step: int = -1
    avoid_steps: tuple[int, ...] = ()
    recorded_step: int = -1
    rewinds: tuple[Rewind, ...] = ()
    incarnation: str = ""
    reason: str = ""


def worker_environment(base: Mapping[str, str], place: Place, group: Group, error_file: str = "") -> dict[str, str]:
    """The whole environment of the rank at ``place``; ``base`` is the agent's.

    Raises StartError where ``--virtual-local-rank`` finds fewer visible devices than ranks.
    """
    return {
        **base,
        **_numbers(place),
        **_of_group(base, group),
        **_local_rank(base, place, group.virtual_local_rank),
        "TORCHELASTIC_ERROR_FILE": error_file,
    }


def _numbers(place: Place) -> dict[str, str]:
    return {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.world_size),
        "LOCAL_WORLD_SIZE": str(place.local_world_size),
        "GROUP_RANK": str(place.group_rank),
        "GROUP_WORLD_SIZE": str(place.group_world_size),
        "ROLE_NAME": place.role,
        "ROLE_RANK": str(place.role_rank),
        "ROLE_WORLD_SIZE": str(place.role_world_size),
    }


def _of_group(base: Mapping[str, str], group: Group) -> dict[str, str]:
    return {
        "MASTER_ADDR": group.master_addr,
        "MASTER_PORT": str(group.master_port),
        "TORCHELASTIC_RESTART_COUNT": str(group.restart_count),
        "TORCHELASTIC_MAX_RESTARTS": str(group.max_restarts),
        "TORCHELASTIC_RUN_ID": group.job,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": group.signals,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": base.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "ELAUNCH_JOB": group.job,
        "ELAUNCH_NODE_ID": group.node_id,
        "ELAUNCH_GENERATION": str(group.generation),
        **({"ELAUNCH_INCARNATION": group.incarnation} if group.incarnation else {}),
        **({"ELAUNCH_REASON": group.reason.replace("\0", " ")} if group.reason else {}),
        **({} if group.start_check else {"ELAUNCH_START_CHECK": "0"}),
        **({"ELAUNCH_ALLOW_ASYMMETRY": "1"} if group.allow_asymmetry else {}),
        **_restore_point(group),
        # A program may overwrite MASTER_PORT; elaunch/worker/stores.py must still know the agent's.
        "ELAUNCH_STORE_PORT": str(group.master_port),
    }


def _restore_point(group: Group) -> dict[str, str]:
    """What ``elaunch.worker.ledger.restore_point`` reads."""
    steps = {"ELAUNCH_FROM_STEP": group.from_step, "ELAUNCH_RECORDED_STEP": group.recorded_step}
    lists = {
        "ELAUNCH_AVOID_STEPS": ",".join(map(str, group.avoid_steps)),
        "ELAUNCH_REWINDS": ",".join(f"{rewind.generation}:{rewind.step}" for rewind in group.rewinds),
    }
    given = {name: str(step) for name, step in steps.items() if step >= 0}
    return given | {name: value for name, value in lists.items() if value}


def _local_rank(base: Mapping[str, str], place: Place, virtual: bool) -> dict[str, str]:
    if not virtual:
        return {"LOCAL_RANK": str(place.local_rank)}
    visible = base.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": str(place.local_rank)}
    devices = visible.split(",")
    if place.local_rank >= len(devices):
        raise StartError(
            f"local rank {place.local_rank} has no device in CUDA_VISIBLE_DEVICES={visible} "
            "(--virtual-local-rank); start fewer ranks or show more devices"
        )
    return {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": devices[place.local_rank].strip()}


def with_thread_limit(base: Mapping[str, str], local_world_size: int) -> tuple[dict[str, str], str | None]:
    """``base`` with torchrun's ``OMP_NUM_THREADS=1`` for several ranks on a node, and its warning."""
    if local_world_size <= 1 or "OMP_NUM_THREADS" in base:
        return dict(base), None
    warning = (
        "OMP_NUM_THREADS is set to 1 for every rank, so that they do not overload this machine; "
        "set it yourself to tune it"
    )
    return {**base, "OMP_NUM_THREADS": "1"}, warning


def substitute(args: Sequence[str], local_rank: int) -> tuple[str, ...]:
    """Replace ``${local_rank}`` in a program's arguments, as string.Template does: ``$$`` becomes ``$``."""
    return tuple(Template(arg).safe_substitute(local_rank=str(local_rank)) for arg in args)


def line_prefix(template: str | None, place: Place) -> str:
    """What stands before a rank's teed lines; ``template``: TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE."""
    if not template:
        return f"[{place.role}{place.local_rank}]:"
    return Template(template).safe_substitute(role_name=place.role, local_rank=place.local_rank, rank=place.rank)
