"""What is rendered fits the schema of the resource, in which a field that is not known is lost in silence."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from elaunch.schedulers.manifests import documents_of
from elaunch.schedulers.pod_wishes import wishes_of
from tests.unit.deploy.reading import KUBERNETES, Document, read


def strict(schema: Any) -> Any:
    """The structural schema as one that refuses what it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items() if not key.startswith("x-kubernetes")}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def schema() -> Any:
    (crd,) = read(KUBERNETES / "base" / "crd.yaml")
    (version,) = crd["spec"]["versions"]
    found = strict(version["schema"]["openAPIV3Schema"])
    found["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return found


WISHES: dict[str, Document] = {
    "plain": {},
    "all": {
        "nodes": 4,
        "spares": 1,
        "min_nodes": 2,
        "gpus": 8,
        "cpus": "96",
        "memory": "800Gi",
        "shm": "64Gi",
        "etcd": "etcd-0:2379,etcd-1:2379",
        "volumes": ["data:/data", "ckpt.a:/ckpt"],
        "env": ["A=b=c"],
        "node_selector": ["gpu=h200"],
        "tolerate": ["nvidia.com/gpu"],
        "queue": "team-a",
        "priority": "high",
        "service_account": "trainer",
        "options": ["--max-restarts=3"],
    },
    "etcd of its own": {"etcd_storage": "4Gi", "nodes": 3},
}


@pytest.mark.parametrize("name", WISHES)
def test_what_is_rendered_is_in_the_schema(name: str) -> None:
    (document,) = documents_of(wishes_of({"image": "i", "program": ["train.py"], **WISHES[name]}))
    jsonschema.validate(document, schema())


def test_a_field_that_is_not_in_the_schema_would_be_found() -> None:
    (document,) = documents_of(wishes_of({"image": "i", "program": ["train.py"]}))
    document["spec"]["replica"] = 3
    with pytest.raises(jsonschema.ValidationError, match="replica"):
        jsonschema.validate(document, schema())
