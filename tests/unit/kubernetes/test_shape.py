"""Templates that are none, options that end elaunch, and jobs of thousands of pods."""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from elaunch.kubernetes.actions import Create
from elaunch.kubernetes.desired import decide
from elaunch.kubernetes.observed import Observed, Pod
from elaunch.kubernetes.spec import defects
from tests.unit.kubernetes.makers import job, pod, truth

MAIN = {"name": "main", "image": "registry.example/train:1"}
ETCD = Pod("job-etcd-0", "uid-etcd", "etcd", phase="Running", address="10.9.9.9")
AVOIDS = {"avoidedNodes": [{"node": "node7", "until": "2099-01-01T00:00:00Z"}]}
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def _template(container: dict[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return {"spec": {"containers": [MAIN | (container or {})], **pod}}


def _affinity(value: Any) -> dict[str, Any]:
    return _template(affinity={"nodeAffinity": value})


MISSHAPEN = {
    "containers[main].env has a variable without a name": _template({"env": [{"value": "1"}]}),
    "containers[main].env is 'A=1': a list": _template({"env": "A=1"}),
    "containers[main].env has 'A=1' in it": _template({"env": ["A=1"]}),
    "containers[main].volumeMounts is an object": _template({"volumeMounts": {"name": "x"}}),
    "containers[main].securityContext is no object": _template({"securityContext": []}),
    "containers[main].volumeMounts.mountPath is 7: a text": _template({"volumeMounts": [{"mountPath": 7}]}),
    "containers[main].image is a list": _template({"image": []}),
    "containers[['x']].name is a list": _template({"name": ["x"]}),
    "tolerations.key is a list": _template(tolerations=[{"key": ["x"]}]),
    "containers is an object": {"spec": {"containers": MAIN}},
    "spec.template.spec is 'abc': an object": {"spec": "abc"},
    "spec.template.spec is a list": {"spec": [MAIN]},
    "spec.template.metadata is 'abc'": {**_template(), "metadata": "abc"},
    "spec.template.metadata.labels is 'abc'": {**_template(), "metadata": {"labels": "abc"}},
    "spec.template.metadata.annotations is a list": {**_template(), "metadata": {"annotations": ["a"]}},
    f"{REQUIRED}.nodeSelectorTerms.matchFields is 'x'": _affinity(
        {REQUIRED: {"nodeSelectorTerms": [{"matchFields": "x"}]}}
    ),
    "containers has 'main' in it": {"spec": {"containers": [MAIN, "main"]}},
    "volumes is 3": _template(volumes=3),
    "tolerations is 'all'": _template(tolerations="all"),
    "tolerations has 'all' in it": _template(tolerations=["all"]),
    "affinity is 'x'": _template(affinity="x"),
    "affinity.nodeAffinity is a list": _affinity([]),
    f"affinity.nodeAffinity.{PREFERRED} is an object": _affinity({PREFERRED: {}}),
    f"affinity.nodeAffinity.{REQUIRED} has no nodeSelectorTerms": _affinity({REQUIRED: {}}),
    f"{REQUIRED}.nodeSelectorTerms has 'x' in it": _affinity({REQUIRED: {"nodeSelectorTerms": ["x"]}}),
    f"{REQUIRED}.nodeSelectorTerms.matchExpressions is 1": _affinity(
        {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": 1}]}}
    ),
}


@pytest.mark.parametrize("said", MISSHAPEN)
@pytest.mark.parametrize("avoid", ["Preferred", "Required"])
def test_a_template_of_no_form_is_refused_and_ends_nobodys_loop(said: str, avoid: str) -> None:
    spec = job(template=MISSHAPEN[said], failurePolicy={"avoidNodes": avoid})
    decision = decide(spec, AVOIDS, Observed(members=(ETCD,), truth=truth(phase="")), 0.0)
    assert decision.status["phase"] == "Invalid"
    assert said in decision.status["message"]


WHOLE = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        "hostname": "h",
        "subdomain": "s",
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "s"}],
        "securityContext": {"runAsUser": 1},
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu"}], "matchFields": [{"key": "n"}]}]
                },
                PREFERRED: [{"weight": 1, "preference": {}}],
            }
        },
        "containers": [
            MAIN
            | {
                "env": [{"name": "A", "value": "1"}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "securityContext": {"readOnlyRootFilesystem": True},
                "livenessProbe": {"exec": {"command": ["x"]}},
                "resources": {"limits": {"cpu": 1}},
            }
        ],
    },
}


def _spoilt(value: Any, wrong: Any) -> Iterator[Any]:
    """``value`` with each of its parts replaced in turn."""
    yield deepcopy(wrong)
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, part in places:
        for other in _spoilt(part, wrong):
            changed = deepcopy(value)
            changed[place] = other
            yield changed


@pytest.mark.parametrize("wrong", ["abc", "", 3, 0, True, [], ["x"], [[1]], {}, {"x": []}, None], ids=repr)
@pytest.mark.parametrize("avoid", ["Preferred", "Required"])
def test_whatever_is_of_another_type_in_a_template_raises_nothing(wrong: Any, avoid: str) -> None:
    """What is not refused here, the server refuses, and says why."""
    for template in [one for one in _spoilt(WHOLE, wrong) if isinstance(one, dict)]:
        external = {"external": {"endpoints": ["e:2379"], "secretName": "s"}}
        for etcd in ({}, external):
            spec = job(template=template, failurePolicy={"avoidNodes": avoid}, etcd=etcd)
            members = () if etcd else (ETCD,)
            decision = decide(spec, AVOIDS, Observed(members=members, truth=truth(phase="")), 0.0)
            made = [a for a in decision.actions if isinstance(a, Create) and a.kind == "pods"]
            assert (decision.status["phase"] == "Invalid") is not bool(made), template


@pytest.mark.parametrize("avoid", ["Preferred", "Required"])
def test_null_is_as_good_as_nothing(avoid: str) -> None:
    for template in (
        _template({"env": None, "volumeMounts": None, "securityContext": None}, tolerations=None, volumes=None),
        _template(affinity=None),
        _affinity(None),
        _affinity({PREFERRED: None, REQUIRED: None}),
    ):
        spec = job(template=template, failurePolicy={"avoidNodes": avoid})
        decision = decide(spec, AVOIDS, Observed(members=(ETCD,), truth=truth(phase="")), 0.0)
        assert [a.name for a in decision.actions if isinstance(a, Create) and a.kind == "pods"] == ["job-0-1"]


@pytest.mark.parametrize("option", ["--help", "-h", "--version", "--hel", "--nnode=7", "--rdzv_i=x", "--stand"])
def test_an_option_that_ends_elaunch_or_is_the_operators_is_refused_however_it_is_shortened(option: str) -> None:
    assert defects(job(options=[option])) != []
    assert defects(job(program=[option, "train.py"])) != []


def test_options_of_the_programs_own_stand_behind_it() -> None:
    assert defects(job(program=["-m", "train", "--nnodes=7", "--help"], options=["--max-restarts=3", "--", "-x"])) == []
    assert defects(job(program=["--max-restarts=3", "train.py"])) == [
        "spec.program begins with --max-restarts=3, before any script: elaunch's options stand in spec.options"
    ]


def test_a_job_of_thousands_of_pods_leaves_the_others_their_turn() -> None:
    """Where each pod is compared with each this takes minutes, and the operator loses its Lease in between."""
    many = 2000
    pods = tuple(pod(slot, address=f"10.1.{slot // 256}.{slot % 256}") for slot in range(many))
    spec = job(replicas=many)
    began = time.process_time()
    status: Any = {}
    made: list[str] = []
    for _ in range(many // 500):
        here = tuple(one for one in pods if one.name in made)
        decision = decide(spec, status, Observed(pods=here, members=(ETCD,), truth=truth(phase="")), 0.0)
        status = decision.status
        made += [a.name for a in decision.actions if isinstance(a, Create) and a.kind == "pods"]
        assert decision.again is not None
    assert sorted(made) == sorted(one.name for one in pods)
    decide(spec, status, Observed(pods=pods, members=(ETCD,), truth=truth(*pods)), 0.0)
    assert time.process_time() - began < 20
