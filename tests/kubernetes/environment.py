"""What a container's spec says of its environment and command, and the downward API: values in, values out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]
Lookup = Callable[[str, str], Mapping[str, str] | None]  # of ("configmap" or "secret", name): its data
_KEYED = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_SUFFIX = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Missing(Exception):
    """A config map, a secret or a key of one that a container needs is not there; it may come."""


@dataclass(frozen=True)
class Place:
    """Where a pod runs."""

    pod_ip: str
    node: str
    node_ip: str


def environment(
    container: Object, pod: Object, place: Place, lookup: Lookup, base: Mapping[str, str]
) -> dict[str, str]:
    """``base`` is what the image sets. Raises Missing."""
    env = dict(base)
    for source in container.get("envFrom") or ():
        kind, ref = (
            ("configmap", source["configMapRef"]) if "configMapRef" in source else ("secret", source["secretRef"])
        )
        data = _data(lookup, kind, ref)
        env.update({source.get("prefix", "") + key: value for key, value in data.items()})
    for variable in container.get("env") or ():
        value = _value(variable, container, pod, place, lookup, env)
        if value is not None:
            env[variable["name"]] = value
    return env


def command(container: Object, env: Mapping[str, str], entrypoint: Sequence[str]) -> list[str]:
    """The words to run; ``entrypoint`` is the image's, for a container without a command."""
    words = container.get("command") or list(entrypoint)
    return [expand(word, env) for word in (*words, *(container.get("args") or ()))]


def expand(text: str, env: Mapping[str, str]) -> str:
    """``$(NAME)`` is NAME's value, or stands as it is where there is none; ``$$`` is a ``$``."""
    return _REFERENCE.sub(lambda found: "$" if found[0] == "$$" else env.get(found[1], found[0]), text)


def field(path: str, pod: Object, place: Place) -> str:
    """The downward API's ``fieldPath``. Raises KeyError for one that there is not."""
    meta, spec = pod["metadata"], pod["spec"]
    if found := _KEYED.fullmatch(path):
        return str((meta.get(found[1]) or {}).get(found[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        held = meta.get(path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{_quoted(value)}"' for key, value in sorted(held.items()))
    return str(
        {
            "metadata.name": meta["name"],
            "metadata.namespace": meta["namespace"],
            "metadata.uid": meta["uid"],
            "spec.nodeName": place.node,
            "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
            "status.podIP": place.pod_ip,
            "status.podIPs": place.pod_ip,
            "status.hostIP": place.node_ip,
        }[path]
    )


def resource(reference: Object, container: Object) -> str:
    """The downward API's ``resourceFieldRef``, in units of its divisor, rounded up; 0 where nothing is asked for."""
    kind, _, name = reference["resource"].partition(".")
    held = (container.get("resources") or {}).get(kind) or {}
    divisor = quantity(str(reference.get("divisor") or "1")) or 1
    return str(math.ceil(quantity(str(held.get(name, "0"))) / divisor))


def quantity(text: str) -> float:
    """Kubernetes' way to write a number: ``500m``, ``2Gi``."""
    for suffix in sorted(_SUFFIX, key=len, reverse=True):
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * _SUFFIX[suffix]
    return float(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text)


def _value(
    variable: Object, container: Object, pod: Object, place: Place, lookup: Lookup, env: Mapping[str, str]
) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return expand(variable.get("value", ""), env)
    if ref := source.get("fieldRef"):
        return field(ref["fieldPath"], pod, place)
    if ref := source.get("resourceFieldRef"):
        return resource(ref, container)
    kind, ref = next((k, source[f"{k}KeyRef"]) for k in ("configMap", "secret") if f"{k}KeyRef" in source)
    data = _data(lookup, kind.lower(), ref)
    if ref["key"] not in data and not ref.get("optional"):
        raise Missing(f"couldn't find key {ref['key']} in {kind} {ref['name']}")
    return data.get(ref["key"])


def _data(lookup: Lookup, kind: str, ref: Object) -> Mapping[str, str]:
    data = lookup(kind, ref["name"])
    if data is None and not ref.get("optional"):
        raise Missing(f'{kind} "{ref["name"]}" not found')
    return data or {}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
