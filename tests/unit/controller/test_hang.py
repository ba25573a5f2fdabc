"""Who is to blame for a hang, and what is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_makers import group, inside, outside, view

from elaunch.controller.blame import Hang
from elaunch.controller.hang import diagnose
from elaunch.controller.limits import Limits
from elaunch.controller.sightings import RankView, Sightings
from elaunch.controller.waits import awaited
from elaunch.progress import Heartbeat, RankProgress

LIMITS = Limits(hang=40.0, section=400.0)


def blamed(found: Hang | None) -> tuple[str, list[int]]:
    assert found is not None
    return found.code, [culprit.rank for culprit in found.culprits]


def waiting_for(*absent: RankView, size: int = 8, idle: float = 42.0) -> list[RankView]:
    """The other ranks wait in collective 118."""
    missing = {one.rank for one in absent}
    return [*absent, *(inside(rank, 118, idle) for rank in range(size) if rank not in missing)]


# --- one rank has not come ----------------------------------------------------------------------------------------


def test_the_rank_that_did_not_enter_is_named_with_host_line_and_collective() -> None:
    found = diagnose(waiting_for(outside(3, 117, 43)), LIMITS)
    assert found is not None
    assert found.text == (
        "rank 3 (gpu-03) has not entered all_reduce 118 of group default, which 7 others wait in since 42 s; "
        "it is at train.py:33 in step"
    )
    assert (found.code, found.group, found.sequence, found.waiting, found.seconds) == ("hung", "default", 118, 7, 42)
    (culprit,) = found.culprits
    assert (culprit.rank, culprit.host, culprit.node_id, culprit.where) == (3, "gpu-03", "n3", "train.py:33 in step")
    assert culprit.started == 117


@given(st.sets(st.integers(0, 7), min_size=1, max_size=7), st.randoms())
def test_all_that_are_missing_are_named_whatever_the_order(absent: set[int], random: object) -> None:
    ranks = waiting_for(*(outside(rank, 117, 50) for rank in absent))
    random.shuffle(ranks)  # type: ignore[attr-defined]
    assert blamed(diagnose(ranks, LIMITS)) == ("hung", sorted(absent))


@given(st.floats(0, 39), st.floats(0, 1000))
def test_nobody_is_blamed_before_the_deadline_of_either_side(short: float, other: float) -> None:
    assert diagnose(waiting_for(outside(3, 117, other), idle=short), LIMITS) is None
    assert diagnose(waiting_for(outside(3, 117, short), idle=other), LIMITS) is None


def test_why_a_rank_does_not_come_is_told_before_that_it_does_not() -> None:
    stopped = outside(3, 117, 43, state="T")
    assert blamed(diagnose(waiting_for(stopped), LIMITS)) == ("frozen", [3])
    silent = outside(3, 117, 43, beat_age=30.0)
    assert blamed(diagnose(waiting_for(silent), LIMITS)) == ("interpreter_stuck", [3])


def test_the_page_of_a_rank_that_beats_no_more_shows_where_it_was() -> None:
    """It took the lock for ever just when it had been seen in a collective that the others have left since."""
    left = [inside(rank, 118, 42) for rank in range(8) if rank != 3]
    seen = inside(3, 117, 43)
    stale = replace(seen, progress=replace(seen.progress, beat_age=43.0))
    assert blamed(diagnose([stale, *left], LIMITS)) == ("interpreter_stuck", [3])
    assert blamed(diagnose([seen, *left], LIMITS)) == ("hung", [3])


def test_what_a_rank_does_after_the_last_step_of_all_has_more_time() -> None:
    """Rank 1 is through; rank 0 uploads what came of it, in one long call."""
    uploading = view(0, idle=300, step=20)
    assert blamed(diagnose([uploading], LIMITS)) == ("hung", [0])
    ending = replace(LIMITS, ending=True)
    assert diagnose([uploading], ending) is None
    assert blamed(diagnose([view(0, idle=401, step=20)], ending)) == ("hung", [0])


def test_that_a_rank_has_ended_is_seen_by_its_absence() -> None:
    seen = Sightings(1)
    beat = Heartbeat("n0", 1, 0.25, (RankProgress(0, 0, 10), RankProgress(1, 1, 11)))
    seen.heard(beat, "h0", 1.0)
    seen.heard(beat, "h0", 2.0)
    assert not seen.ending
    seen.heard(replace(beat, ranks=beat.ranks[:1]), "h0", 3.0)
    assert seen.ending


def test_a_rank_of_which_nothing_is_heard_is_named_too() -> None:
    ranks = [one for one in waiting_for(outside(3, 117, 43)) if one.rank != 3]
    found = diagnose(ranks, LIMITS)
    assert blamed(found) == ("hung", [3])
    assert found is not None
    assert found.text.startswith("rank 3, of which nothing is heard, has not entered all_reduce 118")


def test_who_waits_elsewhere_for_the_culprit_is_not_blamed() -> None:
    pair = {"name": "pipe", "size": 2, "ranks": (2, 3)}
    victim = view(2, group(117, 117), group(9, 8, **pair), idle=45)
    guilty = view(3, group(117, 117), group(8, 8, **pair), idle=46)
    found = diagnose(waiting_for(victim, guilty), LIMITS)
    assert blamed(found) == ("hung", [3])


def test_a_group_of_the_same_name_and_other_ranks_is_another_group() -> None:
    ranks = [
        view(rank, group(started, 5, name="tp", size=2, ranks=pair), idle=50)
        for rank, started, pair in [(0, 5, (0, 1)), (1, 6, (0, 1)), (2, 7, (2, 3)), (3, 7, (2, 3))]
    ]
    found = diagnose(ranks, LIMITS)
    assert blamed(found) == ("hung", [0])


def test_a_rank_that_is_at_work_gets_more_time() -> None:
    at_work = {"where_age": 0.2}
    assert diagnose(waiting_for(outside(0, 117, 300, **at_work), idle=300), LIMITS) is None
    assert blamed(diagnose(waiting_for(outside(0, 117, 401, **at_work), idle=401), LIMITS)) == ("hung", [0])


def test_the_first_named_is_who_most_wait_for() -> None:
    few = {"name": "a", "size": 2, "ranks": (0, 1)}
    many = {"name": "b", "size": 4, "ranks": (2, 3, 4, 5)}
    ranks = [view(0, group(1, 1, **few), idle=60), view(1, group(2, 1, **few), idle=60)]
    ranks += [view(r, group(2, 1, **many), idle=50) for r in (2, 3, 4)] + [view(5, group(1, 1, **many), idle=50)]
    assert blamed(diagnose(ranks, LIMITS)) == ("hung", [5, 0])


def test_several_collectives_under_way_are_waited_for_in_their_order() -> None:
    """With async_op a rank may have entered 120 while 118 is not through."""
    ranks = [view(0, group(120, 117, size=3), idle=50), view(1, group(118, 117, size=3), idle=50)]
    found = diagnose([*ranks, outside(2, 117, 50, size=3)], LIMITS)
    assert blamed(found) == ("hung", [2])
    assert found is not None
    assert (found.sequence, found.waiting) == (118, 2)


def test_a_line_that_changes_inside_a_collective_is_no_work() -> None:
    ranks = [replace(one, progress=replace(one.progress, where_age=0.1)) for one in waiting_for()]
    ranks[3] = outside(3, 117, 50)
    assert blamed(diagnose(ranks, LIMITS)) == ("hung", [3])


# --- nobody is missing --------------------------------------------------------------------------------------------


def test_all_in_the_same_collective_is_nobodys_fault() -> None:
    found = diagnose(waiting_for(), LIMITS)
    assert blamed(found) == ("all_waiting", [])
    assert found is not None
    assert found.text == (
        "all 8 ranks of group default wait in all_reduce 118 of group default since 42 s and nobody is missing: "
        "the transport does not deliver; rank 0 is at train.py:30 in step"
    )


def test_a_rank_still_in_what_the_others_left_is_blamed() -> None:
    ranks = [inside(1, 118, 50, size=3), inside(0, 119, 50, size=3), inside(2, 119, 50, size=3)]
    found = diagnose(ranks, LIMITS)
    assert blamed(found) == ("hung", [1])
    assert found is not None
    assert "still in all_reduce 118 of group default since 50 s, which 2 others have left" in found.text


def test_different_collectives_under_one_number_are_a_mismatch_with_both_lines() -> None:
    ranks = [inside(r, 118, 42, size=4) for r in (0, 1, 3)]
    ranks.append(inside(2, 118, 42, size=4, collective="broadcast float32[4]"))
    found = diagnose(ranks, LIMITS)
    assert blamed(found) == ("collective_mismatch", [2, 3])
    assert found is not None
    assert found.text == (
        "rank 2 (gpu-02) is in broadcast float32[4] at train.py:32 in step, rank 3 (gpu-03) in "
        "all_reduce float32[1024] at train.py:33 in step: both are collective 118 of group default"
    )


def test_different_sizes_under_one_number_are_a_mismatch() -> None:
    ranks = [inside(0, 5, 42, size=2), inside(1, 5, 42, size=2, collective="all_reduce float32[1000]")]
    assert blamed(diagnose(ranks, LIMITS))[0] == "collective_mismatch"


@pytest.mark.parametrize("name", ["all_to_all", "alltoall_base", "gather", "scatter"])
def test_sizes_that_may_differ_are_no_mismatch(name: str) -> None:
    ranks = [inside(r, 5, 42, size=2, collective=f"{name} float32[{r + 1}]") for r in range(2)]
    assert blamed(diagnose(ranks, LIMITS)) == ("all_waiting", [])


def test_a_mismatch_is_told_though_another_rank_is_missing() -> None:
    ranks = [inside(0, 5, 42, size=3), inside(1, 5, 42, size=3, collective="barrier"), outside(2, 4, 99, size=3)]
    assert blamed(diagnose(ranks, LIMITS))[0] == "collective_mismatch"


def test_each_in_another_group_is_a_mismatch_with_both_lines() -> None:
    first, second = {"name": "a", "size": 2}, {"name": "b", "size": 2}
    ranks = [
        view(0, group(4, 3, **first), group(7, 7, **second), idle=50),
        view(1, group(3, 3, **first), group(8, 7, **second), idle=50),
    ]
    found = diagnose(ranks, LIMITS)
    assert blamed(found) == ("collective_mismatch", [0, 1])
    assert found is not None
    assert found.text == (
        "rank 0 (gpu-00) waits in all_reduce 4 of group a at train.py:30 in step, rank 1 (gpu-01) in "
        "all_reduce 8 of group b at train.py:31 in step: each waits for the other, "
        "they call their collectives in different orders"
    )


# --- stopped, stuck -----------------------------------------------------------------------------------------------


def test_a_stopped_rank_is_told_long_before_the_collective_is_due() -> None:
    ranks = waiting_for(outside(3, 117, 6, state="T", state_age=6.0), idle=6)
    found = diagnose(ranks, LIMITS)
    assert blamed(found) == ("frozen", [3])
    assert found is not None
    assert found.text == "rank 3 (gpu-03) is stopped (SIGSTOP) since 6 s; it is at train.py:33 in step"


def test_a_rank_that_is_stopped_for_a_moment_is_no_verdict() -> None:
    assert diagnose([outside(3, 117, 1, state="T", state_age=4.0)], LIMITS) is None


def test_a_debugged_rank_has_ten_times_as_long() -> None:
    assert diagnose(waiting_for(outside(3, 117, 200, state="t", state_age=200), idle=200), LIMITS) is None
    found = diagnose(waiting_for(outside(3, 117, 401, state="t", state_age=401), idle=401), LIMITS)
    assert blamed(found) == ("frozen", [3])


def test_a_rank_stuck_in_the_kernel_is_frozen_at_the_deadline() -> None:
    def found(age: float) -> Hang | None:
        return diagnose(waiting_for(outside(3, 117, age, state="D", state_age=age), idle=age), LIMITS)

    assert found(39) is None
    assert blamed(found(41)) == ("frozen", [3])


@given(st.floats(0, 1e6))
def test_a_program_that_never_attached_is_only_called_frozen_when_stopped(age: float) -> None:
    alien = view(0, idle=age, attached=False, beat_age=age, state_age=age)
    for state in "RSDtZ":
        assert diagnose([replace(alien, progress=replace(alien.progress, state=state))], LIMITS) is None


def test_a_foreign_program_that_is_stopped_is_frozen() -> None:
    assert blamed(diagnose([view(0, attached=False, state="T", state_age=6.0)], LIMITS)) == ("frozen", [0])


def test_a_held_lock_is_told_with_what_the_processor_does() -> None:
    ranks = waiting_for(outside(3, 117, 43, state="R", beat_age=43, cpu_share=0.98), idle=42)
    found = diagnose(ranks, LIMITS)
    assert blamed(found) == ("interpreter_stuck", [3])
    assert found is not None
    assert found.text == (
        "rank 3 (gpu-03) has not let go of the interpreter lock for 43 s: it computes without end; "
        "it is at train.py:33 in step"
    )


def test_a_lock_held_inside_a_collective_is_blamed_on_who_is_missing() -> None:
    ranks = [replace(one, progress=replace(one.progress, beat_age=50)) for one in waiting_for(outside(3, 117, 50))]
    ranks[0] = outside(3, 117, 50)
    assert blamed(diagnose(ranks, LIMITS)) == ("hung", [3])


def test_a_beat_that_stopped_while_progress_goes_on_is_no_hang() -> None:
    assert diagnose([outside(0, 117, 1, beat_age=500, state="R", size=1)], LIMITS) is None


# --- sections and steps -------------------------------------------------------------------------------------------


def test_an_open_section_has_its_own_deadline() -> None:
    def found(left: float) -> Hang | None:
        saving = outside(0, 117, 500, section="checkpoint", section_left=left)
        return diagnose(waiting_for(saving, idle=500), LIMITS)

    assert found(1.0) is None
    result = found(-2.0)
    assert blamed(result) == ("section_overrun", [0])
    assert result is not None
    assert "has not entered all_reduce 118" in result.text
    assert result.text.endswith("it is at train.py:30 in step (section 'checkpoint')")


@given(st.floats(0, 399))
def test_a_section_without_a_timeout_has_the_longer_deadline(idle: float) -> None:
    assert diagnose(waiting_for(outside(0, 117, idle, section="checkpoint"), idle=idle), LIMITS) is None


def test_a_section_that_is_known_to_take_long_may() -> None:
    known = replace(LIMITS, sections={"eval": 3000.0})
    assert diagnose(waiting_for(outside(0, 117, 2000, section="eval"), idle=2000), known) is None
    assert diagnose(waiting_for(outside(0, 117, 2000, section="other"), idle=2000), known) is not None


def test_an_overrun_section_is_told_though_nobody_waits() -> None:
    found = diagnose([view(0, idle=3, section="load", section_left=-5.0), view(1)], LIMITS)
    assert found is not None
    assert found.text == (
        "rank 0 (gpu-00) is 5.0 s over the timeout of section 'load'; it is at train.py:30 in step (section 'load')"
    )


def test_who_waits_in_an_overrun_section_blames_who_is_missing() -> None:
    saving = view(0, group(5, 4, size=2), idle=90, section="save", section_left=-1.0)
    assert blamed(diagnose([saving, outside(1, 4, 90, size=2)], LIMITS)) == ("hung", [1])


def test_who_waits_in_an_overrun_section_is_told_itself_where_nobody_is_to_blame() -> None:
    saving = view(0, group(5, 4, size=2), idle=90, section="save", section_left=-1.0)
    busy = outside(1, 4, 90, size=2, where_age=0.1)
    assert blamed(diagnose([saving, busy], LIMITS)) == ("section_overrun", [0])


def test_a_program_without_groups_is_judged_by_its_steps() -> None:
    ranks = [view(0, idle=1, step=7), view(1, idle=41, step=6)]
    found = diagnose(ranks, LIMITS)
    assert blamed(found) == ("hung", [1])
    assert found is not None
    assert found.text == ("rank 1 (gpu-01) has made no progress since step 6, 41 s ago; it is at train.py:31 in step")


@given(st.floats(0, 1e6))
def test_a_program_that_reports_nothing_owes_nothing(idle: float) -> None:
    assert diagnose([view(0, idle=idle), view(1, idle=idle)], LIMITS) is None


def test_ranks_that_all_stopped_outside_of_collectives_hang_in_the_end() -> None:
    assert diagnose([outside(r, 117, 399, size=2) for r in range(2)], LIMITS) is None
    assert blamed(diagnose([outside(r, 117, 401, size=2) for r in range(2)], LIMITS)) == ("hung", [0, 1])
    assert diagnose([outside(0, 117, 401, size=2), outside(1, 117, 3, size=2)], LIMITS) is None


def test_off_leaves_only_the_timeouts_that_the_program_asked_for() -> None:
    off = Limits(hang=None)
    assert diagnose(waiting_for(outside(3, 117, 1e6, state="T", state_age=1e6), idle=1e6), off) is None
    saving = outside(0, 117, 500, section="checkpoint", section_left=-1.0)
    assert blamed(diagnose(waiting_for(saving, idle=500), off)) == ("section_overrun", [0])


# --- anything at all ----------------------------------------------------------------------------------------------

groups = st.builds(
    group,
    st.integers(0, 4),
    st.integers(0, 4),
    size=st.just(3),
    name=st.sampled_from(["a", "b"]),
    collective=st.sampled_from(["", "all_reduce float32[4]", "barrier"]),
    ranks=st.sampled_from([(), (0, 1, 2)]),
)
anyone = st.builds(
    view,
    st.integers(0, 2),
    groups,
    groups,
    idle=st.floats(0, 1000),
    state=st.sampled_from("RSDTtZ"),
    state_age=st.floats(0, 1000),
    attached=st.booleans(),
    beat_age=st.floats(0, 1000),
    section=st.sampled_from(["", "save"]),
    section_left=st.one_of(st.none(), st.floats(-10, 10)),
    step=st.integers(-1, 3),
    where_age=st.floats(0, 1000),
)


@given(st.lists(anyone, max_size=3, unique_by=lambda one: one.rank))
def test_whatever_comes_there_is_one_sentence_and_known_ranks_or_nothing(ranks: list[RankView]) -> None:
    found = diagnose(ranks, LIMITS)
    if found is not None:
        assert found.text
        assert "\n" not in found.text
        assert {culprit.rank for culprit in found.culprits} <= {0, 1, 2}
        if found.code != "all_waiting":
            assert found.culprits


@given(st.lists(anyone, max_size=3, unique_by=lambda one: one.rank))
def test_ranks_that_all_moved_just_now_do_not_hang(ranks: list[RankView]) -> None:
    fresh = [
        replace(r, state_age=0.0, progress=replace(r.progress, progress_age=0.0, section_left=None)) for r in ranks
    ]
    assert diagnose(fresh, LIMITS) is None


@given(st.sets(st.integers(0, 7), max_size=7))
def test_who_is_waited_for_is_known_at_once(absent: set[int]) -> None:
    ranks = waiting_for(*(outside(rank, 117, 0) for rank in absent), idle=1.0)
    assert awaited(ranks) == dict.fromkeys(absent, 8 - len(absent))


# --- a process group that is not made yet -------------------------------------------------------------------------


def making(rank: int, idle: float, *, call: str = "init_process_group", name: str = "0", **more: Any) -> RankView:
    return view(rank, group(1, 0, name=f"{name}/{call}", collective=call, **more), idle=idle)


def test_a_rank_that_stays_away_from_init_is_named() -> None:
    ranks = [making(rank, 42) for rank in range(8) if rank != 5]
    found = diagnose([*ranks, view(5, idle=44)], LIMITS)
    assert found is not None
    assert found.text == (
        "rank 5 (gpu-05) has not entered init_process_group, which 7 others wait in since 42 s; "
        "it is at train.py:35 in step"
    )
    assert blamed(found) == ("hung", [5])
    assert diagnose([*ranks, view(5, idle=39)], LIMITS) is None, "it has its own time"
    loading = view(5, idle=44, where_age=1.0)
    assert diagnose([*ranks, loading], LIMITS) is None, "it is at work: it loads a model"


@given(st.floats(0, 500), st.floats(0, 500), st.floats(0, 500))
def test_a_rank_without_torch_has_as_long_and_longer_while_it_computes(
    waited: float, since: float, still: float
) -> None:
    bare = RankView(RankProgress(5, 5, 1, progress_age=since), "gpu-05", "n5", state_age=min(still, since))
    found = diagnose([*(making(rank, waited) for rank in range(8) if rank != 5), bare], LIMITS)
    late = waited >= 40 and (min(still, since) >= 40 or since >= 400)
    assert blamed(found) == ("hung", [5]) if late else found is None
    assert found is None or "it has not imported torch since its start" in found.text


def test_who_has_the_group_is_through_with_its_making() -> None:
    through = [view(rank, group(0, 0, name="0/default_pg/gloo"), idle=42) for rank in range(1, 8)]
    assert blamed(diagnose([making(0, 42), *through], LIMITS)) == ("hung", [0]), "it is still in there"
    away = view(7, idle=43)
    assert blamed(diagnose([making(0, 42), *through[:-1], away], LIMITS)) == ("hung", [7])


def test_a_rank_that_does_not_make_a_subgroup_is_named() -> None:
    world = group(0, 0, name="0/default_pg/gloo")
    waiting = making(2, 42, call="new_group", name="3", size=2, ranks=(2, 6))
    waiting = replace(waiting, progress=replace(waiting.progress, groups=(world, *waiting.progress.groups)))
    others = [view(rank, world, idle=43) for rank in (0, 1, 3, 4, 5, 6, 7)]
    found = diagnose([waiting, *others], LIMITS)
    assert blamed(found) == ("hung", [6])
    assert found is not None
    assert "has not entered new_group (the group '3'), which 1 other waits in" in found.text
