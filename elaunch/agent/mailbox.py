"""What this node's ranks tell of checkpoints and of their starts: read from their pages, put on the status board.

A status tells all that its leader has not answered yet. So a leader that comes new is asked again, under the same
number, and nothing is lost with a stream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from elaunch.agent.progress import Pages
from elaunch.agent.sight import Sight
from elaunch.agent.starts import Starts
from elaunch.agent.status import StatusBoard
from elaunch.report_page import ReportPage
from elaunch.reports import MOST_LINES, Ask, Line, Receipts

LOOK = 0.05  # seconds between two looks at the pages: four words of each
IDLE = 0.5  # seconds, while there are none
BURST = 16  # lines that one rank may tell at once,
REFILL = 2.0  # and the seconds after which it may tell one more


@dataclass(slots=True)
class _Box:
    """One rank's part: the number of its last request that was seen, and how many lines it may still tell."""

    asked: int = 0
    left: float = BURST
    at: float = 0.0
    dropped: int = 0

    def may_tell(self, now: float) -> bool:
        """Whether one more line of this rank is taken: what ranks write must not flood a job's history."""
        self.left = min(BURST, self.left + (now - self.at) / REFILL) if self.at else BURST
        self.at = now
        if self.left < 1:
            self.dropped += 1
            return False
        self.left -= 1
        return True


class Mailbox:
    """Carries reports up, and receipts down."""

    def __init__(self, pages: Pages, board: StatusBoard, clock: Callable[[], float] = time.monotonic) -> None:
        self._pages = pages
        self._board = board
        self._clock = clock
        self._boxes: dict[int, _Box] = {}
        self._generation = 0
        self._number = 0
        self._asks: dict[tuple[int, int], Ask] = {}
        self._lines: list[Line] = []
        self._starts = Starts()
        self._log = structlog.get_logger()
        pages.before_close = self.look

    async def run(self) -> None:
        """Look at the pages until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK if self._pages.sights else IDLE)

    def look(self) -> None:
        """Take what ranks have written since the last look."""
        if self._generation != self._pages.generation:
            self._generation, self._boxes = self._pages.generation, {}
            self._starts.begin(self._generation)
        self._starts.look(self._pages.sights.values())
        for sight in self._pages.sights.values():
            box = self._boxes.setdefault(sight.rank, _Box())
            reports = sight.page.reports
            if reports.asked != box.asked:
                box.asked = reports.asked
                self._take_ask(sight, box.asked)
            self._take_lines(sight.rank, box, reports)
        self._tell()

    def note(self, kind: str, rank: int, text: str) -> None:
        """Something that the node itself tells, of a rank or (-1) of none."""
        self._number += 1
        line = Line(self._number, self._generation, rank, kind, text)
        self._lines = [*self._lines, line][-MOST_LINES:]
        self._log.info(kind, rank=rank, text=text)
        self._tell()

    def ended(self, rank: int) -> None:
        """A rank has ended: take what it has written last."""
        self.look()
        self._starts.ended(rank)
        self._tell()

    def take(self, receipts: Receipts) -> None:
        """The leader's answer."""
        self._lines = [line for line in self._lines if line.number > receipts.heard]
        pages = {sight.rank: sight.page.reports for sight in self._pages.sights.values()}
        for reply in receipts.replies:
            ask = self._asks.get((reply.generation, reply.rank))
            if ask is None or ask.number != reply.number:
                continue  # answered before, or replaced by a newer one
            del self._asks[reply.generation, reply.rank]
            if reply.generation == self._pages.generation and reply.rank in pages:
                pages[reply.rank].answer(reply.number, reply.accepted, reply.text)
            if not reply.accepted:
                self._log.warning("checkpoint_refused", step=ask.commit.step, rank=ask.rank, reason=reply.text)
        self._tell()

    def _take_ask(self, sight: Sight, number: int) -> None:
        try:
            commit = sight.page.reports.commit(number)
        except ValueError as error:
            self._log.warning("malformed_report", rank=sight.rank, reason=str(error))
            sight.page.reports.answer(number, False, f"what this rank has written cannot be read: {error}")
            return
        self._asks[self._generation, sight.rank] = Ask(self._generation, sight.rank, number, commit)

    def _take_lines(self, rank: int, box: _Box, reports: ReportPage) -> None:
        for kind, step, text in reports.take():
            if not box.may_tell(self._clock()):
                continue
            if box.dropped:
                text, box.dropped = f"{text} ({box.dropped} more before it were not told)", 0
            try:
                line = Line(self._number + 1, self._generation, rank, kind, text, step)
            except ValueError as error:
                self._log.warning("malformed_report", rank=rank, reason=str(error))
                continue
            self._number = line.number
            self._lines = [*self._lines, line][-MOST_LINES:]
            self._log.debug(kind, rank=rank, step=step, text=text)

    def _tell(self) -> None:
        self._board.update(
            asks=tuple(self._asks.values()), lines=tuple(self._lines), starts=self._starts.told(self._clock())
        )
