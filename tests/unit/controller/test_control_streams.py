"""An outbox sends the newest command, once."""

from __future__ import annotations

import asyncio

from elaunch.controller.commands import End, Stacks, Wait
from elaunch.controller.streams import KEPT, Outbox

END = End("succeeded", 0, "succeeded", "every rank ended with 0")


async def soon(outbox: Outbox) -> object:
    return await asyncio.wait_for(outbox.next(), 5)


def test_only_the_newest_command_is_sent() -> None:
    async def run() -> None:
        outbox = Outbox("n0")
        outbox.offer(Wait("a"))
        outbox.offer(Wait("b"))
        assert await soon(outbox) == Wait("b")
        outbox.offer(Wait("b"))
        following = asyncio.create_task(outbox.next())
        await asyncio.sleep(0)
        assert not following.done()
        outbox.offer(Wait("c"))
        assert await asyncio.wait_for(following, 5) == Wait("c")

    asyncio.run(run())


def test_a_closed_outbox_ends_with_its_first_reason() -> None:
    async def run() -> None:
        outbox = Outbox("n0")
        waiting = asyncio.create_task(outbox.next())
        await asyncio.sleep(0)
        outbox.close("replaced")
        outbox.close("ended")
        assert await asyncio.wait_for(waiting, 5) is None
        outbox.offer(Wait("a"))
        assert await soon(outbox) is None
        assert outbox.closed == "replaced"

    asyncio.run(run())


def test_the_end_of_the_job_is_told_before_the_stream_ends() -> None:
    async def run() -> None:
        outbox = Outbox("n0")
        outbox.offer(END)
        outbox.close("this agent does not lead any more")
        assert await soon(outbox) == END
        assert await soon(outbox) is None

    asyncio.run(run())


def test_of_a_stream_that_lasts_for_months_no_request_is_remembered_for_ever() -> None:
    async def run() -> None:
        outbox = Outbox("n0")
        for number in range(3 * KEPT):
            outbox.ask(Stacks(f"op{number}", 1, ()))
            assert await soon(outbox) == Stacks(f"op{number}", 1, ())
            outbox.ask(Stacks(f"op{number}", 1, ()))
        assert len(outbox._asked) == KEPT
        outbox.close("over")
        assert await soon(outbox) is None

    asyncio.run(run())
