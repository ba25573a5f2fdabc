"""Who is asked what an operator wants: every node of the request, once, whenever its stream comes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from job_makers import make_node

from elaunch.controller import audience as audience_module
from elaunch.controller.audience import Audience
from elaunch.controller.commands import End, Signal, Start, Wait
from elaunch.controller.job import Job, NodeView
from elaunch.controller.node_status import NodeStatus, RunPhase
from elaunch.controller.planning import make_plan
from elaunch.controller.policy import Policy
from elaunch.controller.streams import Outbox
from elaunch.rendezvous.journal import Operation, Standing
from elaunch.rendezvous.records import Phase, Reason


def running(nodes: int) -> Job:
    """A job whose first generation runs on so many nodes, and an operator's open signal to all of them."""
    views = {f"n{n}": NodeView(make_node(n), NodeStatus(f"n{n}", 1, RunPhase.RUNNING)) for n in range(nodes)}
    job = Job(Policy(1, nodes, 0), nodes=views)
    plan = make_plan(job, [view.node for view in views.values()], Reason("start", "it starts"))
    asked = Operation(
        "op1", "signal", "ada@login1", 1.0, arguments={"signal": 10}, standing=Standing.ACCEPTED, nodes=tuple(views)
    )
    job = replace(job, phase=Phase.RUNNING, generation=1, plan=plan, operations=(asked,))
    return replace(job, answer_by={"op1": 10.0})


def sent(outbox: Outbox) -> list[type]:
    """The kinds of all that is on its way to the node."""
    outbox.offer(Start(9, 0, 0, 1, 0, 2, 0, 2, "127.0.0.1", 1, False, "a last one"))

    async def drain() -> list[type]:
        found: list[type] = []
        while not outbox.closed:
            command = await outbox.next()
            found.append(type(command))
            if not outbox._requests and outbox._command == outbox._sent:
                outbox.close("drained")
        return found

    return [kind for kind in asyncio.run(drain()) if kind is Signal]


def test_every_node_is_asked_once_also_one_whose_stream_comes_late() -> None:
    job, audience = running(3), Audience(0.0, lambda _: True)
    first, second = audience.attach("n0"), audience.attach("n1")
    for _ in range(3):
        audience.tell(job, 0.0)
    late = audience.attach("n2")
    audience.welcome(late, job, job.nodes["n2"])
    audience.tell(job, 0.0)
    assert [sent(outbox) for outbox in (first, second, late)] == [[Signal]] * 3


def test_nobody_is_asked_before_it_is_written_that_it_is_wanted() -> None:
    stands = False
    job, audience = running(1), Audience(0.0, lambda _: stands)
    outbox = audience.attach("n0")
    audience.welcome(outbox, job, job.nodes["n0"])
    audience.tell(job, 0.0)
    assert not outbox._requests
    stands = True
    audience.tell(job, 0.0)
    assert sent(outbox) == [Signal]


def test_an_open_request_is_not_looked_at_for_every_node_at_every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand nodes that answer would be a million looks otherwise, each along a thousand nodes."""
    looks = 0

    def counted(job: Job, operation: Operation, node_id: str) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(audience_module, "request_for", counted)
    nodes = 100
    job, audience = running(nodes), Audience(0.0, lambda _: True)
    for number in range(nodes):
        audience.attach(f"n{number}")
    for number in range(nodes):
        audience.heard(f"n{number}", 0.0)
        audience.tell(job, 0.0)
    assert looks == nodes


def test_of_a_crowd_that_joins_each_hears_what_is_waited_for_when_it_is_told_anew() -> None:
    """Whoever is to hear something else hears it at once, as does everybody in a small job."""
    size = round(2 * audience_module.TOLD)
    views = {f"n{n}": NodeView(make_node(n), NodeStatus(f"n{n}")) for n in range(size)}
    job, audience = Job(Policy(size + 1, size + 1, 0), nodes=views, ready=size), Audience(0.0, lambda _: True)
    streams = [audience.attach(f"n{n}") for n in range(size)]
    audience.tell(job, 0.0)
    told = [outbox._command for outbox in streams]
    assert all(isinstance(command, Wait) for command in told)
    late = [audience.attach(f"n{n}") for n in range(2)]
    audience.heard("n0", 0.1)
    audience.heard("n1", 0.1)
    leaving = NodeView(make_node(1), NodeStatus("n1", leaving=True))
    job = job.with_node(leaving)
    audience.tell(job, 0.1)
    assert late[0]._command is None
    assert isinstance(late[1]._command, End)
    audience.tell(job, audience.retell)
    assert isinstance(late[0]._command, Wait)

    small = Audience(0.0, lambda _: True)
    small.tell(job, 0.0)
    alone = small.attach("n0")
    small.heard("n0", 0.1)
    small.tell(job, 0.1)
    assert isinstance(alone._command, Wait)
