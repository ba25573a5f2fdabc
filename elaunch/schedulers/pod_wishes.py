"""What a job in Kubernetes is to be, in a few words that are checked. Values only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

KINDS = ("elasticjob", "job", "jobset")
LISTS = ("program", "options", "volumes", "env", "node_selector", "tolerate")
WHOLE = {"nodes": 1, "spares": 0, "min_nodes": 1, "gpus": 1, "grace": 1, "retries": 0}
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_TEXT = re.compile(r"[\w.,:/@+-]+")
_FORMS = {
    "volumes": (re.compile(r"[a-z0-9][-a-z0-9.]*:/[^:]*"), "CLAIM:/PATH"),
    "env": (re.compile(r"[A-Za-z_]\w*=[^\0]*"), "NAME=VALUE"),
    "node_selector": (re.compile(r"[\w./-]+=[\w.-]*"), "LABEL=VALUE"),
    "tolerate": (re.compile(r"[\w./-]+"), "the key of a taint"),
}
_QUANTITIES = ("cpus", "memory", "shm", "etcd_storage")
_NAMES = ("name", "namespace", "service_account", "priority")


@dataclass(frozen=True, slots=True)
class Wishes:
    """``program`` is what stands behind ``elaunch``, its own options before it in ``options``.

    ``nodes`` pods train, ``spares`` more wait. With fewer than ``min_nodes`` of them the job waits for others.
    ``cpus``, ``memory``, ``gpus`` and ``shm`` are of each pod, in Kubernetes' own quantities. ``grace`` is how many
    seconds a pod has to save and leave, ``retries`` how many pods may be replaced because of faults. ``etcd`` is one of
    yours; without it an ElasticJob has its own, with ``etcd_storage`` three members. ``volumes`` are claims and where
    they are mounted, ``queue`` is Kueue's.
    """

    kind: str = "elasticjob"
    program: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    name: str = "elaunch"
    namespace: str = ""
    image: str = ""
    nodes: int = 1
    spares: int = 0
    min_nodes: int | None = None
    gpus: int | None = None
    gpu_resource: str = "nvidia.com/gpu"
    cpus: str = "1"
    memory: str = "2Gi"
    shm: str = ""
    grace: int = 60
    retries: int = 20
    etcd: str = ""
    etcd_storage: str = ""
    volumes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    node_selector: tuple[str, ...] = ()
    tolerate: tuple[str, ...] = ()
    queue: str = ""
    priority: str = ""
    service_account: str = ""


NAMES = tuple(field.name for field in fields(Wishes))


def wishes_of(values: Mapping[str, Any]) -> Wishes:
    """``values`` by the names of Wishes, checked. Raises ValueError that names the one that is wrong."""
    for name, value in values.items():
        if name not in NAMES:
            raise ValueError(f"{name}: there is no such setting; there are {', '.join(NAMES)}")
        _check(name, value)
    known: dict[str, Any] = {name: tuple(value) if name in LISTS else value for name, value in values.items()}
    wishes = Wishes(**known)
    if not wishes.image:
        raise ValueError("image: expected the container image that holds elaunch and the program")
    if not wishes.program:
        raise ValueError("program: expected the script that elaunch is to run, and its arguments")
    if (wishes.min_nodes or 1) > wishes.nodes:
        raise ValueError(f"min_nodes={wishes.min_nodes}: expected {wishes.nodes} at most, the number of nodes")
    if wishes.etcd and wishes.etcd_storage:
        raise ValueError("etcd_storage: is for an etcd of the job's own; leave out etcd")
    if wishes.etcd_storage and wishes.kind != "elasticjob":
        raise ValueError("etcd_storage: only an ElasticJob has an etcd of its own that lasts")
    return wishes


def _check(name: str, value: Any) -> None:
    if name in LISTS:
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"{name}={value!r}: expected a list of texts")
        form, expected = _FORMS.get(name, (None, ""))
        if form is not None and (wrong := next((item for item in value if not form.fullmatch(item)), None)) is not None:
            raise ValueError(f"{name}={wrong}: expected {expected}")
    elif name in WHOLE:
        if not isinstance(value, int) or isinstance(value, bool) or not WHOLE[name] <= value <= 100_000:
            raise ValueError(f"{name}={value!r}: expected a whole number, {WHOLE[name]} or more")
    elif name == "cpus" and isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f'cpus={value}: expected a quantity such as "{value}", in quotes')
    elif not isinstance(value, str):
        raise ValueError(f"{name}={value!r}: expected a text")
    elif name == "kind":
        if value not in KINDS:
            raise ValueError(f"kind={value}: expected one of {', '.join(KINDS)}")
    elif name in _QUANTITIES and value and not _QUANTITY.fullmatch(value):
        raise ValueError(f"{name}={value}: expected a quantity such as 500m, 2 or 16Gi")
    elif name in _NAMES and (value or name == "name") and not LABEL.fullmatch(value):
        raise ValueError(f"{name}={value}: expected letters a to z, digits and dashes, 53 at most")
    elif name == "name" and value[0].isdigit():
        raise ValueError(f"name={value}: expected a letter first, as the job's service has that name")
    elif value and not _TEXT.fullmatch(value):
        raise ValueError(f"{name}={value!r}: expected a text without spaces and quotes")
