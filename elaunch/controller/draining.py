"""Hosts that an operator took out of a job: which nodes leave, and which may not come in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from elaunch.controller.job import Job, NodeView
from elaunch.rendezvous.records import Node
from elaunch.rendezvous.state import Drain


def marked(view: NodeView, drained: Iterable[Drain]) -> NodeView:
    """``view`` as these drains have it."""
    for drain in drained:
        if view.node.node_id in drain.nodes:
            return replace(view, barred=drain.why, leave=drain.why)
        if view.node.host == drain.host and view.node.joined > drain.since:
            return replace(view, barred=f"{drain.why}; it takes part after `elaunch undrain {drain.host}`")
    return replace(view, barred="", leave="")


def with_drained(job: Job, drained: tuple[Drain, ...]) -> Job:
    """``job`` with these hosts out, and all others in."""
    job = replace(job, drained=drained)
    for view in job.nodes.values():
        after = marked(view, drained)
        if after != view:
            job = job.with_node(after)
    return job


def named(job: Job, name: str) -> list[Node]:
    """The nodes that an operator means: those of a host, or the one of a node id."""
    return [view.node for view in job.nodes.values() if name in (view.node.host, view.node.node_id)]


def drain_of(job: Job, name: str) -> Drain | None:
    """The drain of a host, or of the host that a node is on."""
    for drain in job.drained:
        if name == drain.host or name in drain.nodes:
            return drain
    return None
