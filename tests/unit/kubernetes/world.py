"""A cluster of the imagination: it does what Kubernetes and elaunch do with pods, one small step at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from elaunch.kubernetes.actions import BUDGETS, PODS, SERVICES, STATEFUL_SETS, Action, Amend, Create, Remove, Scale
from elaunch.kubernetes.desired import decide
from elaunch.kubernetes.names import INCARNATION, RUN, SLOT, etcd_name
from elaunch.kubernetes.observed import Observed, Pod, Truth
from elaunch.kubernetes.spec import JobSpec, read
from tests.unit.kubernetes.makers import resource, seat

GRACE = 60.0


class World:
    """``harm`` collects what must not happen, ``named`` every pod that ever was, by name; ``faults`` counts."""

    def __init__(self, **spec: Any) -> None:
        self.resource = resource(**spec)
        self.now = 1_000_000.0
        self.pods: dict[str, Pod] = {}
        self.objects: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.etcd_up, self.etcd_answers = False, True
        self.members: list[str] = []
        self.limits = (0, 0)
        self.generation, self.horizon, self.joined = 0, 0, 0
        self.final, self.exit_code = "", 0
        self.named: dict[str, Pod] = {}
        self.harm: list[str] = []
        self.notes: set[tuple[str, str]] = set()
        self.faults = 0

    # --- what the operator sees and does ---

    @property
    def spec(self) -> JobSpec:
        return read(self.resource)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.resource.get("status", {})
        return found

    def seen(self) -> Observed:
        name = self.spec.name
        member = Pod(
            f"{etcd_name(name)}-0", "etcd", "etcd", phase="Running", address="10.9.9.9" if self.etcd_up else ""
        )
        answers = self.etcd_up and self.etcd_answers
        return Observed(
            pods=tuple(self.pods.values()),
            members=(member,) if self.objects.get((STATEFUL_SETS, etcd_name(name))) else (),
            service=self.objects.get((SERVICES, name)),
            etcd_service=self.objects.get((SERVICES, etcd_name(name))),
            etcd_set=self.objects.get((STATEFUL_SETS, etcd_name(name))),
            budget=self.objects.get((BUDGETS, name)),
            truth=self.truth() if answers else None,
            silence="" if answers else "it does not answer",
        )

    def truth(self) -> Truth:
        nodes = [p for p in self.pods.values() if p.phase == "Running" and p.address and p.code is None]
        members = tuple(seat(p).node_id for p in nodes if p.name in self.members)
        phase = self.final or ("running" if members else "waiting")
        return Truth(
            cluster="c0ffee",
            phase=phase if self.joined else "",
            generation=self.generation,
            final=self.final,
            exit_code=self.exit_code,
            horizon=self.horizon,
            low=self.limits[0] if nodes else 0,
            high=self.limits[1] if nodes else 0,
            seats=tuple(seat(p) for p in nodes),
            members=members,
            ranks=len(members),
        )

    def reconcile(self, dies_after: int | None = None) -> bool:
        """One round, of an operator that is killed after so many of its writes; whether it wanted anything."""
        spec, seen = self.spec, self.seen()
        decision = decide(spec, self.status, seen, self.now)
        changed = decision.status != self.status
        for note in decision.notes:
            self.notes.add((note.reason, note.key))
        if dies_after == 0:
            return True
        self.resource["status"] = dict(decision.status)
        for writes, action in enumerate(decision.actions, start=1):
            if dies_after is not None and writes > dies_after:
                return True
            self.apply(spec, action)
        return changed or bool(decision.actions)

    def apply(self, spec: JobSpec, action: Action) -> None:
        match action:
            case Create(kind, manifest) if kind == PODS:
                self._create_pod(manifest)
            case Create(kind, manifest):
                made = {**manifest, "metadata": {**manifest["metadata"], "uid": f"uid-{action.name}"}}
                self.objects.setdefault((kind, action.name), made)
                self.etcd_up |= kind == STATEFUL_SETS
            case Remove(kind, name, uid) if kind == PODS:
                self._remove_pod(spec, name, uid)
            case Remove(kind, name, _):
                del self.objects[kind, name]
            case Amend(kind, name, patch):
                found = self.objects[kind, name]
                self.objects[kind, name] = {**found, "spec": {**found["spec"], **patch["spec"]}}
            case Scale(low, high, _):
                self.limits = (low, high)
                self.form()

    def _create_pod(self, manifest: Mapping[str, Any]) -> None:
        marks, name = manifest["metadata"]["labels"], manifest["metadata"]["name"]
        if name in self.pods:
            return  # the server says that it exists
        slot = int(marks[SLOT])
        if any(p.alive and p.slot == slot for p in self.pods.values()):
            self.harm.append(f"{name}: a second pod of slot {slot} that is alive")
        if any(p.run != int(marks[RUN]) and not p.ended and p.leaving >= self.now for p in self.pods.values()):
            self.harm.append(f"{name}: pods of an earlier run are still stopping")
        self.pods[name] = Pod(
            name=name,
            uid=f"uid-{len(self.named)}-{name}",
            slot=slot,
            incarnation=int(marks[INCARNATION]),
            run=int(marks[RUN]),
            since=self.now,
        )
        self.named[name] = self.pods[name]

    def _remove_pod(self, spec: JobSpec, name: str, uid: str) -> None:
        found = self.pods.get(name)
        if found is None or found.uid != uid:
            return
        over = "outcome" in self.status
        current = self.status["run"]["number"] == found.run
        if found.alive and name in self.members and not (spec.suspend or over) and current:
            self.harm.append(f"{name} works, and was removed")
        if found.ended:
            del self.pods[name]
        else:
            self.delete(name)

    # --- what happens by itself, or to it ---

    def start(self, name: str) -> None:
        """The pod is on a node, and its agent joins the job."""
        found = self.pods[name]
        address = f"10.{found.slot}.{found.incarnation}.{found.run}"
        self.pods[name] = replace(found, phase="Running", ready=True, address=address, node=f"node{found.slot % 3}")
        self.joined += 1
        if self.final or not self.limits[1] or not self.members:
            self.limits = (self.status["run"]["minNodes"], self.status["run"]["maxNodes"])
        self.final = ""
        self.form()

    def form(self) -> None:
        """Who is here forms the next generation, if it is another one than before."""
        here = [p.name for p in self.pods.values() if p.phase == "Running" and p.alive]
        kept = [name for name in self.members if name in here][: self.limits[1]]
        members = [*kept, *(name for name in here if name not in kept)][: self.limits[1]]
        if members != self.members and len(members) >= self.limits[0]:
            self.generation += 1
            self.members = members
        else:
            self.members = kept

    def delete(self, name: str) -> None:
        found = self.pods[name]
        self.pods[name] = replace(found, leaving=found.leaving or self.now + GRACE)
        self.form()

    def vanish(self, name: str) -> None:
        del self.pods[name]
        self.form()

    def end(self, name: str, code: int) -> None:
        phase = "Succeeded" if code == 0 else "Failed"
        self.faults += code not in (0, 85, 143) and not self.pods[name].leaving
        self.pods[name] = replace(self.pods[name], phase=phase, code=code, ready=False, until=self.now)
        self.form()

    def finish(self, final: str, code: int) -> None:
        """The job ends, and with it all its pods."""
        self.final, self.exit_code, self.horizon = final, code, self.joined
        self.faults += 1
        for name, found in list(self.pods.items()):
            if found.phase == "Running" and not found.ended:
                self.end(name, code)
        self.members = []

    def settle(self, rounds: int = 60) -> None:
        """Let everything run its course until the operator wants nothing more."""
        self.etcd_answers = True
        for _ in range(rounds):
            self.now += 30.0
            for name, found in list(self.pods.items()):
                if found.leaving:
                    self.vanish(name)
                elif found.phase == "Pending":
                    self.start(name)
            if not self.reconcile() and not any(p.leaving or p.phase == "Pending" for p in self.pods.values()):
                return
        raise AssertionError(f"no end of it after {rounds} rounds: {self.status}")
