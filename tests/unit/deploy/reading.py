"""The manifests of deploy/kubernetes, as they lie there and as kustomize builds them."""

from __future__ import annotations

import copy
import functools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

KUBERNETES = Path(__file__).parents[3] / "deploy" / "kubernetes"
OVERLAYS = ("base", "overlays/dev", "overlays/production")
Document = dict[str, Any]
_CUSTOM = ("ElasticJob", "JobSet", "TrainJob", "Kustomization")


def read(path: Path) -> list[Document]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


@functools.cache
def no_kustomize() -> str:
    """Why the overlays cannot be built here; "" where they can."""
    if shutil.which("kubectl") is None:
        return "there is no kubectl, whose kustomize builds the overlays"
    run = subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    version = json.loads(run.stdout or "{}").get("kustomizeVersion", "v2 or older")
    return "" if version >= "v4.5" else f"kubectl's kustomize is {version}, and the overlays are written for v5"


def built(overlay: str) -> tuple[Document, ...]:
    """What ``kubectl apply -k`` would send: the caller's own, who may change it."""
    return copy.deepcopy(_built(overlay))


@functools.cache
def _built(overlay: str) -> tuple[Document, ...]:
    if why := no_kustomize():
        pytest.skip(why)
    run = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES / overlay)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return tuple(document for document in yaml.safe_load_all(run.stdout) if document)


def of_kind(documents: tuple[Document, ...] | list[Document], *kinds: str) -> list[Document]:
    return [document for document in documents if document["kind"] in kinds]


def named(documents: tuple[Document, ...] | list[Document], kind: str, name: str) -> Document:
    (found,) = [d for d in of_kind(documents, kind) if d["metadata"]["name"] == name]
    return found


def check(document: Document) -> None:
    """Against the newest release's schemas, where a misspelt field is an error."""
    if document["kind"] == "JobSet":
        for replicated in document["spec"]["replicatedJobs"]:
            check({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **replicated["template"]})
    elif document["kind"] not in _CUSTOM:
        _check(json.dumps(document, sort_keys=True))


@functools.cache
def _check(text: str) -> None:
    document = json.loads(text)
    jsonschema.validators.Draft202012Validator(
        _schema(document["kind"].lower(), re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", document["apiVersion"])),
        registry=_definitions(),
    ).validate(document)


def _contents(name: str) -> Any:
    """Read as kubernetes_validate.validate reads it, which reads 3 MB again for each document."""
    version = kubernetes_validate.latest_version()
    release = ".".join(version.split(".")[:2])
    folders = (f"v{one}-local-strict" for one in (version, release))
    for folder in folders:
        try:
            return schema_contents(f"kubernetes-json-schema/{folder}/{name}.json", version)
        except (FileNotFoundError, kubernetes_validate.utils.VersionNotSupportedError):
            continue
    raise AssertionError(f"there is no schema {name} of {version}")


@functools.cache
def _schema(kind: str, version: str) -> Any:
    return _contents(f"{kind}-{version}")


@functools.cache
def _definitions() -> Any:
    return (Resource.from_contents(_contents("_definitions")) @ Registry()).crawl()


def pod_spec(document: Document) -> Document:
    """Of whatever makes pods."""
    if document["kind"] == "JobSet":
        return pod_spec({"kind": "Job", **document["spec"]["replicatedJobs"][0]["template"]})
    spec: Document = document["spec"]["template"]["spec"]
    return spec
