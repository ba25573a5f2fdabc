"""Which pods are made, which go, and which are left alone."""

from __future__ import annotations

from dataclasses import replace

from elaunch.kubernetes.crew import forgettable, growth_is_due, muster, unended
from elaunch.kubernetes.judging import delay
from elaunch.kubernetes.memory import Memory, Run, Slot
from elaunch.kubernetes.observed import Aside, Observed, Pod
from elaunch.kubernetes.spec import JobSpec
from tests.unit.kubernetes.makers import job, pod, seat, truth

RUNS = Memory(run=Run(1, 1, 3, "digest"), generation=1)
NOW = 1000.0


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [one.name for one in pods]


def mustered(spec: JobSpec, seen: Observed, memory: Memory = RUNS) -> tuple[list[tuple[int, int]], list[str]]:
    found = muster(spec, memory, seen, NOW)
    return list(found.create), names(found.remove)


def test_a_pod_that_is_leaving_has_its_successor_at_once_and_nobody_else_is_touched() -> None:
    pods = (pod(0), pod(1, leaving=NOW + 60), pod(2))
    assert mustered(job(replicas=3), Observed(pods=pods, truth=truth(*pods))) == ([(1, 2)], [])


def test_the_first_failure_is_replaced_at_once_and_the_next_ones_wait() -> None:
    failed = pod(code=1, phase="Failed")
    seen = Observed(pods=(failed,), truth=truth())
    for failures, made in ((1, [(0, 2)]), (2, [])):
        memory = replace(RUNS, slots=(Slot(0, 1, 1, failures, NOW - 1),))
        assert mustered(job(), seen, memory)[0] == made
    assert [delay(failures) for failures in (0, 1, 2, 3, 10)] == [0, 0, 10, 20, 300]


def test_an_incarnation_never_comes_again() -> None:
    memory = replace(RUNS, slots=(Slot(0, 6, 6),))
    assert mustered(job(), Observed(truth=truth()), memory)[0] == [(0, 7)]


def test_of_too_many_those_go_that_have_no_ranks_and_only_once_the_job_is_smaller() -> None:
    spec = job(replicas=1)
    pods = (pod(0), pod(1), pod(2))
    seats = tuple(seat(one) for one in pods)
    running = truth(*pods)
    assert mustered(spec, Observed(pods=pods, truth=running)) == ([], [])  # the job does not know yet
    told = replace(running, low=1, high=1)
    assert mustered(spec, Observed(pods=pods, truth=told)) == ([], [])  # it is still being stopped
    smaller = replace(told, members=(seats[2].node_id,))
    assert mustered(spec, Observed(pods=pods, truth=smaller)) == ([], ["job-1-1", "job-0-1"])
    assert mustered(spec, Observed(pods=pods)) == ([], [])  # nobody says who has ranks


def test_spares_are_too_many_at_once() -> None:
    pods = (pod(0), pod(1), pod(2))
    seen = Observed(pods=pods, truth=truth(*pods, members=(seat(pods[2]).node_id,), low=1, high=1))
    assert mustered(job(replicas=1, spares=1), seen) == ([], ["job-1-1"])


def test_of_two_in_one_slot_the_one_that_works_stays() -> None:
    old, new = pod(0, 1), pod(0, 2)
    assert mustered(job(), Observed(pods=(old, new), truth=truth(new))) == ([], ["job-0-1"])
    assert mustered(job(), Observed(pods=(old, new), truth=truth())) == ([], ["job-0-2"])


def test_a_pod_in_quarantine_is_replaced_once_and_not_while_it_has_ranks() -> None:
    idle, busy = pod(0, since=100.0), pod(1)
    aside = truth(busy, quarantined=(Aside("node0", 200.0, "faults"), Aside("node1", 200.0, "faults")))
    assert mustered(job(replicas=2), Observed(pods=(idle, busy), truth=aside))[1] == ["job-0-1"]
    later = replace(idle, since=300.0)  # a successor on the same machine: it was put there for want of another
    assert mustered(job(replicas=2), Observed(pods=(later, busy), truth=aside))[1] == []


def test_a_pod_whose_elaunch_has_failed_goes_though_a_sidecar_lives_on() -> None:
    seen = Observed(pods=(pod(code=71, phase="Running"),), truth=truth())
    assert mustered(job(), seen)[1] == ["job-0-1"]


def test_failed_pods_are_kept_for_their_logs_the_newest_ones() -> None:
    memory = replace(RUNS, slots=(Slot(0, 4, 4), Slot(1, 1, 0)))
    pods = [pod(0, n, code=1, phase="Failed", until=float(n)) for n in (1, 2, 3, 4)]
    pods.append(pod(1, 1, code=1, phase="Failed"))  # nobody has looked at its end yet
    assert names(tuple(forgettable(job(), memory, pods))) == ["job-0-1"]
    assert names(tuple(forgettable(job(failurePolicy={"failedPodsHistoryLimit": 0}), memory, pods))) == [
        f"job-0-{n}" for n in (1, 2, 3, 4)
    ]


def test_pods_on_a_lost_machine_are_not_waited_for() -> None:
    assert unended([pod(leaving=NOW)], NOW + 14) != []
    assert unended([pod(leaving=NOW)], NOW + 16) == []


def test_a_job_is_told_of_new_nodes_when_all_have_joined_or_after_a_minute() -> None:
    pods = (pod(0), pod(1, since=NOW))
    here = Observed(pods=pods, truth=truth(*pods))
    late = Observed(pods=pods, truth=truth(pods[0]))
    assert growth_is_due(job(replicas=2), RUNS, here, NOW) == (True, 0.0)
    assert growth_is_due(job(replicas=2), RUNS, late, NOW + 20) == (False, 40.0)
    assert growth_is_due(job(replicas=2), RUNS, late, NOW + 61)[0] is True
