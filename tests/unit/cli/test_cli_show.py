"""What operators read: short tables, and nothing that plays with their terminal."""

from __future__ import annotations

import json

import pytest

from elaunch.cli import documents, show
from elaunch.cli.rank_table import rank_rows
from elaunch.controller.status_messages import pack_start
from elaunch.controller.survey import Overview
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.journal import Happening, Operation, Standing
from elaunch.rendezvous.plan import Member, Plan
from elaunch.rendezvous.records import Leader, Node, Phase, Reason, Spec
from elaunch.rendezvous.state import Drain, State
from elaunch.start_record import StartRecord, told

NODE = Node("a1", "gpu-01", "10.0.0.1", 4, 1, "10.0.0.1:1", pid=7, joined=3)
MEMBER = Member("a1", "gpu-01", 4, 0, 0, "default", 0, 4)
REASON = Reason("rank_failed", "rank 5 was killed by SIGKILL")


def seen(job: str = "run7", reason: Reason = REASON, phase: Phase = Phase.RUNNING) -> Overview:
    drained = (Drain("gpu-09", ("b2",), 5, "drained by ada@login1: new disk"),)
    return Overview(
        job=job,
        state=State(phase, 3, 1, reason, min_nodes=1, max_nodes=2, drained=drained),
        spec=Spec(1, 4, 3, {}),
        plan=Plan(3, 1, reason, (MEMBER,), 4, "a1", "10.0.0.1", 1),
        leader=Leader("a1", "10.0.0.1:1", "secret"),
        epoch=9,
        nodes=(NODE,),
        operations=(
            Operation("op1", "drain", "ada@login1", 1.0, "new disk", standing=Standing.ACCEPTED, answer="asked"),
        ),
    )


LIVE = pb.StatusReply(
    phase="running",
    generation=3,
    restart_count=1,
    budget_left=2,
    reason=REASON.text,
    code=REASON.code,
    nodes=[pb.NodeLine(node_id="a1", rank0=0, slots=4, phase=pb.RUN_PHASE_RUNNING, attached=True, heard_seconds=0.42)],
    ranks=[pb.RankLine(rank=n, node_id="a1", step=40 + n % 2, beat_seconds=0.1) for n in range(4)],
)
NOW = 1_800_000_100.0
EVENT = Happening(1, 1_800_000_000.0, "job_running", "generation 3 runs")


def test_a_status_for_people() -> None:
    lines = show.status(seen(), LIVE, [EVENT], NOW).splitlines()
    assert lines[0] == "job run7: running, generation 3, 4 ranks, 1 node of 1:2, 1 restart, 2 left"
    assert lines[1] == "  rank 5 was killed by SIGKILL"
    assert lines[3].split() == ["a1", "gpu-01", "0-3", "running", "40-41", "0.4", "s", "ago", "leads"]
    assert lines[4] == "host gpu-09 is out: drained by ada@login1: new disk"
    assert lines[5] == "open: drain by ada@login1: new disk: asked"
    assert lines[-1].endswith("job_running: generation 3 runs")


def waiting(rank: int, **more: object) -> pb.RankLine:
    line = pb.RankLine(rank=rank, node_id="a1", step=40, state="S", where=f"train.py:{rank} in step")
    line.waits_in, line.progress_seconds = "all_reduce float32[8]", 30.0 + rank
    for name, value in more.items():
        setattr(line, name, value)
    return line


def standing(*ranks: pb.RankLine) -> list[str]:
    live = pb.StatusReply()
    live.CopyFrom(LIVE)
    del live.ranks[:]
    live.ranks.extend(ranks)
    lines = show.status(seen(), live, [EVENT], NOW).splitlines()
    begin = next((n for n, line in enumerate(lines) if line.startswith("no progress for 10 s")), None)
    return [] if begin is None else [line for line in lines[begin + 1 :] if line.startswith("  ")][:-1]


def test_ranks_that_do_not_get_on_have_a_line_each() -> None:
    assert standing(
        waiting(0),
        waiting(1, waits_in="", awaited_by=2, section="io", where="a.py:1 in f"),
        waiting(2, beat_seconds=15.0),
        waiting(3, waits_in="", state="T", step=-1),
        waiting(4, progress_seconds=9.0),
        waiting(5, waits_in="", step=-1),
    ) == [
        "  rank 1 (gpu-01, step 40): 2 ranks wait for it; no progress since 31 s, in section 'io', at a.py:1 in f",
        "  rank 3 (gpu-01): no progress since 33 s, stopped (SIGSTOP), at train.py:3 in step",
        "  rank 2 (gpu-01, step 40): waits in all_reduce float32[8] since 32 s, holds the interpreter lock for 15 s, "
        "at train.py:2 in step",
        "  rank 0 (gpu-01, step 40): waits in all_reduce float32[8] since 30 s, at train.py:0 in step",
    ]
    assert standing(waiting(0, progress_seconds=1.0)) == []


def test_a_thousand_ranks_that_wait_do_not_fill_the_screen() -> None:
    missed = [waiting(rank, waits_in="", awaited_by=900) for rank in range(900, 1000)]
    lines = standing(*(waiting(rank) for rank in range(900)), *missed)
    assert len(lines) == 17
    assert all("900 ranks wait for it" in line for line in lines[:8])
    assert lines[-1] == "  ... and 984 more"


def test_a_leader_that_does_not_answer_is_no_reason_to_show_nothing() -> None:
    text = show.status(seen(), "connection refused", [], NOW)
    assert "the leader does not answer (connection refused): as etcd has it" in text
    document = documents.status_document(seen(), "connection refused", [], NOW)
    assert (document["live"], document["budget_left"], document["nodes"][0]["ranks"]) == (False, 2, [0, 3])


def test_documents_are_json_and_hold_no_token() -> None:
    text = json.dumps(documents.status_document(seen(), LIVE, [EVENT], NOW))
    assert "secret" not in text
    assert json.loads(text)["rank_progress"][3]["step"] == 41


@pytest.mark.parametrize("nasty", ["\x1b[2J\x1b]0;title\x07", "a\rb", "\u202eabc", "\ud800"])
def test_nothing_from_etcd_plays_with_the_terminal(nasty: str) -> None:
    texts = [
        show.jobs([(seen(reason=Reason("x", nasty)), "e")], []),
        show.status(seen(reason=Reason("x", nasty)), "why" + nasty, [EVENT], NOW),
        show.event(Happening(1, 1.0, "code", nasty)),
        show.operation("job", Operation("a", "stacks", "x", 1.0, answers={"n": nasty}, answer=nasty)),
    ]
    for text in texts:
        assert all(c.isprintable() or c == "\n" for c in text)


def test_one_long_name_does_not_push_the_others_off_the_screen() -> None:
    text = show.jobs([(seen("x" * 1000, Reason("x", "y" * 1000)), "e"), (seen("short"), "e")], [])
    assert max(map(len, text.splitlines())) < 300


def test_a_row_for_each_rank_shows_how_it_was_started() -> None:
    live = pb.StatusReply()
    live.CopyFrom(LIVE)
    more = {"backend": "gloo", "transport": "gloo over eth0", "import_seconds": 3.14, "exchange_seconds": 0.02}
    more |= {"rendezvous_seconds": 0.002}  # so short that it says nothing
    record = StartRecord(host="gpu-01", rank=1, world_size=4, local_rank=1, phase="checked", asked_world_size=4)
    live.ranks[1].start.CopyFrom(pack_start(told(record, **more)))
    late = told(record, rank=2, phase="transport", error="RuntimeError: refused", asked_world_size=5)
    live.ranks[2].start.CopyFrom(pack_start(late))
    text = show.status(seen(), live, [], NOW, ranks=True)
    head, *rows = [line.split() for line in text.splitlines() if line.startswith(("RANK", "0 ", "1 ", "2 ", "3 "))]
    assert head == ["RANK", "LOCAL", "HOST", "PID", "PHASE", "STEP", "BACKEND", "START"]  # nobody has a device
    assert " ".join(rows[1]) == "1 1 gpu-01 0 checked 41 gloo over eth0 import 3.1 s, exchange 0.02 s"
    assert " ".join(rows[2]) == "2 1 gpu-01 0 transport 40 -, world of 5 RuntimeError: refused"
    assert "PHASE  STEP  BACKEND" not in show.status(seen(), live, [], NOW)
    (document,) = [r for r in documents.status_document(seen(), live, [], NOW)["rank_progress"] if r["rank"] == 1]
    assert document["start"]["transport"] == "gloo over eth0"
    assert documents.status_document(seen(), LIVE, [], NOW)["rank_progress"][0]["start"] is None


def test_of_many_nics_the_first_stand_in_the_row_of_a_rank() -> None:
    start = {"nics": "mlx5_0:1,mlx5_1:1,mlx5_2:1", "rail": "4", "phase": "checked", "world_size": 1}
    rank = {"rank": 0, "node_id": "a", "pid": 1, "step": None, "start": start}
    head, row = rank_rows([rank])
    assert dict(zip(head, row, strict=True)) == {
        "RANK": "0",
        "HOST": "a",
        "PID": "1",
        "PHASE": "checked",
        "NICS": "mlx5_0:1,mlx5_1:1 +1",
        "RAIL": "4",
    }
