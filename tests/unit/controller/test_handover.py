"""What of a job's pace the next leader hears, and how seldom that has to be written."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_makers import Driver, running

from elaunch.controller.deadlines import Deadlines
from elaunch.controller.handover import CHANGE, SECTIONS_TOLD, handed_on, worth_telling
from elaunch.controller.patience import Patience, in_section, ordinary, starting
from elaunch.controller.vigil import Vigil
from elaunch.progress import Heartbeat, RankProgress
from elaunch.rendezvous.memory import Learnt
from elaunch.rendezvous.records import Phase, decode, encode
from elaunch.rendezvous.state import State

SECONDS = st.floats(0, 1e5)
PACES = st.builds(
    Learnt, SECONDS, SECONDS, SECONDS, SECONDS, st.dictionaries(st.sampled_from(["save", "load"]), SECONDS)
)
PATIENCE = Patience()


@given(PACES, PACES)
def test_a_leader_that_was_not_told_waits_for_about_as_long(told: Learnt, found: Learnt) -> None:
    found = handed_on(found, PATIENCE)
    if worth_telling(told, found, PATIENCE):
        return
    hang = [ordinary(known, PATIENCE.floor) for known in (told, found)]
    start = [starting(known, PATIENCE.floor) for known in (told, found)]
    sections = [
        [in_section(known.sections.get(name, 0.0), h) for known, h in zip((told, found), hang, strict=True)]
        for name in found.sections
    ]
    for pair in (hang, start, *sections):
        assert max(pair) < CHANGE * min(pair)


@given(st.lists(st.floats(0.1, 1e5), max_size=200))
def test_pauses_that_grow_are_written_a_few_times(pauses: list[float]) -> None:
    told, longest, written = Learnt(), 0.0, 0
    for pause in pauses:
        longest = max(longest, pause)
        found = replace(told, longest=longest)
        if worth_telling(told, found, PATIENCE):
            told, written = found, written + 1
    assert written <= 20  # 1.5 ** 20 floors are more than 1.5e5 s


def test_of_the_sections_those_are_handed_on_that_tell_something() -> None:
    sections = {f"step {n}": 1.0 for n in range(200)} | {f"save {n}": 500.0 + n for n in range(40)}
    kept = handed_on(Learnt(sections=sections | {"x" * 1000: 1e4}), PATIENCE).sections
    assert len(kept) == SECTIONS_TOLD
    assert max(kept) == "save 9"
    assert min(kept.values()) == 508.0


def test_it_stands_in_the_state() -> None:
    state = replace(running(1, 2).job, learnt=Learnt(1.0, 90.0, 80.0, 70.0, {"save": 500.0}, 3)).state
    assert decode(State, encode(state)) == state
    older = json.loads(encode(state))
    del older["learnt"]
    assert decode(State, json.dumps(older).encode()).learnt == Learnt()


@pytest.mark.parametrize("learnt", [{"step": "x"}, {"step": -1}, {"first": float("nan")}, {"sections": {"a": None}}])
def test_what_are_no_seconds_is_no_state(learnt: dict[str, object]) -> None:
    data = json.loads(encode(running(1, 2).job.state))
    with pytest.raises(ValueError, match="not a State"):
        decode(State, json.dumps(data | {"learnt": learnt}).encode())


def beat(step: int, idle: float = 0.0) -> Heartbeat:
    rank = RankProgress(0, 0, 40, "S", attached=True, step=step, step_age=idle, where_age=idle, progress_age=idle)
    return Heartbeat("n0", 1, 0.25, (rank,))


def led(driver: Driver) -> Vigil:
    vigil = Vigil(driver.policy, driver.now)
    vigil.recall(driver.job.learnt)
    vigil.follow(driver.job, driver.now)
    return vigil


def test_the_next_leader_is_as_patient_as_the_last_was() -> None:
    driver = running(1, 1, hang_floor=10.0)
    vigil, written = led(driver), []
    for step in range(200):
        driver.now += 20.0 if step in (50, 100) else 1.0
        vigil.hear(beat(step), driver.now)
        learnt = vigil.handed_on(driver.job.learnt)
        written += [learnt] if learnt != driver.job.learnt else []
        driver.job = replace(driver.job, learnt=learnt)
    assert len(written) <= 4
    assert (driver.job.learnt.going, driver.job.learnt.longest) == (1, 20.0)
    driver.another_leads()
    assert driver.job.learnt == written[-1]
    for seconds, hangs in ((59.0, False), (61.0, True)):  # 3 times the pause of 20 s, and not the 100 s of a start
        successor = led(driver)
        successor.hear(beat(199, seconds), driver.now)
        found = successor.judge(driver.now)
        assert found is not None
        assert (found.hang is not None) is hangs
    driver.job = replace(driver.job, generation=2)
    assert led(driver).generation == 2
    fresh = Deadlines(Patience(floor=10.0), driver.job.learnt)
    fresh.begin(2)
    assert not fresh.warm, "a start has the patience of a start"


def test_another_run_of_the_job_learns_anew() -> None:
    driver = running(1, 1)
    state = replace(driver.job.state, learnt=Learnt(1.0, 90.0, 80.0))
    driver.lose(0)
    assert driver.another_leads(state).learnt == state.learnt, "it only lost its nodes"
    assert driver.another_leads(replace(state, phase=Phase.SUCCEEDED)).learnt == Learnt()
