"""The names that pods can look up: what the DNS of a cluster would answer, as the text of a hosts file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Object = Mapping[str, Any]
DOMAIN = "cluster.local"


def hosts_file(pod: Object, address: str, endpoints: Iterable[Object], server: str) -> str:
    """Of a pod at ``address``: itself, all services' ready pods, and the API server at ``server``.

    A service has the addresses of its pods, headless or not: nothing forwards from one address to another here.
    """
    meta, spec = pod["metadata"], pod["spec"]
    name, namespace = host_name(pod), meta["namespace"]
    own = [name]
    if subdomain := spec.get("subdomain"):
        own.insert(0, f"{name}.{subdomain}.{namespace}.svc.{DOMAIN}")
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost", f"{address} {' '.join(own)}"]
    lines += [f"{alias['ip']} {' '.join(alias['hostnames'])}" for alias in spec.get("hostAliases") or ()]
    lines.append(f"{server} {' '.join(_forms('kubernetes', 'default', namespace))}")
    for service in endpoints:
        lines += _lines(service, namespace)
    return "\n".join(lines) + "\n"


def host_name(pod: Object) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]


def _lines(service: Object, seen_from: str) -> Iterator[str]:
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    for subset in service.get("subsets") or ():
        for address in subset.get("addresses") or ():
            yield f"{address['ip']} {' '.join(_forms(name, namespace, seen_from))}"
            if host := address.get("hostname"):
                yield f"{address['ip']} {' '.join(f'{host}.{form}' for form in _forms(name, namespace, seen_from))}"


def _forms(name: str, namespace: str, seen_from: str) -> list[str]:
    """With what a resolver's search list would leave out left out."""
    long = f"{name}.{namespace}.svc"
    forms = [f"{long}.{DOMAIN}", long, f"{name}.{namespace}"]
    return [*forms, name] if namespace == seen_from else forms
