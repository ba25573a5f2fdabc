"""What ``elaunch top`` shows of jobs of all sizes, on terminals of all sizes."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.cli import top_rows
from elaunch.cli.top_view import job_view, jobs_view, screen

NOW = 1_800_000_000.0


def rank(number: int, node: str, step: int | None = 100, **more: Any) -> dict[str, Any]:
    plain = {
        "state": "S", "where": "", "section": "", "waits_in": "", "progress_seconds": 0.2, "awaited_by": 0,
        "pid": 1, "beat_seconds": 0.1, "step_seconds": 0.1, "start": None,
    }  # fmt: skip
    return {"rank": number, "node_id": node, "step": step, **plain, **more}


def node(number: int, each: int, **more: Any) -> dict[str, Any]:
    held: list[int] | None = [number * each, number * each + each - 1]
    row = {"node_id": f"id{number}", "host": f"gpu-{number:04}", "ranks": held, "phase": "running"}
    return {**row, "heard_seconds": 0.3, "note": "", **more}


def document(nodes: int = 2, each: int = 4, **more: Any) -> dict[str, Any]:
    return {
        "job": "run7", "phase": "running", "generation": 3, "restart_count": 1, "max_restarts": 3, "budget_left": 2,
        "min_nodes": 1, "max_nodes": nodes, "ranks": nodes * each, "reason": {"code": "x", "text": "the job starts"},
        "exit_code": None, "leader": {"node_id": "id0", "host": "gpu-0000"}, "live_error": None, "ports": [],
        "checkpoint": {"step": 90, "age_seconds": 42.0, "lost_seconds": 45.0, "lost_steps": 10},
        "nodes": [node(number, each) for number in range(nodes)],
        "rank_progress": [rank(n * each + i, f"id{n}") for n in range(nodes) for i in range(each)],
        **more,
    }  # fmt: skip


def shown(what: dict[str, Any], events: Any = (), width: int = 100, height: int = 30, error: str = "") -> list[str]:
    return screen(job_view(what, events, error, height, NOW), width, height, {"NO_COLOR": "1"})


def test_a_small_job_has_a_row_for_each_rank() -> None:
    lines = shown(document(), [(NOW, "job_running", "generation 3 runs")])
    assert "run7: running, generation 3, 8 ranks, 2 nodes of 1:2, 1 restart, 2 left" in lines[0]
    assert lines[1] == "  the job starts"
    assert lines[2] == "checkpoint: step 90, 42 s ago; a failure now would cost 10 steps, 45 s"
    assert lines[3] == "ranks: 8 at step 100"
    assert lines[4].split() == ["RANK", "HOST", "PHASE", "STEP", "LAG"]
    assert [line.split()[:5] for line in lines[5:13]] == [
        [str(n), f"gpu-000{n // 4}", "running", "100", "0"] for n in range(8)
    ]
    assert lines[-1].endswith("job_running: generation 3 runs")


def test_the_rank_that_others_wait_for_is_found_among_4096() -> None:
    what = document(512, 8)
    what["rank_progress"][3000] = rank(
        3000, "id375", 60, awaited_by=4095, progress_seconds=41.0, where="train.py:88 in load"
    )
    what["rank_progress"][77] |= {"waits_in": "all_reduce", "progress_seconds": 40.0}
    what["ports"] = [
        {"port": "mlx5_0", "host": "gpu-0009", "ranks": [72], "text": "is down", "seconds": 5.0}
    ] * 9  # fmt: skip
    for one in what["rank_progress"][:16]:
        one["section"] = "restore"
    events = [(NOW, f"code{n}", "text") for n in range(100)]
    lines = shown(what, events, width=130)
    assert len(lines) <= 30
    text = "\n".join(lines)
    assert "ranks: 4095 at step 100, 1 up to 40 behind, 16 in restore, 2 still for up to 41 s" in text
    first = next(line for line in lines if line.startswith("id"))
    assert "id375" in first
    assert "rank 3000: 4095 wait for it, still for 41 s at train.py:88 in load" in first
    assert "510 nodes" in text
    assert "... and 5 more" in text
    assert lines[-1].endswith("code99: text")


def test_nodes_that_wait_are_there_before_any_rank_is() -> None:
    waiting = {"phase": "waiting", "ranks": None, "heard_seconds": None}
    what = document(
        0, phase="waiting", rank_progress=[], checkpoint=None, min_nodes=4, max_nodes=6, phase_seconds=17.2,
        waiting_for="2 of at least 4 nodes are here; waiting up to 600 s for the others (join_timeout)",
    )  # fmt: skip
    what["nodes"] = [node(n, 1, **waiting) for n in range(2)]
    text = "\n".join(shown(what))
    assert "2 of at least 4 nodes are here" in text
    assert f"[{'#' * 12}{'.' * 12}] 2 of 4 nodes, waiting for 17 s" in text
    assert text.count("gpu-000") == 2


def test_what_programs_name_does_not_steer_the_terminal() -> None:
    what = document(job="\x1b]0;evil\x07[red]")
    what["nodes"][0]["note"] = "\x1b[2J\nnext"
    text = "\n".join(shown(what, [(NOW, "code", "a\x1b[31mb\nc")], error="\x9b1m"))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert "[red]" in text


@settings(max_examples=60, deadline=None)
@given(*[st.integers(low, high) for low, high in ((0, 40), (1, 9), (1, 200), (1, 60), (0, 50), (0, 9))])
def test_it_fits_whatever_the_size(nodes: int, each: int, width: int, height: int, events: int, ports: int) -> None:
    what = document(nodes, each)
    what["ports"] = [{"port": "p", "host": "h", "ranks": [1], "text": "t", "seconds": 1.0}] * ports
    for one in what["rank_progress"][::7]:
        one["progress_seconds"] = 30.0
    lines = shown(what, [(NOW, "code", "text " * 40)] * events, width, height, error="no answer" * (ports % 2))
    assert 1 <= len(lines) <= height
    assert all(len(line) <= width for line in lines)
    whole = screen(jobs_view([what] * events, "", height, NOW), width, height, {})
    assert len(whole) <= height


@given(st.integers(0, 300), st.integers(1, 40), st.integers(0, 20))
def test_folding_loses_no_node(nodes: int, room: int, bad: int) -> None:
    rows = top_rows.node_rows(document(nodes, 1))
    rows = [*rows[bad:], *[top_rows.Row(f"bad{n}", "h", "0", "running", "1", 0, "", 1.0 + n) for n in range(bad)]]
    folded = top_rows.fold(rows, room, "nodes")
    assert len(folded) <= room
    counted = sum(int(row.name.split()[0]) if row.name.endswith(" nodes") else 1 for row in folded)
    assert counted == len(rows)
    named = [row.name for row in folded if row.name.startswith("bad")]
    assert named == sorted(named, key=lambda name: -int(name[3:])) or len(rows) <= room
