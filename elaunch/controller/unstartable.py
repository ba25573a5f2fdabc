"""Nodes that could not start their ranks: why, and whether the job can go on without them."""

from __future__ import annotations

from elaunch.controller.job import Job, NodeView
from elaunch.controller.roster import fewest
from elaunch.controller.transitions import abort, end
from elaunch.errors import NoRouteError, StartError
from elaunch.rendezvous.records import Phase, Reason

NO_ROUTE = NoRouteError.code


def why(view: NodeView) -> Reason:
    """What the node said."""
    status = view.status
    assert status is not None
    return Reason(status.start_code or StartError.code, f"{view.node.host}: {status.start_error}")


def exit_code(view: NodeView) -> int:
    return (view.status.start_exit_code if view.status else 0) or StartError.exit_code


def could_not_start(job: Job, view: NodeView, now: float) -> Job:
    """The generation ends without a charge, and the next is without this node.

    For a node that failed otherwise others are waited for, as for one that was lost. One without a way to the others is
    nothing that a wait mends: with too few left, the job ends, and all nodes say why.
    """
    reason = why(view)
    if reason.code == NO_ROUTE and too_few(job):
        return end(job, now, Phase.FAILED, reason, exit_code(view))
    return abort(job, now, reason)


def too_few(job: Job) -> bool:
    """Whether fewer nodes are left than the job goes on with, those counted that have yet to be heard."""
    unheard = [view for view in job.nodes.values() if view.status is None and not view.barred]
    return job.ready + len(unheard) < fewest(job)


def unstartable(job: Job) -> NodeView | None:
    """The first node that could not start."""
    return next((view for view in job.nodes.values() if view.status and view.status.start_error), None)
