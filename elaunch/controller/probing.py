"""Probes of the interfaces between a job's nodes: when one begins, when it is over, and what follows. Values only.

Before the first generation one is made where a node has several interfaces, and holds the start up for ``BOUND``
seconds at most, however often the nodes change meanwhile. Operators ask for more (``elaunch doctor --job``).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from elaunch.controller.job import Job, NodeView, Probing
from elaunch.rendezvous.journal import Operation
from elaunch.rendezvous.plan import DeadPort
from elaunch.rendezvous.records import Node
from elaunch.topology.probe.facts import Finding, NodeFacts, Report, several_ways

BOUND = 3.0  # seconds from the wish to probe to the start, at most
OPERATOR_BOUND = 6.0  # where an operator waits, and nobody else
MARGIN = 0.5  # seconds of these for the way to the nodes and back
MOST_FINDINGS = 200
OFF = "off"


def holds(job: Job, now: float) -> bool:
    """Whether the start waits for a probe that is under way, whoever comes meanwhile."""
    return any(_of_start(probing) and probing.silent and now < probing.until for probing in job.probing)


def held(job: Job, chosen: Sequence[Node], now: float) -> tuple[Job, bool]:
    """The job with the probe of the nodes ``chosen`` for the first generation, and whether the start waits for it."""
    if job.formed or job.policy.probe == OFF or len(chosen) < 2:
        return job, False
    facts = facts_of(job.nodes[node.node_id] for node in sorted(chosen, key=lambda node: (node.host, node.node_id)))
    if not several_ways(facts):
        return job, False
    identity = _identity(facts)
    by = now + BOUND if job.probe_by is None else job.probe_by
    begun = under_way(job, identity)
    if job.probed == identity or now >= by or (begun is not None and not begun.silent):
        return _over(job, identity), False
    if begun is None:
        others = tuple(probing for probing in job.probing if not _of_start(probing))
        job = replace(job, probing=(*others, _begun(job, identity, facts, by)), probe_by=by)
    return job, True


def heard(job: Job, node_id: str) -> Job:
    """``job`` after news of a node: it has reported, or is gone."""
    after = tuple(_without(job, probing, node_id) for probing in job.probing)
    return replace(job, probing=after) if after != job.probing else job


def begin(job: Job, operation: Operation, now: float) -> Job:
    """The job with the probe that an operator asks for under way."""
    views = sorted(job.nodes.values(), key=lambda view: (view.node.host, view.node.node_id))
    probing = _begun(job, operation.id, facts_of(views), now + OPERATOR_BOUND)
    return replace(job, probing=(*job.probing, probing))


def concluded(job: Job, probing: Probing, now: float) -> tuple[Job, tuple[Finding, ...]] | None:
    """The job after the probe, and its findings; None while it goes on."""
    if now < probing.until and probing.silent:
        return None
    return _conclude(job, probing)


def under_way(job: Job, identity: str) -> Probing | None:
    return next((probing for probing in job.probing if probing.id == identity), None)


def facts_of(views: Iterable[NodeView]) -> tuple[NodeFacts, ...]:
    """What those nodes say that can be probed."""
    told = ((view.node, view.status) for view in views)
    return tuple(
        NodeFacts(node.node_id, node.host, status.interfaces, node.topology)
        for node, status in told
        if status is not None and status.interfaces
    )


def secret_of(job: Job, probing: Probing) -> bytes:
    """The secret of the probe's datagrams, which any leader of this job would find again."""
    return hashlib.sha256(f"probe {job.incarnation} {probing.id}".encode()).digest()


def documents(found: Sequence[Finding]) -> dict[str, str]:
    """The findings as the answers of nodes, each as JSON with that of the first that it is about."""
    by_node: dict[str, list[dict[str, object]]] = {}
    for finding in found:
        by_node.setdefault(finding.nodes[0] if finding.nodes else "", []).append(dataclasses.asdict(finding))
    return {node_id: json.dumps(of) for node_id, of in by_node.items()}


_START = "start-"


def _identity(facts: Sequence[NodeFacts]) -> str:
    """The same for the same nodes, so that what they have told one leader the next need not ask for."""
    return _START + hashlib.sha256("\n".join(sorted(node.node_id for node in facts)).encode()).hexdigest()[:12]


def _begun(job: Job, identity: str, facts: tuple[NodeFacts, ...], until: float) -> Probing:
    probing = Probing(identity, facts, until, frozenset(node.node_id for node in facts))
    known = frozenset(node_id for node_id in probing.silent if _report(job, probing, node_id))
    return replace(probing, silent=probing.silent - known)


def _without(job: Job, probing: Probing, node_id: str) -> Probing:
    if node_id not in probing.silent or (node_id in job.nodes and not _report(job, probing, node_id)):
        return probing
    return replace(probing, silent=probing.silent - {node_id})


def _report(job: Job, probing: Probing, node_id: str) -> Report | None:
    view = job.nodes.get(node_id)
    report = view.status.probe if view and view.status else None
    return report if report is not None and report.id == probing.id else None


def questions(job: Job, probing: Probing) -> int:
    """How many ways from an interface to another host's were tried, as far as nodes have reported."""
    told = (_report(job, probing, node.node_id) for node in probing.nodes)
    return sum(len(report.rows) for report in told if report is not None)


def _of_start(probing: Probing) -> bool:
    return probing.id.startswith(_START)


def _over(job: Job, identity: str) -> Job:
    """The start goes on, with what is known by now."""
    for begun in filter(_of_start, job.probing):
        job, _ = _conclude(job, begun)
    return replace(job, probed=identity)


def _conclude(job: Job, probing: Probing) -> tuple[Job, tuple[Finding, ...]]:
    from elaunch.topology.probe.findings import findings  # few leaders ever need it

    told = {node.node_id: _report(job, probing, node.node_id) for node in probing.nodes}
    here = [node for node in probing.nodes if node.node_id in job.nodes]
    verdict = findings(here, {node_id: report for node_id, report in told.items() if report is not None})
    dead = tuple(
        DeadPort(node_id, note.interface, note.text)
        for node_id, notes in sorted(verdict.unreachable.items())
        for note in notes
    )
    others = tuple(port for port in job.unreachable if port.node_id not in told)
    rest = tuple(other for other in job.probing if other is not probing)
    found = verdict.findings[:MOST_FINDINGS]
    return replace(job, probing=rest, findings=found, unreachable=(*others, *dead)), found
