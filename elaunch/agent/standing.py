"""Where this node's ranks stand in a generation, by its Start command and this node's options. Pure."""

from __future__ import annotations

from elaunch.agent.environment import Group, Place
from elaunch.agent.options import LaunchOptions
from elaunch.controller.commands import Start


def group_of(start: Start, options: LaunchOptions, node_id: str) -> Group:
    """What they have in common."""
    return Group(
        job=options.job,
        node_id=node_id,
        generation=start.generation,
        restart_count=start.restart_count,
        max_restarts=options.max_restarts,
        master_addr=start.store_address,
        master_port=start.store_port,
        signals=",".join(s.name for s in options.signals),
        virtual_local_rank=options.virtual_local_rank,
        start_check=options.start_check,
        allow_asymmetry=options.allow_asymmetry,
        from_step=start.from_step,
        avoid_steps=start.avoid_steps,
        recorded_step=start.recorded_step,
        rewinds=start.rewinds,
        incarnation=start.incarnation,
        reason=start.reason,
    )


def place_of(start: Start, options: LaunchOptions, local_rank: int) -> Place:
    """Where one of them stands."""
    return Place(
        rank=start.rank0 + local_rank,
        local_rank=local_rank,
        world_size=start.world_size,
        local_world_size=options.slots,
        group_rank=start.group_rank,
        group_world_size=start.group_world_size,
        role=options.role,
        role_rank=start.role_rank0 + local_rank,
        role_world_size=start.role_world_size,
    )
