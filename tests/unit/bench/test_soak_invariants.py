"""The invariants of bench/soak.py as values: what keeps them is let through, each history that breaks one is found."""

from __future__ import annotations

import pytest

from bench.soaking.broken import BrokenError
from bench.soaking.commits import Commit, Commits, Ledger, Look, Scan, newest
from bench.soaking.generations import Generations
from bench.soaking.leaks import WARM_UP, Allowed, Zombies, check_flat, check_left, grown
from bench.soaking.lines import Line, Tail
from bench.soaking.samples import Curve, Wanted


def line(event: str, generation: int, t: float, rank: int = 0, **more: object) -> Line:
    return Line(event, generation, rank, 100 * generation + rank, more.pop("world", 2), t, **more)  # type: ignore[arg-type]


# --- one generation -----------------------------------------------------------------------------------------------

SOUND = (line("begin", 1, 1.0), line("step", 1, 2.0), line("begin", 2, 3.0), line("step", 2, 4.0))


def test_one_generation_after_the_other_is_sound() -> None:
    seen = Generations()
    for one in SOUND:
        seen.hear(one)
    seen.see(4.5, {2: 200})
    assert (seen.newest(2.5), seen.newest(3.0), seen.newest(0.5)) == (1, 2, 0)


@pytest.mark.parametrize("event", ["step", "begin", "restored", "end"])
@pytest.mark.parametrize("heard_late", [False, True])
def test_a_line_of_an_older_generation_after_a_newer_one_s_first_step(event: str, heard_late: bool) -> None:
    """Whichever of the two files is read first."""
    older, newer = line(event, 1, 3.5, rank=1), line("begin", 2, 3.0)
    seen = Generations()
    seen.hear(line("begin", 1, 1.0))
    seen.hear(newer if heard_late else older)
    with pytest.raises(BrokenError, match=r"two-generations.*0.500 s after the first step of generation 2"):
        seen.hear(older if heard_late else newer)


def test_it_is_the_first_rank_to_begin_that_counts() -> None:
    seen = Generations()
    for one in (line("begin", 1, 1.0), line("begin", 2, 4.0, rank=1), line("step", 1, 3.5)):
        seen.hear(one)
    with pytest.raises(BrokenError, match="two-generations"):
        seen.hear(line("begin", 2, 3.0))


@pytest.mark.parametrize("heard_late", [False, True])
def test_a_rank_that_lives_on_in_silence(heard_late: bool) -> None:
    seen = Generations()
    seen.hear(line("begin", 1, 1.0))
    if heard_late:
        seen.see(3.5, {1: 101})
        with pytest.raises(BrokenError, match=r"pid 101 of generation 1 is alive 0.500 s after"):
            seen.hear(line("begin", 2, 3.0))
    else:
        seen.hear(line("begin", 2, 3.0))
        seen.see(2.9, {1: 101})
        with pytest.raises(BrokenError, match=r"pid 101 of generation 1 is alive 0.500 s after"):
            seen.see(3.5, {1: 101})


# --- commits ------------------------------------------------------------------------------------------------------


def commit(step: int, generation: int) -> Commit:
    return Commit(f"step-{step:08d}", step, generation)


def test_commits_one_after_the_other_are_sound() -> None:
    seen = Commits()
    seen.hear(line("restored", 1, 0.0, step=0))
    assert seen.scan(Scan(1.0, 1, (commit(10, 1),)), 0) == [commit(10, 1)]
    assert seen.scan(Scan(2.0, 1, (commit(10, 1), commit(20, 1))), 1) == [commit(20, 1)]
    seen.hear(line("restored", 2, 3.0, step=20))
    seen.hear(line("restored", 2, 3.0, rank=1, step=20))
    assert seen.scan(Scan(4.0, 2, (commit(20, 1), commit(30, 2))), 2) == [commit(30, 2)]
    assert seen.scan(Scan(5.0, 0, ()), 2) == [], "a directory that nobody claims just now"


def test_a_commit_after_a_newer_claim() -> None:
    seen = Commits()
    seen.scan(Scan(1.0, 2, ()), 0)
    with pytest.raises(BrokenError, match=r"stale-commit.*after generation 2 had claimed"):
        seen.scan(Scan(2.0, 2, (commit(10, 1),)), 0)


def test_a_commit_in_the_look_that_first_sees_a_newer_claim_may_have_come_before_it() -> None:
    seen = Commits()
    seen.scan(Scan(1.0, 1, ()), 1)
    seen.scan(Scan(2.0, 2, (commit(10, 1),)), 1)


def test_a_commit_after_the_first_step_of_a_newer_generation() -> None:
    seen = Commits()
    with pytest.raises(BrokenError, match="after the first step of generation 2"):
        seen.scan(Scan(2.0, 1, (commit(10, 1),)), 2)


@pytest.mark.parametrize("step", [10, 20])
def test_a_generation_that_goes_back(step: int) -> None:
    seen = Commits()
    seen.scan(Scan(1.0, 1, (commit(20, 1),)), 1)
    with pytest.raises(BrokenError, match="after step 20 of the same generation"):
        seen.scan(Scan(2.0, 1, (commit(20, 1), Commit("again", step, 1))), 1)


def test_a_commit_of_a_step_that_was_restored() -> None:
    seen = Commits()
    seen.hear(line("restored", 2, 0.0, step=20))
    with pytest.raises(BrokenError, match="after step 20"):
        seen.scan(Scan(1.0, 2, (commit(20, 2),)), 2)


def test_a_claim_that_goes_back() -> None:
    seen = Commits()
    seen.scan(Scan(1.0, 2, ()), 1)
    with pytest.raises(BrokenError, match="generation 1 has claimed the directory after generation 2"):
        seen.scan(Scan(2.0, 1, ()), 1)


@pytest.mark.parametrize("heard_late", [False, True])
def test_a_restore_of_what_is_not_the_newest(heard_late: bool) -> None:
    seen = Commits()
    scan = Scan(1.0, 1, (commit(10, 1), commit(20, 1)))
    told = line("restored", 2, 2.0, step=10)
    if heard_late:
        seen.hear(told)
        with pytest.raises(BrokenError, match="goes on from step 10, and 20 was committed"):
            seen.scan(scan, 1)
    else:
        seen.scan(scan, 1)
        with pytest.raises(BrokenError, match="goes on from step 10, and 20 was committed"):
            seen.hear(told)


def test_ranks_that_restore_different_steps() -> None:
    seen = Commits()
    seen.hear(line("restored", 2, 2.0, step=10))
    with pytest.raises(BrokenError, match="where another rank of it has restored step 10"):
        seen.hear(line("restored", 2, 2.0, rank=1, step=20))


NONE = Commit("", -1, 0)


def look_through(*looks: Look) -> None:
    ledger, commits = Ledger(), Commits()
    commits.scan(Scan(0.0, 1, (commit(10, 1),)), 0)
    for look in looks:
        ledger.look(look, commits)


def test_a_ledger_that_follows_is_sound() -> None:
    look_through(Look(1, NONE), Look(1, commit(10, 1)), Look(2, commit(20, 1)), Look(2, commit(30, 2)))


@pytest.mark.parametrize(
    ("looks", "text"),
    [
        ((Look(2, commit(30, 2)), Look(2, commit(40, 1))), "the ledger names step-00000040 of generation 1, after"),
        ((Look(1, commit(30, 1)), Look(1, commit(20, 1))), "goes back to step-00000020"),
        ((Look(2, NONE), Look(2, NONE), Look(2, commit(20, 1))), "after generation 2 was planned"),
        ((Look(1, commit(10, 2)),), "whose manifest says generation 1"),
    ],
)
def test_a_ledger_that_names_what_is_stale(looks: tuple[Look, ...], text: str) -> None:
    with pytest.raises(BrokenError, match=text):
        look_through(*looks)


def test_the_newest_claim() -> None:
    assert newest([(3, 5), (10, 6), (9, 9)]) == 6
    assert newest([]) == 0


# --- losses and samples -------------------------------------------------------------------------------------------


def curve() -> Curve:
    """An epoch is three steps of four samples."""
    made = Curve(12)
    for step in range(1, 10):
        ids = tuple((n * 5) % 12 for n in range(4 * ((step - 1) % 3), 4 * ((step - 1) % 3) + 4))
        made.wanted[step] = Wanted(step, (step - 1) // 3, ids, 1.0 / step)
    return made


def do(made: Curve, generation: int, step: int, *, world: int = 2, ranks: int | None = None, **wrong: object) -> None:
    wanted = made.wanted[step]
    for rank in range(world if ranks is None else ranks):
        values = {"ids": wanted.ids[rank::world], "loss": wanted.loss, "epoch": wanted.epoch, **wrong}
        made.hear(line("step", generation, float(step), rank, step=step, world=world, **values))


def restored(made: Curve, generation: int, step: int) -> None:
    made.hear(line("restored", generation, 0.0, step=step))


def test_two_epochs_with_a_restart_in_another_world_are_sound() -> None:
    made = curve()
    restored(made, 1, 0)
    for step in range(1, 6):
        do(made, 1, step)
    made.commit(commit(4, 1))
    restored(made, 2, 4)
    for step in range(5, 9):
        do(made, 2, step, world=4)
    made.commit(commit(8, 2))
    assert [one.generation for one in made.counted] == [1] * 4 + [2] * 4
    assert made.redone == 1


def test_a_commit_that_was_not_seen_is_known_by_the_restore_from_it() -> None:
    made = curve()
    restored(made, 1, 0)
    for step in range(1, 4):
        do(made, 1, step)
    restored(made, 2, 3)
    do(made, 2, 4)
    made.commit(commit(4, 2))
    assert [one.generation for one in made.counted] == [1, 1, 1, 2]


@pytest.mark.parametrize("off", [1e-8, float("nan")])
def test_a_loss_that_is_another(off: float) -> None:
    made = curve()
    do(made, 1, 1, loss=1.0 + 1e-12)
    with pytest.raises(BrokenError, match=r"loss-curve.*undisturbed it is 0.5"):
        do(made, 1, 2, loss=0.5 * (1 + off))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"ids": (1, 1)}, "of other steps"),
        ({"ids": (0, 5)}, "another rank has taken"),
        ({"epoch": 1}, "is of epoch 1, undisturbed of 0"),
    ],
)
def test_samples_that_are_others(wrong: dict[str, object], text: str) -> None:
    made = curve()
    with pytest.raises(BrokenError, match=text):
        do(made, 1, 1, **wrong)


def test_a_sample_that_nobody_has_taken() -> None:
    made = curve()
    restored(made, 1, 0)
    ids = made.wanted[1].ids
    do(made, 1, 1, ranks=1, ids=ids[:2])
    made.hear(line("step", 1, 1.0, 1, step=1, ids=ids[2:3], loss=1.0, epoch=0))
    with pytest.raises(BrokenError, match=f"nobody has taken samples .{ids[3]}. in step 1"):
        made.commit(commit(1, 1))


def test_a_commit_of_a_step_that_not_all_ranks_have_done() -> None:
    made = curve()
    restored(made, 1, 0)
    do(made, 1, 1)
    do(made, 1, 2, ranks=1)
    with pytest.raises(BrokenError, match=r"step 2 was done by ranks .0. of 2"):
        made.commit(commit(2, 1))


def test_a_restart_that_leaves_a_step_out() -> None:
    made = curve()
    restored(made, 1, 0)
    do(made, 1, 1)
    made.commit(commit(1, 1))
    restored(made, 2, 2)
    do(made, 2, 3)
    with pytest.raises(BrokenError, match="restored step 2: step 2 was done by ranks"):
        made.commit(commit(3, 2))


def test_an_order_that_is_no_permutation() -> None:
    """Though all is as in the undisturbed run: that one is not believed blindly."""
    made = curve()
    made.wanted[3] = Wanted(3, 0, made.wanted[1].ids, 1 / 3)
    restored(made, 1, 0)
    for step in range(1, 5):
        do(made, 1, step)
    with pytest.raises(BrokenError, match=r"epoch 0: missing .*, more than once"):
        made.commit(commit(4, 1))


def test_a_commit_of_whom_nobody_has_told() -> None:
    with pytest.raises(BrokenError, match="no rank of it has told"):
        curve().commit(commit(1, 1))


# --- leaks --------------------------------------------------------------------------------------------------------


def course(*thirds: float, seconds: float = 90.0) -> list[tuple[float, float]]:
    """Two minutes of figures, one a second, each third with a value of its own after the warm-up."""
    start = [(float(t), 0.0) for t in range(int(WARM_UP))]
    length = seconds / len(thirds)
    return start + [(WARM_UP + t, thirds[min(int(t / length), len(thirds) - 1)]) for t in range(int(seconds))]


@pytest.mark.parametrize(
    ("values", "leaks"),
    [
        (course(10, 10, 10), False),
        (course(10, 40, 18), False),
        (course(10, 15, 20), True),
        (course(100, 100, 109), False),
        (course(100, 100, 112), True),
        (course(10, 15, 20, seconds=50.0), False),
        ([], False),
    ],
    ids=["flat", "a peak", "grown", "by a share", "by more than a share", "too short", "nothing"],
)
def test_what_has_grown(values: list[tuple[float, float]], leaks: bool) -> None:
    assert bool(grown(values, Allowed(8, 0.1))) is leaks


def test_what_leaks_is_named() -> None:
    figures = {
        ("agent of host 1", "descriptors"): course(10, 10, 10),
        ("controller k1", "descriptors"): course(9, 9, 99),
    }
    with pytest.raises(BrokenError, match="descriptors of controller k1: 9 in the first third, 99 in the last"):
        check_flat(figures)


def test_what_is_left_is_named() -> None:
    check_left({"links": frozenset(), "mounts": frozenset()})
    with pytest.raises(BrokenError, match="2 links left after the end: a, b"):
        check_left({"mounts": frozenset(), "links": frozenset({"b", "a"})})


def test_a_child_that_nobody_reaps() -> None:
    seen = Zombies(10.0)
    seen.see(0.0, {(7, 1): "rank"})
    seen.see(8.0, {})
    seen.see(9.0, {(7, 1): "rank"})
    with pytest.raises(BrokenError, match=r"pid 7 \(rank\) has ended 11 s ago"):
        seen.see(20.0, {(7, 1): "rank"})


# --- files --------------------------------------------------------------------------------------------------------


def test_lines_are_read_once_and_whole(tmp_path) -> None:  # type: ignore[no-untyped-def]
    tail, path = Tail(tmp_path), tmp_path / "1-0-7.jsonl"
    whole = '{"event": "step", "generation": 1, "rank": 0, "pid": 7, "world": 2, "t": 2.0, "step": 3, "ids": [1]}\n'
    path.write_text(whole + whole[:20])
    (one,) = tail.more()
    assert (one.step, one.ids, tail.more()) == (3, (1,), [])
    with path.open("a") as file:
        file.write(whole[20:])
    assert tail.more() == [one]
