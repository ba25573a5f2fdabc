"""What the nodes' agent computes, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kubernetes.environment import Missing, Place, command, environment, expand, field, quantity, resource
from tests.kubernetes.names import hosts_file

POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "labels": {"b": "2", "a": 'say "1"'},
        "annotations": {"index": "3"},
    },
    "spec": {"hostname": "h", "subdomain": "s", "hostAliases": [{"ip": "9.9.9.9", "hostnames": ["alias"]}]},
}
PLACE = Place("10.0.0.30", "node1", "10.0.0.1")


@pytest.mark.parametrize(
    ("text", "value"),
    [("$(A) $(B)", "1 $(B)"), ("$$(A)", "$(A)"), ("$A ${A}", "$A ${A}"), ("$$$(A)", "$1"), ("$(A)$(A)", "11")],
)
def test_references(text: str, value: str) -> None:
    assert expand(text, {"A": "1"}) == value


def test_an_environment_refers_to_what_comes_before_it() -> None:
    held = {("configmap", "c"): {"k": "v"}, ("secret", "s"): {"t": "w"}}
    container = {
        "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "P_"}, {"secretRef": {"name": "x", "optional": True}}],
        "env": [
            {"name": "A", "value": "$(P_k) $(LATER)"},
            {"name": "LATER", "valueFrom": {"secretKeyRef": {"name": "s", "key": "t"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no", "optional": True}}},
            {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['index']"}}},
        ],
    }
    env = environment(container, POD, PLACE, lambda kind, name: held.get((kind, name)), {"PATH": "/bin"})
    assert env == {"PATH": "/bin", "P_k": "v", "A": "v $(LATER)", "LATER": "w", "INDEX": "3"}
    assert command({"args": ["$(INDEX)"]}, env, ["elaunch"]) == ["elaunch", "3"]
    with pytest.raises(Missing, match='configmap "c" not found'):
        environment(container, POD, PLACE, lambda kind, name: None, {})


def test_the_downward_api() -> None:
    assert field("metadata.labels", POD, PLACE) == 'a="say \\"1\\""\nb="2"'
    assert field("status.podIP", POD, PLACE) == "10.0.0.30"
    container = {"resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}}}
    assert resource({"resource": "limits.cpu"}, container) == "2"
    assert resource({"resource": "limits.memory", "divisor": "1Mi"}, container) == "2048"
    assert resource({"resource": "requests.cpu"}, container) == "0"
    assert quantity("3k") == 3000


def test_a_hosts_file_answers_as_dns_does_in_the_pod_s_namespace() -> None:
    def endpoints(name: str, namespace: str, *addresses: dict[str, str]) -> dict[str, Any]:
        told = {"notReadyAddresses": [{"ip": "10.0.0.99"}], "addresses": list(addresses)}
        return {"metadata": {"name": name, "namespace": namespace}, "subsets": [told]}

    own = endpoints("s", "n", {"ip": "10.0.0.30", "hostname": "h"}, {"ip": "10.0.0.31", "hostname": "i"})
    other = endpoints("t", "other", {"ip": "10.0.0.40"})
    text = hosts_file(POD, "10.0.0.30", [own, other], "10.0.0.254")
    names: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *called = line.split()
        for name in called:
            names.setdefault(name, []).append(address)
    assert names["h"] == ["10.0.0.30"]
    assert names["i.s"] == names["i.s.n.svc.cluster.local"] == ["10.0.0.31"]
    assert names["s"] == names["s.n.svc"] == ["10.0.0.30", "10.0.0.31"]
    assert names["t.other"] == ["10.0.0.40"]
    assert names["alias"] == ["9.9.9.9"]
    assert names["kubernetes.default.svc"] == ["10.0.0.254"]
    assert "t" not in names
    assert "10.0.0.99" not in text
