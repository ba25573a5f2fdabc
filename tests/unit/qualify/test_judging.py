"""What came of a fault against what must: each part of the expectation can fail a cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from elaunch.inject.expecting import Settings
from elaunch.inject.fault import Fault
from elaunch.qualify import progress
from elaunch.qualify.cells import Cell, Job, Outcome
from elaunch.qualify.courses import course
from elaunch.qualify.judging import Course, judge
from elaunch.qualify.lines import found, line
from elaunch.qualify.verdicts import results
from elaunch.rendezvous.journal import Happening

SETTINGS = Settings(hang=8.0)
KILL = Fault("kill", rank=1)
GOOD = Course(
    began=100.0, generations=(3, 4), told=100.2, code="rank_failed", text="rank 1 (local rank 1) was killed by SIGKILL",
    stopped=100.4, worked=103.0, lost_steps=2, phases={"abort": 0.2},
)  # fmt: skip


def judged(fault: Fault, seen: Course) -> Any:
    return judge(Cell("faults/x", "it fails", Job.FAULTS, fault), fault, seen, SETTINGS)


def test_a_fault_that_came_out_as_it_should() -> None:
    result = judged(KILL, GOOD)
    assert result.outcome is Outcome.OK
    assert result.why == ""
    assert (result.detection, result.abort, result.first_step, result.lost_steps) == (0.2, 0.4, 3.0, 2)
    assert result.reason == GOOD.text


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"began": None}, "never injected"),
        ({"generations": (3, 3)}, "generation 3 still runs"),
        ({"code": "hung"}, "told as hung, expected rank_failed"),
        ({"code": ""}, "it was not told: expected rank_failed"),
        ({"text": "rank 0 was killed"}, "does not name rank 1"),
        ({"told": 108.0}, "told after 8.0 s, expected within 7 s"),
        ({"worked": None}, "generation 4 did not come to a step"),
        ({"lapsed": "waited 9 s for a step"}, "waited 9 s for a step"),
    ],
)
def test_each_part_of_the_expectation_can_fail_it(changed: dict[str, Any], why: str) -> None:
    result = judged(KILL, replace(GOOD, **changed))
    assert result.outcome is Outcome.FAILED
    assert why in result.why


def test_what_disturbs_nobody_must_not() -> None:
    slow = Fault("slow-cpu", rank=1, seconds=1.0)
    borne = Course(began=1.0, generations=(3, 3), worked=2.5)
    assert judged(slow, borne).outcome is Outcome.OK
    assert "neither went on nor was stopped" in judged(slow, replace(borne, worked=None)).why
    assert judged(slow, replace(borne, lapsed="waited 9 s for its end")).why == "waited 9 s for its end"
    for_good = Fault("slow-cpu", rank=1)
    assert "no rank should have been disturbed" in judged(for_good, GOOD).why


def test_a_host_must_be_named() -> None:
    fault = Fault("agent-kill", node="a")
    seen = replace(GOOD, code="node_lost", text="node gpu-02 was lost", hosts=("gpu-02",))
    assert judged(fault, seen).outcome is Outcome.OK
    assert "does not name gpu-03" in judged(fault, replace(seen, hosts=("gpu-03",))).why


def test_what_may_come_to_either_must_come_to_one() -> None:
    """A network's fault for good: the job goes on under it, or is stopped and says so."""
    fault = Fault("loss")
    borne = Course(began=1.0, generations=(3, 3), worked=2.0)
    assert judged(fault, borne).outcome is Outcome.OK
    assert "neither went on nor was stopped" in judged(fault, replace(borne, worked=None)).why
    stopped = replace(GOOD, code="all_waiting", text="all 2 ranks wait", hosts=("gpu-02",))
    assert judged(fault, stopped).outcome is Outcome.OK, "of all ranks nobody can be named"
    assert "does not name gpu-02" in judged(fault, replace(stopped, code="hung", text="rank 0 hangs")).why


def test_what_lasts_beyond_its_bound_must_be_told() -> None:
    fault = Fault("link-down", node="a", port="mlx5_0:1", seconds=60.0)
    seen = Course(began=1.0, generations=(3, 3), told=1.5, code="port_down", text="port mlx5_0:1 of a is down")
    assert judged(fault, seen).outcome is Outcome.OK
    assert "it was not told" in judged(fault, replace(seen, code="", text="", told=None)).why
    assert "does not name port mlx5_0:1" in judged(fault, replace(seen, text="port mlx5_1:1 of a is down")).why


def test_a_generation_that_was_on_its_way_is_not_what_came_of_a_fault() -> None:
    """A fault may hit a generation that starts: its own begin is none of the fault's consequences."""
    fault = Fault("partition")
    lines = [
        Happening(1, 9.8, "job_starting", "generation 2 starts, 2 ranks: restarted", 2),
        Happening(2, 10.0, "injection_began", f"b: {fault}", 2),
        Happening(3, 15.0, "job_aborting", "generation 2 is being stopped: node b was lost", 2),
        Happening(4, 15.5, "job_starting", "generation 3 starts, 1 ranks: node b was lost", 3),
        Happening(5, 18.0, "job_working", "generation 3 is at work", 3),
    ]
    seen = course(fault, lines, 2, 3, "node_lost", "node b was lost")
    assert (seen.told, seen.stopped, seen.worked) == (15.0, 15.5, 18.0)
    led = [Happening(1, 9.0, "leading", "x leads", 2), Happening(2, 10.0, "injection_began", "k: controller-kill", 2)]
    assert course(Fault("controller-kill"), led, 2, 2, "", "").code == "", "it led before"


def test_a_course_is_read_out_of_the_history() -> None:
    lines = [
        Happening(1, 10.0, "injection_began", "rank 1 (a): kill SIGKILL", 1),
        Happening(2, 10.3, "job_aborting", "generation 1 is being stopped: rank 1", 1, spans={"detection": 0.1}),
        Happening(3, 10.5, "job_starting", "generation 2 starts, 2 ranks: rank 1 was killed", 2, spans={"abort": 0.2}),
        Happening(4, 12.0, "job_working", "generation 2 is at work", 2, spans={"start": 1.5}),
    ]
    seen = course(KILL, lines, 1, 2, "rank_failed", "rank 1 was killed")
    assert (seen.began, seen.told, seen.stopped, seen.worked) == (10.0, 10.3, 10.5, 12.0)
    assert seen.phases == {"detection": 0.1, "abort": 0.2, "start": 1.5}
    assert judged(KILL, seen).outcome is Outcome.OK
    assert judged(KILL, course(KILL, lines[1:], 1, 2, "rank_failed", "rank 1")).outcome is Outcome.FAILED


CELLS = (Cell("ddp/plain", "t", Job.TORCH), Cell("ddp/join", "t", Job.TORCH))


def told(rank: int, name: str, outcome: str, why: str = "") -> str:
    return line("cell", rank, 1, name=name, outcome=outcome, why=why, seconds=0.5 + rank)


def test_a_cell_is_ok_where_every_rank_says_so() -> None:
    text = "\n".join([told(0, "ddp/plain", "ok"), "noise", told(1, "ddp/plain", "ok"), told(0, "ddp/join", "ok")])
    plain, join = results(CELLS, list(found(text)), 2, "")
    assert plain.outcome is Outcome.OK
    assert plain.seconds == 1.5
    assert join.outcome is Outcome.FAILED
    assert "rank 1 told nothing" in join.why


def test_a_rank_that_failed_is_named_and_what_nobody_came_to_is_not_run() -> None:
    text = told(0, "ddp/plain", "ok") + "\n" + told(1, "ddp/plain", "failed", "off by 3") + "\nelaunch-qualify:{broken"
    plain, join = results(CELLS, list(found(text)), 2, "the job ended with 1: killed")
    assert plain.why == "rank 1: off by 3"
    assert join.outcome is Outcome.NOT_RUN
    assert "the job ended with 1" in join.why


def test_a_job_that_ends_in_a_cell_on_all_ranks_has_failed_it() -> None:
    """As of NCCL, whose watchdog ends a rank that hangs: it tells nothing more."""
    ending = "the job ended with 134: SIGABRT"
    plain, join = results(CELLS, [], 2, ending)
    assert (plain.outcome, join.outcome) == (Outcome.FAILED, Outcome.NOT_RUN)
    assert plain.why == f"in it: {ending}"
    first = told(0, "ddp/plain", "ok") + "\n" + told(1, "ddp/plain", "ok")
    assert [one.outcome for one in results(CELLS, list(found(first)), 2, ending)] == [Outcome.OK, Outcome.FAILED]


def test_a_job_that_does_not_end_well_after_its_last_cell_has_failed_that() -> None:
    text = "\n".join(told(rank, cell.name, "ok") for cell in CELLS for rank in (0, 1))
    assert [one.outcome for one in results(CELLS, list(found(text)), 2, "")] == [Outcome.OK, Outcome.OK]
    plain, join = results(CELLS, list(found(text)), 2, "it did not end within 240 s")
    assert plain.outcome is Outcome.OK
    assert join.outcome is Outcome.FAILED
    assert "after it" in join.why


def losses(*values: tuple[int, int, float]) -> list[dict[str, Any]]:
    return [{"kind": "loss", "rank": 0, "generation": g, "step": s, "loss": loss} for g, s, loss in values]


def test_steps_that_are_done_again_have_their_losses() -> None:
    right = losses((1, 1, 0.5), (1, 2, 0.4), (2, 2, 0.4), (2, 3, 0.3))
    assert progress.identical(right) == (1, "")
    assert progress.identical(losses((1, 1, 0.5), (2, 2, 0.4))) == (0, "")
    count, why = progress.identical(losses((1, 1, 0.5), (2, 1, 0.51)))
    assert count == 0
    assert "step 1 had loss 0.5 in generation 1, and 0.51 in generation 2" in why


def test_all_steps_have_the_losses_of_the_run_that_nothing_disturbed() -> None:
    told = losses((1, 1, 0.5), (1, 2, 0.4), (2, 2, 0.4), (2, 3, 0.3))

    def quiet(*values: tuple[int, int, float]) -> list[dict[str, Any]]:
        return [{**one, "kind": "undisturbed"} for one in losses(*values)]

    assert progress.undisturbed([*told, *quiet((9, 1, 0.5), (9, 2, 0.4))]) == (3, "")
    assert "undisturbed it is 0.1" in progress.undisturbed([*told, *quiet((9, 3, 0.1))])[1]
    assert progress.undisturbed(told) == (0, "")


def test_lost_steps() -> None:
    lines = [*losses((1, 4, 0.5), (1, 7, 0.4)), {"kind": "restored", "rank": 0, "generation": 2, "step": 5}]
    assert progress.lost_steps(lines, 1, 2) == 2
    assert progress.lost_steps(lines, 1, 3) is None
