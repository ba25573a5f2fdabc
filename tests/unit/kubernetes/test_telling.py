"""What is told of a job: its history as Events, its leader's word as the operator takes it, its conditions."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.survey import Overview
from elaunch.kubernetes.actions import Note, Scale
from elaunch.kubernetes.desired import decide
from elaunch.kubernetes.eventing import events
from elaunch.kubernetes.job_view import because, truth
from elaunch.kubernetes.observed import Observed, Truth
from elaunch.rendezvous.journal import Happening, Operation, Standing
from elaunch.rendezvous.memory import HostRecord
from elaunch.rendezvous.records import Checkpoint, Phase, Reason, Spec
from elaunch.rendezvous.state import State
from tests.unit.kubernetes.makers import job, pod
from tests.unit.kubernetes.makers import truth as truly

STATE = State(Phase.RUNNING, 4, 2, Reason("rank_failed", "rank 1 failed"), min_nodes=2, max_nodes=3)
SEEN = Overview("j", STATE, Spec(1, 2, 0, {}), None, None, 0, (), (), Checkpoint(40, "/c", 4, 2, "00"))


def scale(standing: Standing, asked: int = 1) -> Operation:
    sizes = {"min_nodes": 2, "max_nodes": 5}
    return Operation("id", "scale", "who", 0.0, because(asked), sizes, standing, "fixed world")


def test_the_leaders_word() -> None:
    found = truth(SEEN, "c", 1, (), 0.0)
    assert (found.generation, found.restarts, found.step) == (4, 2, 40)
    assert (found.low, found.high) == (2, 3)  # an operator's, not those of the spec
    unscaled = replace(SEEN, state=replace(STATE, min_nodes=0, max_nodes=0))
    assert (truth(unscaled, "c", 1, (), 0.0).low, truth(unscaled, "c", 1, (), 0.0).high) == (1, 2)


def test_a_command_that_is_open_is_not_given_again_and_one_that_was_refused_neither() -> None:
    assert truth(replace(SEEN, operations=(scale(Standing.ACCEPTED),)), "c", 1, (), 0.0).asked == ((2, 5),)
    refused = replace(SEEN, operations=(replace(scale(Standing.REFUSED), exit_code=68),))
    told = truth(refused, "c", 1, (), 0.0)
    assert (told.denied, told.retry) == ("fixed world", 0.0)
    assert truth(refused, "c", 2, (), 0.0).denied == ""  # the resource has changed since: another try


def test_a_command_that_came_to_nothing_is_given_again_after_a_pause() -> None:
    lapsed = replace(scale(Standing.FAILED), at=1000.0, exit_code=67)
    once = truth(replace(SEEN, operations=(lapsed,)), "c", 1, (), 0.0)
    again = truth(replace(SEEN, operations=(lapsed, replace(lapsed, at=2000.0))), "c", 1, (), 0.0)
    assert (once.denied, once.retry, again.retry) == ("fixed world", 1015.0, 2030.0)
    spec = job(replicas=2)
    pods = (pod(0), pod(1))
    run = {"number": 1, "minNodes": 1, "maxNodes": 1, "templateHash": spec.digest}
    seen = replace(truly(*pods, low=1, high=1), denied="lapsed", retry=1015.0)
    soon = decide(spec, {"run": run}, Observed(pods=pods, truth=seen), 1010.0)
    assert (soon.again, [a for a in soon.actions if isinstance(a, Scale)]) == (5.0, [])
    later = decide(spec, {"run": run}, Observed(pods=pods, truth=seen), 1016.0)
    assert [a for a in later.actions if isinstance(a, Scale)] == [Scale(2, 2, 1)]


def test_hosts_in_quarantine() -> None:
    aside = HostRecord("n1", since=100.0, until=200.0, reason="3 faults")
    found = replace(SEEN, state=replace(STATE, hosts=(aside, HostRecord("n2"))))
    assert [a.host for a in truth(found, "c", 1, (), 150.0).quarantined] == ["n1"]
    assert truth(found, "c", 1, (), 250.0).quarantined == ()


def test_each_line_of_the_history_is_one_event_whoever_tells_it() -> None:
    lines = (Happening(1, 10.0, "job_failed", "the job has failed"), Happening(2, 11.0, "node_joined", "n joined"))
    seen = truly(lines=lines)
    told = events(job(), seen, (Note("PodReplaced", "text", "job-0-2"),), 12.0)
    again = events(job(), seen, (Note("PodReplaced", "text", "job-0-2"),), 99.0)
    assert [(e["reason"], e["type"]) for e in told] == [("JobFailed", "Warning"), ("PodReplaced", "Normal")]
    assert [e["metadata"]["name"] for e in told] == [e["metadata"]["name"] for e in again]
    other = events(job(), replace(seen, cluster="another"), (), 12.0)
    assert other[0]["metadata"]["name"] != told[0]["metadata"]["name"]


def test_a_generation_that_ends_for_growth_is_no_warning() -> None:
    lines = (
        Happening(1, 0.0, "job_aborting", "generation 1 is being stopped: node n joined"),
        Happening(2, 0.0, "job_aborting", "generation 2 is being stopped: rank 1 was killed by SIGKILL"),
    )
    assert [e["type"] for e in events(job(), truly(lines=lines), (), 0.0)] == ["Normal", "Warning"]


def test_a_condition_changes_its_time_with_its_status_only() -> None:
    spec, pods = job(), (pod(),)
    first = decide(spec, {}, Observed(pods=pods, truth=truly(*pods)), 1000.0).status
    status = {**first, "run": {**first["run"], "minNodes": 1, "maxNodes": 1, "templateHash": spec.digest}}
    second = decide(spec, status, Observed(pods=pods, truth=truly(*pods)), 2000.0).status
    third = decide(spec, second, Observed(pods=pods, truth=truly(*pods)), 3000.0).status
    ready = [next(c for c in s["conditions"] if c["type"] == "Ready") for s in (second, third)]
    assert [c["status"] for c in ready] == ["True", "True"]
    assert ready[0]["lastTransitionTime"] == ready[1]["lastTransitionTime"]


def test_fewer_nodes_than_wanted_are_a_job_that_runs_degraded() -> None:
    spec = job(replicas=2, minReplicas=1)
    run = {"number": 1, "minNodes": 1, "maxNodes": 2, "templateHash": spec.digest}
    seen = Observed(pods=(pod(0), pod(1)), truth=truly(pod(0), low=1, high=2))
    conditions = {c["type"]: c for c in decide(spec, {"run": run}, seen, 10.0).status["conditions"]}
    assert (conditions["Ready"]["status"], conditions["Degraded"]["reason"]) == ("True", "FewerNodes")


def test_a_command_is_given_once_and_not_again_after_a_refusal() -> None:
    spec = job(replicas=2)
    run = {"number": 1, "minNodes": 1, "maxNodes": 1, "templateHash": spec.digest}
    pods = (pod(0), pod(1))
    bigger = replace(truly(*pods, low=1, high=1), members=(truly(pods[0]).members))

    def commands(seen: Truth) -> list[Scale]:
        decision = decide(spec, {"run": run}, Observed(pods=pods, truth=seen), 10.0)
        return [action for action in decision.actions if isinstance(action, Scale)]

    assert commands(bigger) == [Scale(2, 2, 1)]
    assert commands(replace(bigger, asked=((2, 2),))) == []
    assert commands(replace(bigger, denied="it needs its world")) == []
    assert commands(replace(bigger, low=2, high=2)) == []


def test_a_generation_of_before_etcd_was_lost_is_none_that_runs() -> None:
    spec, pods = job(replicas=2), (pod(0), pod(1))
    run = {"number": 1, "minNodes": 2, "maxNodes": 2, "templateHash": spec.digest}
    status = {"run": run, "generationFloor": 1004, "generation": 4}
    old = Observed(pods=pods, truth=truly(*pods, generation=2, code="node_lost", text="lost job-0-4"))
    told = decide(spec, status, old, 10.0).status
    ready = next(c for c in told["conditions"] if c["type"] == "Ready")
    assert (told["phase"], told["reason"], ready["status"]) == ("Starting", "OutdatedGeneration", "False")
    assert told["message"] == "generation 2 is one of before etcd was lost: one above 1004 is waited for"
    new = decide(spec, status, replace(old, truth=truly(*pods, generation=1005)), 10.0).status
    ready = next(c for c in new["conditions"] if c["type"] == "Ready")
    assert (new["phase"], ready["message"]) == ("Running", "generation 1005 runs on 2 of 2 nodes, 2 ranks")
