"""Manifests from wishes, and what kubectl's complaints mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from elaunch import errors
from elaunch.cli import kubernetes
from elaunch.cli.main import main
from elaunch.controller.preemption import EXIT_WORK_REMAINS
from elaunch.errors import UsageError
from elaunch.schedulers.kubectl_words import complaint
from elaunch.schedulers.manifests import AGAIN, COUNTED, documents_of
from elaunch.schedulers.pod_wishes import wishes_of
from elaunch.schedulers.yaml_text import documents
from tests.unit.deploy.reading import check

BASE = {"image": "i", "program": ["train.py"]}
KINDS = ("job", "jobset", "elasticjob")


def made(**wishes: Any) -> list[dict[str, Any]]:
    return documents_of(wishes_of({**BASE, **wishes}))


def container(document: dict[str, Any]) -> dict[str, Any]:
    spec = document["spec"]
    if "replicatedJobs" in spec:
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    found: dict[str, Any] = spec["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"nodes": 4, "spares": 1, "min_nodes": 2, "gpus": 8, "shm": "1Gi", "namespace": "ml"},
        {"volumes": ["a.b:/data"], "env": ["A=b"], "queue": "q", "priority": "p", "node_selector": ["a/b=c"]},
        {"etcd": "e:2379", "tolerate": ["gpu"], "service_account": "s", "options": ["--quiet"]},
    ],
)
def test_every_wish_makes_objects_that_the_newest_kubernetes_knows(kind: str, more: dict[str, Any]) -> None:
    for document in made(kind=kind, **more):
        check(document)
        assert document["metadata"]["labels"]["elaunch.dev/job"] == "elaunch"


@pytest.mark.parametrize("kind", ["job", "jobset"])
def test_pods_are_counted_and_options_stand_before_the_program(kind: str) -> None:
    job = made(kind=kind, nodes=3, spares=1, min_nodes=2, gpus=8, options=["--quiet"], program=["a b.py", "--x"])[0]
    found = container(job)
    assert found["args"] == ["--spares=1", "--min-nodes=2", "--nproc-per-node=8", "--quiet", "a b.py", "--x"]
    env = {one["name"]: one.get("value") for one in found["env"]}
    assert (env["ELAUNCH_POD_COUNT"], env["ELAUNCH_GRACE_PERIOD"]) == ("4", "60")
    assert found["resources"]["limits"]["nvidia.com/gpu"] == 8


def test_exit_codes_decide_as_the_page_about_them_says() -> None:
    job, _ = made(kind="job")
    ignore, again, fail = job["spec"]["podFailurePolicy"]["rules"]
    assert ignore["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert again == {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [85, 143]}}
    assert fail["onExitCodes"]["operator"] == "NotIn"
    assert EXIT_WORK_REMAINS in AGAIN
    retried = {errors.EtcdLostError, errors.StartError, errors.JoinTimeoutError, errors.NoRouteError}
    assert {error.exit_code for error in retried} <= set(COUNTED)
    program = {1, 2, 65, 77, 91, 92, 93, 94, 96}
    assert not program & set(fail["onExitCodes"]["values"])
    assert fail["onExitCodes"]["values"] == sorted(set(fail["onExitCodes"]["values"]))  # the server insists on it


def test_the_service_names_the_pods_of_the_job_and_no_others() -> None:
    job, service = made(kind="job", name="a")
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"nodes": 0}, "nodes=0: expected a whole number, 1 or more"),
        ({"nodes": True}, "nodes=True: expected a whole number"),
        ({"nodes": 2, "min_nodes": 3}, "min_nodes=3: expected 2 at most"),
        ({"kind": "pod"}, "kind=pod: expected one of elasticjob, job, jobset"),
        ({"name": "Train_1"}, "name=Train_1: expected letters a to z"),
        ({"name": ""}, "name=: expected letters"),
        ({"name": "3d"}, "name=3d: expected a letter first"),
        ({"env": ["A=\0"]}, "env=A=.*: expected NAME=VALUE"),
        ({"cpus": 2}, 'cpus=2: expected a quantity such as "2", in quotes'),
        ({"memory": "lots"}, "memory=lots: expected a quantity"),
        ({"volumes": ["data"]}, "volumes=data: expected CLAIM:/PATH"),
        ({"env": ["1=2"]}, "env=1=2: expected NAME=VALUE"),
        ({"nods": 2}, "nods: there is no such setting; there are .*nodes"),
        ({"image": ""}, "image: expected the container image"),
        ({"program": []}, "program: expected the script"),
        ({"image": "a b"}, "image='a b': expected a text without spaces"),
        ({"etcd": "e:1", "etcd_storage": "1Gi"}, "etcd_storage: is for an etcd of the job's own"),
        ({"kind": "job", "etcd_storage": "1Gi"}, "etcd_storage: only an ElasticJob"),
    ],
)
def test_wishes_that_make_no_job_are_named(values: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        wishes_of({**BASE, **values})


def test_a_file_of_wishes_is_read_and_options_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tomllib", reason="Python 3.11 is the first that reads TOML")
    file = tmp_path / "job.toml"
    file.write_text(
        'kind = "job"\nimage = "i"\nnodes = 3\nprogram = ["train.py", "--lr", "1"]\nvolumes = ["data:/data"]\n'
    )
    assert main(["kubernetes", "render", f"--file={file}", "--nodes=5"]) == 0
    job, service = yaml.safe_load_all(capsys.readouterr().out)
    assert (job["spec"]["completions"], service["kind"]) == (5, "Service")
    assert container(job)["args"] == ["train.py", "--lr", "1"]
    with pytest.raises(UsageError, match=r"no.toml: No such file"):
        kubernetes.run(["render", f"--file={tmp_path}/no.toml"], {})
    file.write_text("kind = job\n")
    with pytest.raises(UsageError, match=r"job.toml: is no TOML: .*line 1.*; texts stand in quotes"):
        kubernetes.run(["render", f"--file={file}"], {})


def test_a_dry_run_of_the_client_asks_nobody(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(["kubernetes", "submit", "--dry-run=client", "--image=i", "--kind=job", "train.py"]) == 0
    assert capsys.readouterr().out.startswith("apiVersion: batch/v1\nkind: Job\n")
    assert main(["kubernetes", "submit", "--image=i", "--kind=job", "train.py"]) == 69
    assert capsys.readouterr().err == "elaunch: error: kubernetes submit: kubectl is not installed here\n"


def test_a_value_of_several_lines_is_one_value() -> None:
    (document, *_) = made(env=["KEY=-----BEGIN-----\nabc\n"])
    assert {"name": "KEY", "value": "-----BEGIN-----\nabc\n"} in container(document)["env"]


@pytest.mark.parametrize("given", ["llm", "elasticjob.elaunch.dev/llm"])
def test_an_elastic_job_is_deleted_by_its_name_and_all_else_by_its_label(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that kubectl has made has no label, but its services have: without them it would only look deleted."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "kind/$2"\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert main(["kubernetes", "delete", given]) == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [" ".join(line.split()[1:4]) for line in asked] == [
        "elasticjobs.elaunch.dev llm --ignore-not-found",
        *(f"{k} --selector=elaunch.dev/job=llm -o" for k in ("jobsets.jobset.x-k8s.io", "jobs.batch", "services")),
    ]


@pytest.mark.parametrize("what", ["logs", "delete"])
@pytest.mark.parametrize("name", ["", "llm,other", "../llm/", "a=b", "ä", "--"])
def test_a_name_that_no_job_has_is_asked_of_nobody(
    what: str, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(["kubernetes", what, name]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_wrong_options_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kubernetes", "render", "--nodes=many", "x"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["kubernetes", "render", "train.py"]) == 2
    assert "image: expected" in capsys.readouterr().err


def test_without_its_libraries_the_operator_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elaunch.cli.kubernetes_operator.importlib.util.find_spec", lambda name: None)
    assert main(["kubernetes", "operator"]) == 2
    assert "pip install 'elaunch[kubernetes]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "code", "text"),
    [
        ('Error from server (AlreadyExists): jobs.batch "a" already exists', 68, "already exists"),
        ('Error from server (Forbidden): jobs.batch is forbidden: User "x" cannot create', 77, "Forbidden"),
        ('Error from server (Forbidden): pods "a" is forbidden: exceeded quota: q', 68, "exceeded quota"),
        ('The ElasticJob "a" is invalid: spec.replicas: Invalid value: 0', 2, "spec.replicas"),
        ('Error from server (NotFound): namespaces "ml" not found', 66, "ml"),
        ('error: resource mapping not found: no matches for kind "ElasticJob" in version "v"', 66, "kubectl apply -k"),
        ('error: the server doesn\'t have a resource type "jobsets"', 66, "--kind=job"),
        ("The connection to the server localhost:8080 was refused", 69, "refused"),
        ("Unable to connect to the server: dial tcp: no such host", 69, "no such host"),
        ("error: You must be logged in to the server (Unauthorized)", 77, "logged in"),
        ('error: error validating "STDIN": unknown field "spec.x"', 2, "spec.x"),
        (
            'error: error validating "STDIN": error validating data: failed to download openapi: Get "http://x": '
            "connection refused; if you choose to ignore these errors, turn validation off with --validate=false",
            69,
            "connection refused",
        ),
        ("kubectl did not answer within 60 s", 74, "60 s"),
        ("", 69, "nothing"),
    ],
)
def test_complaints_have_codes_of_their_own(said: str, code: int, text: str) -> None:
    found = complaint(said)
    assert found.exit_code == code
    assert text in found.text
    assert "--validate" not in found.text


TEXTS = st.one_of(
    st.text(max_size=20), st.sampled_from(["yes", "NO", "null", "~", "1e3", "0x1", "- a", "a: b", "#", "a\nb"])
)
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-10, 10_000), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), min_size=1, max_size=3))
def test_what_is_written_as_yaml_is_read_back(values: list[dict[str, Any]]) -> None:
    assert list(yaml.safe_load_all(documents(values))) == values
