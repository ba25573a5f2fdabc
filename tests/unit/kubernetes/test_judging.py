"""How ends are judged: once each, and by what the job's leader says rather than by an exit code alone."""

from __future__ import annotations

from dataclasses import replace

from elaunch.kubernetes.judging import judge_job, judge_pods, learn
from elaunch.kubernetes.memory import Memory, Run, inscribe, recall
from elaunch.kubernetes.observed import Observed
from tests.unit.kubernetes.makers import job, pod, truth

RUNS = Memory(run=Run(1, 1, 1, "digest"), generation=1)
NOW = 1000.0


def seen(*pods, **values):  # type: ignore[no-untyped-def]
    return Observed(pods=tuple(pods), truth=truth(**values))


def test_a_failed_pod_is_counted_once_also_by_an_operator_that_comes_later() -> None:
    failed = pod(code=1, phase="Failed", until=NOW)
    once = judge_pods(job(), RUNS, seen(failed), NOW)
    again = judge_pods(job(), recall(inscribe(once)), seen(failed), NOW + 5)
    assert (once.replacements, again.replacements) == (1, 1)


def test_eviction_and_preemption_count_nothing() -> None:
    for how in ({"code": 85}, {"code": 143}, {"code": 137, "reason": "Evicted"}, {"code": 1, "leaving": NOW}):
        judged = judge_pods(job(), RUNS, seen(pod(phase="Failed", **how)), NOW)
        assert (judged.replacements, judged.slot(0).judged) == (0, 1), how


def test_a_fault_of_the_node_makes_it_avoided() -> None:
    judged = judge_pods(job(), RUNS, seen(pod(code=71, phase="Failed", until=NOW)), NOW)
    assert [(a.node, a.until) for a in judged.avoided] == [("node0", NOW + 3600)]


def test_a_pod_that_its_node_could_not_start_is_the_nodes_fault() -> None:
    judged = judge_pods(job(), RUNS, seen(pod(phase="Failed", reason="UnexpectedAdmissionError")), NOW)
    assert [a.node for a in judged.avoided] == ["node0"]


def test_without_etcd_a_programs_code_is_not_judged_before_it_could_be_the_jobs_end() -> None:
    failed = pod(code=1, phase="Failed", until=NOW)
    silent = Observed(pods=(failed,))
    assert judge_pods(job(), RUNS, silent, NOW + 30).replacements == 0
    assert judge_pods(job(), RUNS, silent, NOW + 61).replacements == 1
    ended = Observed(pods=(failed,), truth=truth(final="failed", phase="failed", exit_code=1, text="rank 0 failed"))
    memory, _ = judge_job(job(), RUNS, ended, NOW + 30)
    assert (memory.outcome, memory.reason, memory.message) == ("Failed", "ProgramFailed", "rank 0 failed")


def test_a_final_state_of_an_earlier_run_is_none_of_this_one() -> None:
    old = seen(pod(), final="failed", phase="failed", exit_code=1, horizon=7)
    memory, _ = judge_job(job(), replace(RUNS, run=replace(RUNS.run, horizon=7)), old, NOW)
    assert memory.outcome == ""


def test_a_job_that_wants_another_try_gets_one_and_it_counts() -> None:
    too_few = seen(pod(code=75, phase="Failed"), final="failed", phase="failed", exit_code=75, horizon=7)
    memory, notes = judge_job(job(), RUNS, too_few, NOW)
    assert (memory.outcome, memory.replacements, memory.run) == ("", 1, Run(2, horizon=7, failures=1, failed=NOW))
    assert [note.reason for note in notes] == ["JobRestarted"]


def test_too_many_replacements_end_the_job() -> None:
    spec = job(failurePolicy={"maxReplacements": 1})
    memory = judge_pods(spec, RUNS, seen(pod(code=1, phase="Failed", until=NOW)), NOW)
    assert memory.outcome == ""
    memory = judge_pods(spec, memory, seen(pod(0, 2, code=1, phase="Failed", until=NOW)), NOW)
    assert (memory.outcome, memory.reason) == ("Failed", "TooManyReplacements")


def test_bad_input_fails_a_job_of_which_nothing_ever_ran_and_else_only_the_pod() -> None:
    bad = pod(code=2, phase="Failed", until=NOW, message="elaunch: error: --nope")
    assert judge_pods(job(), replace(RUNS, generation=0), seen(bad), NOW).reason == "BadInput"
    assert judge_pods(job(), RUNS, seen(bad), NOW).outcome == ""
    unreached = replace(bad, message="elaunch: error: rendezvous: etcd at 10.0.0.1:2379 did not answer within 5 s")
    assert judge_pods(job(), replace(RUNS, generation=0), seen(unreached), NOW).replacements == 1


def test_an_etcd_without_its_data_begins_another_run_above_all_generations() -> None:
    before = replace(RUNS, cluster="c0ffee", generation=41, line=12)
    after, notes = learn(before, truth(cluster="decaf", phase="", generation=0))
    assert (after.floor, after.line, after.run.number, after.run.begun) == (1041, -1, 2, False)
    assert [note.reason for note in notes] == ["EtcdDataLost"]
    twice, _ = learn(after, truth(cluster="beef", phase="", generation=0))
    assert twice.floor == 2041  # some may have run above the first floor that nobody has seen


def test_memory_is_what_the_status_says() -> None:
    memory = judge_pods(job(), RUNS, seen(pod(code=71, phase="Failed", until=NOW)), NOW)
    told = replace(memory, cluster="c0ffee", line=3, step=40, begun=NOW, outcome="Failed", reason="X", over=NOW)
    assert recall(inscribe(told)) == told


def test_the_machine_of_the_rank_at_fault_is_avoided_by_its_own_name() -> None:
    """An agent knows the host by what its pod is called."""
    at_fault = pod(0, code=71, phase="Failed")
    ended = seen(
        at_fault, pod(1), final="failed", phase="failed", exit_code=95, horizon=7, fault_host=at_fault.name, text="gone"
    )
    memory, _ = judge_job(job(), RUNS, ended, NOW)
    assert [a.node for a in memory.avoided] == [at_fault.node]


def test_what_counts_nothing_is_put_off_all_the_same_when_it_comes_again_and_again() -> None:
    for how in ({"code": 143}, {"reason": "NodeAffinity"}):
        memory = RUNS
        for incarnation in (1, 2, 3):
            gone = pod(0, incarnation, phase="Failed", since=NOW, until=NOW, **how)
            memory = judge_pods(job(), memory, seen(gone), NOW)
        assert (memory.replacements, memory.slot(0).failures) == (0, 3), how


def test_one_that_was_deleted_again_and_again_is_not_put_off() -> None:
    gone = pod(phase="Failed", code=137, leaving=NOW)
    assert judge_pods(job(), RUNS, seen(gone), NOW).slot(0).failures == 0
