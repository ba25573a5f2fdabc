"""What ranks tell of checkpoints on its way to the leader: asked until it is answered, and never in floods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elaunch.agent.mailbox import BURST, REFILL, Mailbox
from elaunch.agent.progress import Pages
from elaunch.agent.starts import PACE
from elaunch.agent.status import StatusBoard
from elaunch.report_page import SLOTS
from elaunch.reports import MOST_LINES, Ask, Commit, Receipts, Reply
from elaunch.start_record import CHECKED, IMPORTING, TRANSPORT, StartRecord

COMMIT = Commit(60, "runs/a/step-60", "ab12", 1 << 30, 4.5)


class Node:
    """A node's pages and mailbox, with a clock that a test moves."""

    def __init__(self, ranks: int = 2) -> None:
        self.now = 100.0
        self.board = StatusBoard()
        self.pages = Pages()
        self.mailbox = Mailbox(self.pages, self.board, lambda: self.now)
        self.start(1, ranks)

    def start(self, generation: int, ranks: int = 2, rank0: int = 4) -> None:
        self.pages.open(rank0, ranks, generation)

    def ask(self, local_rank: int = 0, commit: Commit = COMMIT) -> int:
        return self.pages.sights[local_rank].page.reports.ask(commit)

    def tell(self, text: str, local_rank: int = 0) -> bool:
        return self.pages.sights[local_rank].page.reports.tell("checkpoint_x", -1, text)

    def answer(self, number: int, local_rank: int = 0) -> tuple[bool, str] | None:
        return self.pages.sights[local_rank].page.reports.answer_to(number)

    @property
    def told(self) -> list[str]:
        return [line.text for line in self.board.now.lines]


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.pages.close()


def test_a_commit_is_asked_for_until_it_is_answered(node: Node) -> None:
    number = node.ask()
    node.mailbox.look()
    asked = Ask(1, 4, number, COMMIT)
    assert node.board.now.asks == (asked,)
    node.board.update(node_id="another")  # the node joined again
    node.mailbox.look()
    assert node.board.now.asks == (asked,)
    node.mailbox.take(Receipts(0, (Reply(1, 4, number + 1, True), Reply(2, 4, number, True), Reply(1, 5, 1, True))))
    assert node.board.now.asks == (asked,), "those were no answers to it"
    assert node.answer(number) is None
    node.mailbox.take(Receipts(0, (Reply(1, 4, number, False, "too low"),)))
    assert node.board.now.asks == ()
    assert node.answer(number) == (False, "too low")


def test_a_newer_commit_of_a_rank_replaces_the_one_before(node: Node) -> None:
    node.ask()
    node.mailbox.look()
    number = node.ask(commit=Commit(80, "p", "cd"))
    other = node.ask(1)
    node.mailbox.look()
    assert [(ask.rank, ask.number, ask.commit.step) for ask in node.board.now.asks] == [(4, number, 80), (5, other, 60)]
    node.mailbox.take(Receipts(0, (Reply(1, 4, 1, True),)))
    assert node.answer(1) is None


def test_what_a_rank_wrote_last_is_read_before_its_page_goes(node: Node) -> None:
    number = node.ask()
    node.tell("the last words")
    node.start(2)
    assert node.told == ["the last words"]
    assert [(ask.generation, ask.number) for ask in node.board.now.asks] == [(1, number)]
    assert node.ask() == 1, "the next generation begins anew"
    node.mailbox.look()
    assert [(ask.generation, ask.number) for ask in node.board.now.asks] == [(1, 1), (2, 1)]
    node.mailbox.take(Receipts(0, (Reply(1, 4, 1, False, "over"),)))
    assert node.answer(1) is None, "this was not for the rank that is there now"


def test_what_is_malformed_is_refused_at_once(node: Node) -> None:
    page = node.pages.sights[0].page
    number = node.ask()
    page._view[64 << 10 : (64 << 10) + 8192] = b"\xff" * 8192
    page.reports.tell("job_failed", -1, "it was not")
    page.reports.tell("checkpoint_x", -7, "no step")
    node.mailbox.look()
    assert node.board.now.asks == ()
    assert node.told == []
    refused = node.answer(number)
    assert refused is not None
    assert (refused[0], refused[1][:43]) == (False, "what this rank has written cannot be read: ")


def test_lines_stay_until_they_are_noted(node: Node) -> None:
    for text in ("one", "two", "three"):
        node.tell(text)
    node.mailbox.look()
    assert [line.number for line in node.board.now.lines] == [1, 2, 3]
    node.mailbox.take(Receipts(2))
    assert node.told == ["three"]
    node.mailbox.take(Receipts(0))
    assert node.told == ["three"]


def test_a_rank_that_tells_too_much_is_cut_short(node: Node) -> None:
    for n in range(10 * SLOTS):
        node.tell(str(n))
        node.mailbox.look()
    assert node.told == [str(n) for n in range(BURST)]
    node.now += REFILL
    node.tell("later")
    node.mailbox.look()
    assert node.told[-1] == f"later ({10 * SLOTS - BURST} more before it were not told)"


def test_a_leader_that_notes_nothing_is_not_sent_ever_more(node: Node) -> None:
    for n in range(2 * MOST_LINES):
        node.tell(str(n))
        node.mailbox.look()
        node.now += REFILL
    assert node.told == [str(n) for n in range(MOST_LINES, 2 * MOST_LINES)]


def test_the_starts_of_ranks_are_told_a_few_times_a_second_and_a_fault_at_once(node: Node) -> None:
    first, second = (node.pages.sights[n].page for n in (0, 1))
    first.write_start(StartRecord(rank=99, phase=IMPORTING))
    node.mailbox.look()
    assert node.board.now.starts == (StartRecord(rank=4, generation=1),)  # who it is its agent knows better
    first.write_start(StartRecord(phase=TRANSPORT))
    node.mailbox.look()
    assert node.board.now.starts[0].phase == IMPORTING
    node.now += PACE
    node.mailbox.look()
    assert node.board.now.starts[0].phase == TRANSPORT
    second.write_start(StartRecord(fault="they differ"))
    node.mailbox.look()
    assert [start.fault for start in node.board.now.starts] == ["", "they differ"]
    first.write_start(StartRecord(phase=CHECKED))
    node.mailbox.ended(4)
    assert node.board.now.starts[0].phase == CHECKED
    node.start(2)
    node.mailbox.look()
    assert node.board.now.starts == ()


def test_a_start_that_cannot_be_read_is_passed_over(node: Node) -> None:
    page = node.pages.sights[0].page
    page._start.write(b'{"rank":[]}')
    page.starts = 5
    node.mailbox.look()
    assert node.board.now.starts == ()
