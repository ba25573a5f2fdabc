"""The timeline of generations, out of lines of a history."""

from __future__ import annotations

from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.journal import Happening
from elaunch.rendezvous.plan import Member, Plan
from elaunch.rendezvous.records import Reason
from elaunch.web.generations import generations_document

T = 1e9
MEMBER = Member("n0", "h0", 4, 0, 0, "default", 0, 4)
PLAN = Plan(2, 1, Reason("rank_failed", "rank 3 died"), (MEMBER,), 4, "n0", "h0", 1)


def line(seq: int, at: float, code: str, text: str, generation: int, **spans: float) -> Happening:
    return Happening(seq, T + at, code, text, generation, spans=spans)


FIRST = [
    line(0, 0.0, "leading", "h0 (n0) leads", 0),
    line(1, 10.0, "job_starting", "generation 1 starts, 4 ranks on 1 node: the job starts", 1, waiting=10.0),
    line(2, 12.0, "job_running", "generation 1 runs, 4 ranks on 1 node", 1, rendezvous=0.5),
    line(3, 15.0, "job_working", "generation 1 is at work at step 0, after 15.0 s: ...", 1, start=4.5),
]
FAULT = [
    line(4, 100.0, "job_aborting", "generation 1 is being stopped: rank 3 died", 1, detection=2.0),
    line(5, 104.0, "job_starting", "generation 2 starts, 4 ranks on 1 node: rank 3 died", 2, abort=4.0, lost_work=30.0),
    line(6, 106.0, "job_running", "generation 2 runs", 2, rendezvous=1.0),
]
BACK = [line(7, 120.0, "job_working", "generation 2 is at work at step 70, after ...", 2, start=9.0, restore=6.0)]


def phases(row: dict[str, object]) -> dict[str, float]:
    return {phase["phase"]: phase["seconds"] for phase in row["phases"]}  # type: ignore[attr-defined]


def test_a_recovery_belongs_to_the_generation_that_it_leads_to() -> None:
    rows = generations_document("j", [*FIRST, *FAULT, *BACK], None, T + 150.0, PLAN)["generations"]
    assert [row["generation"] for row in rows] == [2, 1]
    second, first = rows
    assert phases(first) == {"waiting": 10.0, "rendezvous": 0.5, "start": 4.5}
    assert phases(second) == {"detection": 2.0, "abort": 4.0, "rendezvous": 1.0, "start": 9.0, "restore": 6.0}
    assert (first["ended"], first["end"]["text"], first["lost_seconds"]) == (T + 100.0, "rank 3 died", 30.0)
    assert (first["work_seconds"], second["work_seconds"]) == (85.0, 30.0)
    assert second["reason"] == {"code": "rank_failed", "text": "rank 3 died"}
    assert (second["first_step"], second["ranks"], second["nodes"], second["complete"]) == (70, 4, 1, True)
    starts = [phase["at"] for phase in second["phases"]]
    assert starts == sorted(starts)
    assert starts[0] == T + 98.0


def test_a_phase_under_way_grows() -> None:
    reply = pb.StatusReply(accounts=pb.Accounts(activity="restore", activity_seconds=3.0))
    restoring = [*FIRST, *FAULT, line(7, 112.0, "other", "...", 2, start=6.0)]
    row = generations_document("j", restoring, reply, T + 115.0, None)["generations"][0]
    assert row["phases"][-1] == {"phase": "restore", "seconds": 3.0, "at": T + 112.0, "running": True}
    assert not row["complete"]
    assert row["work_seconds"] is None


def test_a_generation_that_dies_in_its_start_keeps_what_it_took() -> None:
    dies = [line(7, 110.0, "job_aborting", "generation 2 is being stopped: again", 2, start=5.0, detection=0.1)]
    third = [line(8, 111.0, "job_starting", "generation 3 starts, 4 ranks on 1 node: again", 3, abort=1.0)]
    rows = generations_document("j", [*FIRST, *FAULT, *dies, *third], None, T + 112.0, None)["generations"]
    assert phases(rows[1]) == {"detection": 2.0, "abort": 4.0, "rendezvous": 1.0, "start": 5.0}
    assert phases(rows[0]) == {"detection": 0.1, "abort": 1.0}


def test_a_history_that_begins_in_the_middle_is_shown_from_there() -> None:
    rows = generations_document("j", [*FAULT[1:], *BACK], None, T + 150.0, None)["generations"]
    assert [row["generation"] for row in rows] == [2]
