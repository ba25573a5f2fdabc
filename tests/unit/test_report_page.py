"""What a rank asks and tells of checkpoints, through its page: numbered, bounded, and harmless to its reader."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.progress_page import PAGE, SIZE, Page
from elaunch.report_page import SLOTS
from elaunch.reports import MOST_PATH, Commit, Line
from elaunch.worker import claim, ledger

COMMITS = st.builds(
    Commit,
    step=st.integers(0, 2**62 - 1),
    path=st.text(st.characters(codec="utf-8"), min_size=1, max_size=MOST_PATH // 4),
    digest=st.text("0123456789abcdef", min_size=1, max_size=128),
    bytes=st.integers(0, 2**62 - 1),
    seconds=st.floats(0, 1e9),
)
COMMIT = Commit(60, "runs/a/step-60", "ab12", 1 << 30, 4.5)


@pytest.fixture
def fd() -> Iterator[int]:
    made = os.memfd_create("test")
    yield made
    os.close(made)


@pytest.fixture
def agent(fd: int) -> Iterator[Page]:
    """The agent's end; the page is this process's own, as if it were a rank."""
    page = Page.make(fd)
    yield page
    page.close()


@pytest.fixture
def rank(agent: Page, fd: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """The rank's end, which the functions of the ledger find."""
    page = Page(fd)
    monkeypatch.setattr(claim, "_tried", True)
    monkeypatch.setattr(claim, "_page", page)
    yield page
    page.close()


@settings(deadline=None)
@given(commits=st.lists(COMMITS, min_size=1, max_size=3))
def test_a_commit_comes_through_and_its_answer_back(commits: list[Commit]) -> None:
    fd = os.memfd_create("test")
    agent, rank = Page.make(fd), Page(fd)
    for number, commit in enumerate(commits, 1):
        assert rank.reports.ask(commit) == number == agent.reports.asked
        assert agent.reports.commit(number) == commit
        assert rank.reports.answer_to(number) is None
        agent.reports.answer(number, number % 2 == 0, "why")
        assert rank.reports.answer_to(number) == (number % 2 == 0, "why")
    for page in (agent, rank):
        page.close()
    os.close(fd)


def test_lines_wait_for_their_reader_in_a_ring(agent: Page, rank: Page) -> None:
    """The rank may be gone by the time that they are read."""
    for _ in range(3):
        assert [rank.reports.tell("checkpoint_x", n, f"line {n}") for n in range(SLOTS + 2)].count(False) == 2
        assert agent.reports.take() == [("checkpoint_x", n, f"line {n}") for n in range(SLOTS)]
        assert agent.reports.take() == []


@pytest.mark.parametrize("seed", range(20))
def test_garbage_harms_nobody(agent: Page, fd: int, seed: int) -> None:
    source = random.Random(seed)
    os.pwrite(fd, source.randbytes(256 - 8), 8)
    os.pwrite(fd, source.randbytes(SIZE - (1 << 10)), 1 << 10)
    assert agent.reports.take() == []
    with pytest.raises(ValueError):  # noqa: PT011 - whatever of it is wrong
        agent.reports.commit(agent.reports.asked)
    assert agent.reports.answer_to(agent.reports.asked) is None


def test_a_request_that_is_not_the_one_that_was_announced_is_none(agent: Page, rank: Page) -> None:
    rank.reports.ask(COMMIT)
    with pytest.raises(ValueError, match="request 2 is not"):
        agent.reports.commit(2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": -1},
        {"step": 2**62},
        {"bytes": -1},
        {"seconds": float("nan")},
        {"path": ""},
        {"path": "x" * 3001},
        {"digest": ""},
        {"digest": "AB"},
        {"digest": "a" * 129},
    ],
)
def test_no_such_commit_can_be_made(wrong: dict[str, object]) -> None:
    values = {"step": 1, "path": "p", "digest": "a", "bytes": 1, "seconds": 1.0}
    with pytest.raises(ValueError, match=r"checkpoint|digest"):
        Commit(**{**values, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["job_failed", "checkpoint_", "checkpoint_" + "x" * 60, "checkpoint_x\n", ""])
def test_a_rank_tells_of_checkpoints_and_of_nothing_else(kind: str) -> None:
    with pytest.raises(ValueError, match="is no kind of event"):
        Line(1, 1, 0, kind, "text")


def test_a_rank_waits_for_its_answer(agent: Page, rank: Page) -> None:
    def answer() -> None:
        while agent.reports.asked == 0:
            time.sleep(0.001)
        agent.reports.answer(1, True, "")

    thread = threading.Thread(target=answer)
    thread.start()
    verdict = ledger.commit(COMMIT, 20.0)
    thread.join()
    assert (verdict.accepted, verdict.refused, verdict.reason) == (True, False, "")


def test_without_an_answer_nothing_is_known_and_a_late_one_is_not_taken_for_the_next(agent: Page, rank: Page) -> None:
    verdict = ledger.commit(COMMIT, 0.05)
    assert (verdict.ruling, verdict.accepted, verdict.refused) == (ledger.Ruling.UNKNOWN, False, False)
    agent.reports.answer(1, False, "too late")
    assert ledger.commit(COMMIT, 0.05).ruling is ledger.Ruling.UNKNOWN
    assert agent.reports.commit(2) == COMMIT


def test_what_is_told_stands_in_the_page(agent: Page, rank: Page) -> None:
    ledger.restoring(40, "runs/a/step-40")
    ledger.restored(-1, "")
    ledger.missing(5, "there is none")
    ledger.tell("checkpoint_save_failed", "é" * 400)
    lines = agent.reports.take()
    assert [(kind, step) for kind, step, _ in lines] == [
        ("checkpoint_restoring", 40),
        ("checkpoint_restored", -1),
        ("checkpoint_missing", 5),
        ("checkpoint_save_failed", -1),
    ]
    assert lines[-1][2] == "é" * 200
    with pytest.raises(ValueError, match="is no kind of event"):
        ledger.tell("job_failed", "it has")


def test_outside_of_elaunch_nothing_happens_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "_tried", False)
    monkeypatch.setattr(claim, "_page", None)
    monkeypatch.delenv(PAGE, raising=False)
    before = time.monotonic()
    assert ledger.commit(COMMIT, 600.0).ruling is ledger.Ruling.UNKNOWN
    ledger.restored(40, "runs/a/step-40")
    ledger.tell("checkpoint_save_failed", "no space")
    assert time.monotonic() - before < 60
    assert ledger.identity({}) is None
    assert ledger.identity({"RANK": "0", "TORCHELASTIC_RUN_ID": "x"}) is None
    assert ledger.restore_point({}) == ledger.RestorePoint()


def test_what_the_plan_says_is_read_from_the_environment() -> None:
    environ = {
        "ELAUNCH_JOB": "a",
        "ELAUNCH_GENERATION": "7",
        "ELAUNCH_INCARNATION": "f00",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "RANK": "3",
        "ELAUNCH_FROM_STEP": "40",
        "ELAUNCH_AVOID_STEPS": "60,x,80",
        "ELAUNCH_RECORDED_STEP": "50",
        "ELAUNCH_REWINDS": "7:40,bad,9:",
    }
    assert ledger.identity(environ) == ledger.Identity("a", 7, 2, 3, "f00")
    assert ledger.restore_point(environ) == ledger.RestorePoint(40, (60, 80), 50, ((7, 40),))


def test_reports_leave_the_rest_of_the_page_alone(agent: Page, rank: Page) -> None:
    own = [n for n in range(16) if n]
    before = [agent.cells[n] for n in own]
    agent.reports.answer(rank.reports.ask(COMMIT), True, "")
    rank.reports.tell("checkpoint_x", 1, "text")
    agent.reports.take()
    assert [agent.cells[n] for n in own] == before
    assert (agent.beat(), agent.sections(), agent.notice()) == (None, (), None)
