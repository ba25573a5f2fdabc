"""The terms of a job by this node's options: what the other nodes must agree with, and what it goes by as a leader."""

from __future__ import annotations

from pathlib import Path

from elaunch.agent.options import LaunchOptions
from elaunch.controller.agreement import policy_values
from elaunch.controller.policy import Policy
from elaunch.rendezvous.records import Spec


def spec_of(options: LaunchOptions) -> Spec:
    """What other nodes of the job must agree with."""
    target = options.program.target
    program = Path(target).name if options.program.kind != "module" else f"-m {target}"
    return Spec(
        min_nodes=options.min_nodes,
        max_nodes=options.max_nodes,
        max_restarts=options.max_restarts,
        roles={options.role: {"nproc": options.slots, "program": program}},
        security=options.security.words,
        policy=policy_values(policy_from(options)),
    )


def policy_from(options: LaunchOptions) -> Policy:
    """What this node does by, should it lead."""
    conf, recovery, scheduled = options.conf, options.recovery, options.scheduled
    return Policy(
        options.min_nodes,
        options.max_nodes,
        options.max_restarts,
        conf.join_timeout,
        conf.last_call_timeout,
        on_failure=recovery.on_failure,
        restart_window=recovery.restart_window,
        hang_timeout=recovery.hang_timeout,
        hang_floor=recovery.hang_floor,
        straggler_factor=recovery.straggler_factor,
        fixed_world=recovery.fixed_world,
        spares=recovery.spares,
        crash_loop=recovery.crash_loop,
        suspect_after=recovery.suspect_after,
        allow_injection=options.allow_injection,
        probe=options.probe,
        quarantine_faults=recovery.quarantine_faults,
        on_link_fault=recovery.on_link_fault,
        floor=scheduled.floor if scheduled is not None else 0,
        incarnation=scheduled.incarnation if scheduled is not None else "",
    )
