"""Whether a pod template has the form that the operator builds upon: the resource's own schema leaves that open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NODE_AFFINITY = ("affinity", "nodeAffinity")
_REQUIRED = (*_NODE_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution")
_PREFERRED = (*_NODE_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution")
_OBJECTS = (("securityContext",), ("affinity",), _NODE_AFFINITY, _REQUIRED)
_LISTS = (
    ("containers",),
    ("volumes",),
    ("tolerations",),
    ("imagePullSecrets",),
    _PREFERRED,
    (*_REQUIRED, "nodeSelectorTerms"),
)
_OF_CONTAINERS = ("env", "envFrom", "ports", "volumeMounts")
_MAPS = ("labels", "annotations")
_WORDS = ("name", "image", "imagePullPolicy")


def without_nulls(value: Any) -> Any:
    """As Kubernetes reads it, to which null is as good as nothing."""
    if isinstance(value, Mapping):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value if one is not None] if isinstance(value, list) else value


def misshapen(template: Mapping[str, Any]) -> list[str]:
    """What has not the form that Kubernetes asks for, as far as the operator reads or adds to it: a sentence each."""
    found = [f"spec.template.{text}" for text in _metadata(template.get("metadata"))]
    pod = template.get("spec")
    if pod is None:
        return found
    if not isinstance(pod, Mapping):
        return [*found, f"spec.template.spec is {_kind(pod)}: an object is needed"]
    told = (*_objects(pod), *_lists(pod), *_containers(pod), *_tolerations(pod), *_terms(pod))
    return found + [f"spec.template.spec.{text}" for text in told]


def _metadata(found: Any) -> Iterator[str]:
    if found is not None and not isinstance(found, Mapping):
        yield f"metadata is {_kind(found)}: an object is needed"
        return
    for name in _MAPS:
        values = (found or {}).get(name)
        if values is not None and not isinstance(values, Mapping):
            yield f"metadata.{name} is {_kind(values)}: an object is needed"


def _at(pod: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = pod
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _objects(pod: Mapping[str, Any]) -> Iterator[str]:
    for path in _OBJECTS:
        if (found := _at(pod, path)) is not None and not isinstance(found, Mapping):
            yield f"{'.'.join(path)} is {_kind(found)}: an object is needed"
    if isinstance(_at(pod, _REQUIRED), Mapping) and not _at(pod, (*_REQUIRED, "nodeSelectorTerms")):
        yield f"{'.'.join(_REQUIRED)} has no nodeSelectorTerms"


def _lists(pod: Mapping[str, Any]) -> Iterator[str]:
    for path in _LISTS:
        yield from _list(_at(pod, path), ".".join(path))


def _containers(pod: Mapping[str, Any]) -> Iterator[str]:
    for container in _each(pod.get("containers")):
        place = f"containers[{container.get('name')}]"
        for name in _WORDS:
            yield from _word(container.get(name), f"{place}.{name}")
        for name in _OF_CONTAINERS:
            yield from _list(container.get(name), f"{place}.{name}")
        if not isinstance(container.get("securityContext", {}), Mapping):
            yield f"{place}.securityContext is no object"
        if any(not isinstance(variable.get("name"), str) for variable in _each(container.get("env"))):
            yield f"{place}.env has a variable without a name"
        for mount in _each(container.get("volumeMounts")):
            for name in ("name", "mountPath"):
                yield from _word(mount.get(name), f"{place}.volumeMounts.{name}")


def _tolerations(pod: Mapping[str, Any]) -> Iterator[str]:
    for toleration in _each(pod.get("tolerations")):
        yield from _word(toleration.get("key"), "tolerations.key")


def _terms(pod: Mapping[str, Any]) -> Iterator[str]:
    for term in _each(_at(pod, (*_REQUIRED, "nodeSelectorTerms"))):
        for name in ("matchExpressions", "matchFields"):
            yield from _list(term.get(name), f"{'.'.join(_REQUIRED)}.nodeSelectorTerms.{name}")


def _word(found: Any, place: str) -> Iterator[str]:
    if found is not None and not isinstance(found, str):
        yield f"{place} is {_kind(found)}: a text is needed"


def _list(found: Any, place: str) -> Iterator[str]:
    if found is None:
        return
    if not isinstance(found, list):
        yield f"{place} is {_kind(found)}: a list is needed"
    elif wrong := [one for one in found if not isinstance(one, Mapping)]:
        yield f"{place} has {_kind(wrong[0])} in it: objects are needed"


def _each(found: Any) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _kind(found: Any) -> str:
    if isinstance(found, (list, Mapping)):
        return "a list" if isinstance(found, list) else "an object"
    return repr(found)[:60]
