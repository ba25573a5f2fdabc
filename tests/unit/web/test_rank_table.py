"""Ranks as columns: what a leader says of them, and changes that make the next table out of the last."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.web.packing import packed
from elaunch.web.rank_ages import RENEWED, Ages
from elaunch.web.rank_table import AGES, STATES, TABLES, alike, delta, new_texts, rank_table, whole

WORLD = 6
lines = st.builds(
    pb.RankLine,
    rank=st.integers(0, WORLD + 2),
    step=st.integers(-1, 3),
    progress_seconds=st.sampled_from([0.0, 1.0, 60.0]),
    state=st.sampled_from(["R", "S", "T"]),
    where=st.sampled_from(["", "a.py:1 in f", "b.py:2 in g"]),
    waits_in=st.sampled_from(["", "all_reduce"]),
    section=st.sampled_from(["", "checkpoint"]),
    awaited_by=st.integers(0, 2),
    slower=st.sampled_from([0.0, 2.5]),
)


def reply(ranks: list[pb.RankLine], **more: Any) -> pb.StatusReply:
    nodes = [pb.NodeLine(node_id=f"n{n}", host=f"h{n}", slots=3, rank0=3 * n) for n in range(2)]
    return pb.StatusReply(phase="running", generation=4, world_size=WORLD, nodes=nodes, ranks=ranks, **more)


@given(st.lists(lines, max_size=8), st.lists(lines, max_size=8))
def test_a_page_that_applies_changes_has_the_newest_table(old: list[pb.RankLine], new: list[pb.RankLine]) -> None:
    texts = new_texts()
    before = rank_table(reply(old), texts)
    page = json.loads(packed(whole(before, "j", 1.0)))
    after = rank_table(reply(new), texts)
    assert alike(before, after)
    change = delta(before, after, 2.0)
    if change is not None:
        for name, added in change["tables"].items():
            page[name] += added
        for name, values in change["columns"].items():
            for row, value in zip(change["index"], values, strict=True):
                page["columns"][name][row] = value
    wanted = whole(after, "j", 2.0)
    for name, column in wanted["columns"].items():
        if name not in AGES:
            assert page["columns"][name] == column, name
    assert {name: page[name] for name in TABLES} == {name: wanted[name] for name in TABLES}


def test_a_rank_of_which_nothing_is_heard_has_its_place() -> None:
    table = whole(rank_table(reply([pb.RankLine(rank=4, step=9, pid=7)]), new_texts()), "j", 0.0)
    columns = table["columns"]
    assert columns["rank"] == list(range(WORLD))
    assert columns["node"] == [0, 0, 0, 1, 1, 1]
    assert columns["local_rank"] == [0, 1, 2, 0, 1, 2]
    assert [STATES[state] for state in columns["state"]] == ["unknown"] * 4 + ["run", "unknown"]
    assert columns["step"] == [-1, -1, -1, -1, 9, -1]


def test_each_state_has_its_sign() -> None:
    ranks = [
        pb.RankLine(rank=0, state="T", awaited_by=3),
        pb.RankLine(rank=1, state="S", awaited_by=3, progress_seconds=60.0),
        pb.RankLine(rank=2, state="S", waits_in="all_reduce"),
        pb.RankLine(rank=3, state="R", slower=2.0),
        pb.RankLine(rank=4, state="R", start=pb.StartRecord(phase="transport")),
        pb.RankLine(rank=5, state="R", awaited_by=3, progress_seconds=0.1),
    ]
    found = rank_table(reply(ranks, exits=[pb.RankExit(rank=5, exit_code=0)]), new_texts()).columns["state"]
    assert [STATES[state] for state in found] == ["stopped", "hang", "wait", "straggler", "starting", "ended"]
    failed = rank_table(reply(ranks, exits=[pb.RankExit(rank=5, exit_code=-9)]), new_texts()).columns["state"][5]
    assert STATES[failed] == "failed"


def test_lag_is_behind_the_furthest() -> None:
    ranks = [pb.RankLine(rank=0, step=10), pb.RankLine(rank=1, step=7), pb.RankLine(rank=2, step=-1)]
    assert rank_table(reply(ranks), new_texts()).columns["lag"][:3] == [0, 3, -1]


def test_another_generation_is_no_change_of_the_last() -> None:
    before = rank_table(reply([]), new_texts())
    after = rank_table(pb.StatusReply(generation=5, world_size=WORLD), new_texts())
    assert not alike(before, after)


def test_a_rank_that_goes_on_is_told_though_nothing_but_its_age_changes() -> None:
    texts, ages = new_texts(), Ages()
    waits = [pb.RankLine(rank=rank, step=-1, waits_in="all_reduce", progress_seconds=0.5) for rank in range(WORLD)]
    table = rank_table(reply(waits), texts)
    ages.begin(table, 100.0)
    assert ages.renewed(table, 100.0 + RENEWED) == set()
    waits[2].progress_seconds = 7.5  # this one stands still
    later = rank_table(reply(waits), texts)
    rows = ages.renewed(later, 107.0)
    assert rows == set(range(WORLD)) - {2}
    change = delta(table, later, 107.0, rows)
    assert change is not None
    assert (change["index"], change["columns"]["progress_age"]) == (sorted(rows), [0.5] * 5)
    ages.told(later, 107.0, rows)
    assert ages.renewed(later, 108.0) == set()
