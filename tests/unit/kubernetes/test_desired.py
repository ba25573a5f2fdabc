"""What is decided at the edges: when a job is over, while its etcd is not there yet, when its spec is another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elaunch.kubernetes.actions import Create, Decision, Remove
from elaunch.kubernetes.deciding import LOOK, SOON
from elaunch.kubernetes.desired import decide
from elaunch.kubernetes.memory import Memory, Run, Slot, inscribe, recall
from elaunch.kubernetes.observed import OVERDUE, Observed, Pod
from elaunch.kubernetes.stopping import FAREWELL
from tests.unit.kubernetes.makers import job, pod, truth

NOW = 5000.0
RUNS = Memory(run=Run(1, 1, 1, job().digest), generation=1, cluster="c0ffee")
OVER = replace(RUNS, outcome="Succeeded", over=NOW)
DONE = truth(phase="succeeded", final="succeeded", horizon=1)
ETCD = Pod("job-etcd-0", "u", "etcd", address="10.0.0.9")
BESIDE = pod(code=0, phase="Running")  # another container of it runs on


def test_a_container_beside_keeps_the_pod_of_a_job_that_is_over_only_for_a_while() -> None:
    for etcd in (DONE, None):
        soon = decide(job(), inscribe(OVER), Observed(pods=(BESIDE,), truth=etcd), NOW + 1)
        assert [action for action in soon.actions if isinstance(action, Remove) and action.kind == "pods"] == []
        assert soon.again is not None
        assert soon.again <= FAREWELL
    later = decide(job(), inscribe(OVER), Observed(pods=(BESIDE,), truth=DONE), NOW + FAREWELL + 1)
    assert [action.name for action in later.actions if isinstance(action, Remove)] == [BESIDE.name]


def test_a_job_of_which_nothing_is_left_to_do_is_looked_at_no_more() -> None:
    ended = Observed(pods=(pod(code=0, phase="Succeeded"),))
    decision = decide(job(), inscribe(OVER), ended, NOW + 100)
    assert (decision.actions, decision.again) == ((), None)
    waits = decide(job(ttlSecondsAfterFinished=300), inscribe(OVER), ended, NOW + 100)
    assert (waits.actions, waits.again) == ((), 200.0)


def test_a_pod_that_still_stops_is_waited_for_at_the_end() -> None:
    stops = Observed(pods=(pod(leaving=NOW + 130),))
    assert decide(job(), inscribe(OVER), stops, NOW + 100).again == LOOK


def test_an_etcd_without_an_address_is_not_asked_for_all_the_time() -> None:
    """One that has no room in the cluster may be waited for for days; an event tells when it has."""
    placed = Pod("job-etcd-0", "u", "etcd", address="10.0.0.9")
    assert decide(job(), {}, Observed(members=(replace(placed, address=""),)), NOW).again == LOOK
    assert decide(job(), {}, Observed(members=(placed,)), NOW).again == SOON


def test_a_pods_name_that_another_still_has_is_waited_for_and_told() -> None:
    """The pods of an ElasticJob of that name that was deleted may take their time to end."""
    member = Pod("job-etcd-0", "u", "etcd", address="10.0.0.9")
    seen = Observed(members=(member,), strangers=("job-0-1",), truth=truth(phase=""))
    decision = decide(job(replicas=2), {}, seen, NOW)
    made = [action.name for action in decision.actions if isinstance(action, Create) and action.kind == "pods"]
    assert made == ["job-1-1"]
    assert decision.status["message"] == "job-0-1 belongs to another owner; it is waited for"


def test_a_success_outlives_the_etcd_that_knew_of_it() -> None:
    """Of an etcd that comes back empty a pod that ended with 0 is the only one to tell."""
    done = pod(code=0, phase="Succeeded")
    empty = truth(cluster="decaf", phase="", generation=0)
    decision = decide(job(), inscribe(RUNS), Observed(pods=(done,), truth=empty), NOW)
    assert (decision.status["phase"], decision.memory.run) == ("Succeeded", RUNS.run)
    assert [note.reason for note in decision.notes] == ["Succeeded"]
    failed = decide(job(), inscribe(RUNS), Observed(pods=(pod(code=1, phase="Failed"),), truth=empty), NOW)
    assert (failed.status["phase"], failed.memory.run.number) == ("Pending", 2)


def test_of_a_job_that_is_over_an_empty_etcd_starts_nothing() -> None:
    empty = Observed(pods=(pod(code=0, phase="Succeeded"),), truth=truth(cluster="decaf", phase="", generation=0))
    decision = decide(job(), inscribe(OVER), empty, NOW + 1)
    assert (decision.notes, decision.memory.run) == ((), RUNS.run)


def test_a_job_that_is_preempted_again_and_again_is_put_off_longer_each_time() -> None:
    status, now, waits = inscribe(RUNS), NOW, []
    for number in (1, 2, 3):
        ended = truth(phase="stopped", final="stopped", exit_code=85, horizon=number, text="preempted")
        gone = pod(0, number, run=number, code=85, phase="Failed", since=now, until=now)
        judged = decide(job(), status, Observed(pods=(gone,), members=(ETCD,), truth=ended), now)
        waits.append(judged.again if "in a row" in judged.status["message"] else 0.0)
        assert judged.memory.replacements == 0
        early = [a for a in judged.actions if isinstance(a, Create) and a.kind == "pods"]
        assert bool(early) is not bool(waits[-1])
        now += 30.0
        begun = decide(job(), judged.status, Observed(members=(ETCD,), truth=ended), now)
        assert [a.kind for a in begun.actions if isinstance(a, Create) and a.kind == "pods"] == ["pods"]
        status = begun.status
    assert waits == [0.0, 10.0, LOOK]  # 20 s, in which it looks once more
    assert recall(status).run.failures == 3


def test_a_job_that_ran_well_in_between_begins_at_once() -> None:
    memory = replace(RUNS, run=replace(RUNS.run, failures=5, failed=NOW))
    ended = truth(phase="stopped", final="stopped", exit_code=85, horizon=9)
    assert decide(job(), inscribe(memory), Observed(truth=ended), NOW + 700).memory.run.failures == 1
    assert decide(job(), inscribe(memory), Observed(truth=ended), NOW + 100).memory.run.failures == 6


LOST = replace(ETCD, leaving=NOW, node="node9")
TWO = job(replicas=2)
BEFORE = replace(RUNS, run=Run(1, 2, 2, TWO.digest), generation=4)
HALF = (pod(0, leaving=NOW - 5, node="node9"), pod(1, code=69, phase="Failed", until=NOW))


def made(decision: Decision) -> list[str]:
    return [action.name for action in decision.actions if isinstance(action, Create) and action.kind == "pods"]


def floors(decision: Decision) -> list[str]:
    pods = [action.manifest for action in decision.actions if isinstance(action, Create) and action.kind == "pods"]
    variables = [variable for manifest in pods for variable in manifest["spec"]["containers"][0]["env"]]
    return [variable["value"] for variable in variables if variable["name"] == "ELAUNCH_POD_FLOOR"]


def forced(decision: Decision) -> list[str]:
    return [action.name for action in decision.actions if isinstance(action, Remove) and action.force]


def test_no_pod_is_made_before_the_etcd_that_takes_a_lost_ones_place_has_begun_the_run_anew() -> None:
    """It would have the old floor, and the job in the new etcd would begin below all that the old one knew."""
    gone = Observed(pods=HALF, members=(LOST,), lost_nodes=("node9",), silent_nodes=("node9",))
    rescued = decide(TWO, inscribe(BEFORE), gone, NOW + 1)
    assert (forced(rescued), made(rescued)) == (["job-etcd-0"], [])
    silent = Observed(pods=HALF, members=(ETCD,), silence="it does not answer")
    waits = decide(TWO, rescued.status, silent, NOW + 2)
    assert (made(waits), waits.again) == ([], SOON)
    assert waits.status["message"] == "etcd does not answer yet: it does not answer"
    empty = Observed(pods=HALF, members=(ETCD,), truth=truth(cluster="decaf", phase="", generation=0))
    anew = decide(TWO, waits.status, empty, NOW + 3)
    assert (made(anew), anew.memory.run.number, anew.memory.floor) == ([], 2, 1004)
    assert anew.again is not None
    assert NOW + 3 + anew.again == pytest.approx(NOW - 5 + OVERDUE, abs=1)  # no longer than for the pod that is lost
    begun = decide(TWO, anew.status, empty, NOW - 5 + OVERDUE + 0.5)
    assert made(begun) == ["job-0-2", "job-1-2"]
    assert floors(begun) == ["1004", "1004"]


def test_an_etcd_with_storage_that_is_silent_keeps_no_pod_from_being_made() -> None:
    kept = job(etcd={"managed": {"storage": {"size": "1Gi"}}})
    memory = replace(RUNS, run=Run(1, 1, 1, kept.digest))
    assert made(decide(kept, inscribe(memory), Observed(members=(ETCD,)), NOW)) == ["job-0-1"]


def test_an_etcd_on_a_silent_machine_has_its_grace_and_on_one_that_only_is_not_ready_longer() -> None:
    unready = Observed(members=(LOST,), lost_nodes=("node9",))
    silent = replace(unready, silent_nodes=("node9",))
    well = replace(unready, lost_nodes=())
    for seen, until in ((unready, NOW + OVERDUE), (silent, NOW)):
        early, late = (decide(TWO, inscribe(BEFORE), seen, at) for at in (until - 4, until + 1))
        assert (forced(early), forced(late)) == ([], ["job-etcd-0"])
        assert early.again == pytest.approx(4.2)
    assert forced(decide(TWO, inscribe(BEFORE), well, NOW + 100)) == []
    kept = job(etcd={"managed": {"storage": {"size": "1Gi"}}})
    assert forced(decide(kept, inscribe(RUNS), silent, NOW + 100)) == []


def test_what_the_operator_takes_away_for_another_etcd_is_nobodys_fault() -> None:
    """Neither while it stops, nor once it has ended, nor is the etcd's loss the fault of who waited for it in vain."""
    here = (pod(0), pod(1))
    empty = Observed(pods=here, members=(ETCD,), truth=truth(cluster="decaf", phase="", generation=0))
    anew = decide(TWO, inscribe(BEFORE), empty, NOW)
    assert sorted(a.name for a in anew.actions if isinstance(a, Remove)) == ["job-0-1", "job-1-1"]
    for end in ({"leaving": NOW}, {"leaving": NOW, "code": 137, "phase": "Failed"}, {"code": 1, "phase": "Failed"}):
        ended = replace(empty, pods=tuple(replace(one, **end) for one in here))
        judged = decide(TWO, anew.status, ended, NOW + 1).memory
        assert judged.replacements == 0, end
        assert [slot.failures for slot in judged.slots] == [0, 0], end
    waited = decide(TWO, inscribe(BEFORE), Observed(pods=HALF, members=(LOST,)), NOW).memory
    assert (waited.replacements, waited.slot(1)) == (0, Slot(1, 1, 1))
    alone = Observed(pods=HALF, members=(ETCD,), truth=truth(pod(0), generation=4))
    assert decide(TWO, inscribe(BEFORE), alone, NOW).memory.replacements == 1  # etcd answers others
