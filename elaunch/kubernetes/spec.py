"""What an ElasticJob asks for: read from the object, checked across its fields, frozen."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elaunch.kubernetes.names import LONGEST, job_id
from elaunch.kubernetes.rules import Action, Rule
from elaunch.kubernetes.shape import misshapen, without_nulls

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
OURS = (
    "--nnodes",
    "--min-nodes",
    "--spares",
    "--nproc-per-node",
    "--rdzv-backend",
    "--rdzv-endpoint",
    "--rdzv-id",
    "--rdzv-conf",
    "--node-rank",
    "--master-addr",
    "--master-port",
    "--local-addr",
    "--standalone",
)
"""Options that say what the resource says, or what only the operator can know."""

ENDING = ("-h", "--help", "--version")
"""Options with which elaunch ends well, and has run nothing."""

SCRIPT_IS = ("-m", "--module", "--no-python")
"""What may stand before the script: it says what kind of one it is."""


@dataclass(frozen=True, slots=True)
class Etcd:
    """``endpoints`` are those of an external etcd, with ``secret`` to show it; without any it is the job's own."""

    endpoints: tuple[str, ...] = ()
    secret: str = ""
    members: int = 1
    image: str = ""
    storage: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def managed(self) -> bool:
        return not self.endpoints


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """A node is avoided for ``avoid_seconds`` after a fault of its own; ``history`` is how many failed pods stay."""

    rules: tuple[Rule, ...] = ()
    max_replacements: int = 100
    avoid_seconds: float = 3600.0
    avoid_required: bool = False
    history: int = 3


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One ElasticJob. ``asked`` is its ``metadata.generation``; ``grace`` and ``node_lost`` are in seconds."""

    namespace: str
    name: str
    uid: str
    asked: int
    replicas: int
    min_replicas: int
    spares: int = 0
    nproc: str = "1"
    program: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    command: tuple[str, ...] = ("elaunch",)
    suspend: bool = False
    grace: int = 60
    node_lost: int = 30
    policy: FailurePolicy = FailurePolicy()
    etcd: Etcd = Etcd()
    budget: bool = True
    budget_least: int | None = None
    ttl: float | None = None
    template: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wanted(self) -> int:
        """How many pods there should be."""
        return self.replicas + self.spares

    @property
    def job(self) -> str:
        return job_id(self.namespace, self.name, self.uid)

    @property
    def least_available(self) -> int:
        """What a voluntary disruption must leave: of a job that needs all its nodes, one may go at a time."""
        if self.budget_least is not None:
            return self.budget_least
        return self.min_replicas if self.min_replicas < self.replicas else max(0, self.replicas - 1)

    @property
    def digest(self) -> str:
        """Of all that a pod is made from; a job whose digest changes is stopped in order, and started anew."""
        made_from = [
            self.template,
            self.program,
            self.options,
            self.command,
            self.nproc,
            self.grace,
            self.node_lost,
            self.etcd.endpoints,
            self.etcd.secret,
        ]
        return hashlib.sha256(json.dumps(made_from, sort_keys=True, default=list).encode()).hexdigest()[:10]


def read(found: Mapping[str, Any]) -> JobSpec:
    """The ElasticJob as the server has it, defaults filled in. Raises ValueError where that is no such object."""
    metadata, spec = found["metadata"], found.get("spec") or {}
    replicas = int(spec.get("replicas", 1))
    budget = spec.get("podDisruptionBudget") or {}
    return JobSpec(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        asked=int(metadata.get("generation", 1)),
        replicas=replicas,
        min_replicas=int(spec.get("minReplicas", replicas)),
        spares=int(spec.get("spares", 0)),
        nproc=str(spec.get("nprocPerNode", 1)),
        program=tuple(map(str, spec.get("program") or ())),
        options=tuple(map(str, spec.get("options") or ())),
        command=tuple(map(str, spec.get("command") or ("elaunch",))),
        suspend=bool(spec.get("suspend", False)),
        grace=int(spec.get("terminationGracePeriodSeconds", 60)),
        node_lost=int(spec.get("nodeLostSeconds", 30)),
        policy=_policy(spec.get("failurePolicy") or {}),
        etcd=_etcd(spec.get("etcd") or {}),
        budget=bool(budget.get("enabled", True)),
        budget_least=budget.get("minAvailable"),
        ttl=spec.get("ttlSecondsAfterFinished"),
        template=without_nulls(spec.get("template") or {}),
    )


def _policy(found: Mapping[str, Any]) -> FailurePolicy:
    rules = []
    for rule in found.get("rules") or ():
        codes = rule.get("exitCodes") or {}
        values = tuple(int(code) for code in codes.get("values") or ())
        rules.append(Rule(Action(rule["action"]), values, codes.get("operator", "In") == "NotIn"))
    return FailurePolicy(
        rules=tuple(rules),
        max_replacements=int(found.get("maxReplacements", 100)),
        avoid_seconds=float(found.get("avoidSeconds", 3600)),
        avoid_required=found.get("avoidNodes", "Preferred") == "Required",
        history=int(found.get("failedPodsHistoryLimit", 3)),
    )


def _etcd(found: Mapping[str, Any]) -> Etcd:
    external, managed = found.get("external") or {}, found.get("managed") or {}
    return Etcd(
        endpoints=tuple(external.get("endpoints") or ()),
        secret=str(external.get("secretName", "")),
        members=int(managed.get("members", 1)),
        image=str(managed.get("image", "")),
        storage=managed.get("storage") or {},
        resources=managed.get("resources") or {},
    )


def defects(spec: JobSpec) -> list[str]:
    """What the schema cannot refuse on every server: sentences that name field, value and what to do."""
    found = []
    if spec.min_replicas > spec.replicas:
        found.append(
            f"spec.minReplicas is {spec.min_replicas}, above spec.replicas, which is {spec.replicas}:"
            " lower the one or raise the other"
        )
    for option in spec.options:
        name = option.split("=", 1)[0].replace("_", "-")
        if _means(name, OURS):
            found.append(f"spec.options has {name}, which the operator sets itself: use the field of the resource")
        if _means(name, ENDING):
            found.append(f"spec.options has {name}, with which elaunch runs nothing")
    first = next((word.replace("_", "-") for word in spec.program if word.replace("_", "-") not in SCRIPT_IS), "")
    if first.startswith("-"):
        found.append(f"spec.program begins with {first}, before any script: elaunch's options stand in spec.options")
    if not spec.program:
        found.append("spec.program is empty: give the script and its arguments")
    found += misshapen(spec.template)
    pod = spec.template.get("spec")
    if not pod or (isinstance(pod, Mapping) and not pod.get("containers")):
        found.append("spec.template.spec.containers is empty: one container is needed, named elaunch if there are more")
    if spec.etcd.managed and spec.etcd.members == 3 and not spec.etcd.storage:
        found.append(
            "spec.etcd.managed.members is 3 without storage: a member that comes back without its data"
            " is none of the cluster; give storage.size, or take 1 member"
        )
    if spec.budget_least is not None and spec.budget_least > spec.replicas:
        found.append(f"spec.podDisruptionBudget.minAvailable is {spec.budget_least}, above spec.replicas")
    if not _LABEL.fullmatch(spec.name):
        found.append(
            f"metadata.name is {spec.name}: its service and pods cannot be called after it; take letters a to z, digits"
            " and dashes, with a letter first"
        )
    if len(spec.name) > LONGEST:
        found.append(f"metadata.name has {len(spec.name)} characters: {LONGEST} at most, as pods' names are longer")
    return found


def _means(name: str, options: tuple[str, ...]) -> bool:
    """Whether elaunch may take ``name`` for one of ``options``: it reads prefixes as what they begin."""
    return name in options or (len(name) > 2 and name[:2] == "--" and any(o.startswith(name) for o in options))
