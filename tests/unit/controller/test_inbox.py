"""What waits for a leader: in order, bounded by the number of nodes however much they say."""

from __future__ import annotations

import asyncio

from elaunch.controller.inbox import Inbox
from elaunch.controller.job_events import NodeLost, OperatorCommand, StatusReceived, Tick
from elaunch.controller.node_status import NodeStatus
from elaunch.rendezvous.journal import Operation


def _status(node: str, port: int) -> StatusReceived:
    return StatusReceived(NodeStatus(node, store_port=port))


def _command(number: int) -> OperatorCommand:
    return OperatorCommand(Operation(f"op{number}", "abort", "ada@login1", 0.0))


def test_a_node_that_floods_takes_the_place_of_one_status_and_its_last_one_counts() -> None:
    inbox = Inbox()
    for number in range(10_000):
        inbox.put(_status("n1", number))
        inbox.put(_status("n2", -number))
    assert len(inbox) == 2
    assert inbox.take(1) == [_status("n1", 9_999), _status("n2", -9_999)]
    inbox.put(_status("n1", 1))
    assert inbox.take(1) == [_status("n1", 1)]


def test_what_came_first_is_looked_at_first() -> None:
    inbox = Inbox()
    events = [_command(0), Tick(), _status("n1", 1), NodeLost("n1"), _command(1)]
    for event in events:
        inbox.put(event)
    assert inbox.take(5) == events


def test_after_so_many_commands_the_rest_waits_and_is_still_news() -> None:
    async def test() -> None:
        inbox = Inbox()
        for number in range(5):
            inbox.put(_command(number))
        inbox.put(Tick())
        assert inbox.take(2) == [_command(0), _command(1)]
        await asyncio.wait_for(inbox.news(), 1)
        assert inbox.take(9) == [_command(2), _command(3), _command(4), Tick()]
        waiting = asyncio.ensure_future(inbox.news())
        await asyncio.sleep(0)
        assert not waiting.done()
        inbox.put(Tick())
        await asyncio.wait_for(waiting, 1)

    asyncio.run(test())
