"""Whatever happens, and wherever the operator dies: it comes to rest where it should, and has done no harm."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.kubernetes.world import World


class Operator(RuleBasedStateMachine):
    @initialize(replicas=st.integers(1, 4), spares=st.integers(0, 2), elastic=st.booleans())
    def begin(self, replicas: int, spares: int, elastic: bool) -> None:
        self.world = World(replicas=replicas, spares=spares, **({"minReplicas": 1} if elastic else {}))
        self.elastic = elastic
        self.counted = 0

    def a_pod(self, data: Any, which: Any) -> str | None:
        names = sorted(name for name, pod in self.world.pods.items() if which(pod))
        return data.draw(st.sampled_from(names)) if names else None

    @rule()
    def reconcile(self) -> None:
        self.world.reconcile()

    @rule(writes=st.integers(0, 4))
    def reconcile_and_die(self, writes: int) -> None:
        self.world.reconcile(dies_after=writes)

    @rule(data=st.data())
    def start(self, data: Any) -> None:
        if name := self.a_pod(data, lambda p: p.phase == "Pending" and p.alive):
            self.world.start(name)

    @rule()
    def everybody_starts(self) -> None:
        self.world.reconcile()
        for name in [name for name, pod in self.world.pods.items() if pod.phase == "Pending" and pod.alive]:
            self.world.start(name)

    @rule(data=st.data())
    def another_generation(self, data: Any) -> None:
        """Of whichever nodes its leader likes."""
        here = sorted(pod.name for pod in self.world.pods.values() if pod.phase == "Running" and pod.alive)
        self.world.members = data.draw(st.permutations(here))[: len(self.world.members)]

    @rule(data=st.data())
    def somebody_deletes(self, data: Any) -> None:
        if name := self.a_pod(data, lambda p: p.alive):
            self.world.delete(name)

    @rule(data=st.data())
    def gone(self, data: Any) -> None:
        if name := self.a_pod(data, lambda p: p.leaving):
            self.world.vanish(name)

    @rule(data=st.data(), code=st.sampled_from([1, 69, 71, 85, 137, 139, 143]))
    def fails(self, data: Any, code: int) -> None:
        if name := self.a_pod(data, lambda p: p.phase == "Running" and not p.ended):
            self.world.end(name, code)

    @rule(code=st.sampled_from([(0, "succeeded"), (1, "failed"), (75, "failed"), (85, "stopped"), (94, "stopped")]))
    @precondition(lambda self: self.world.members)
    def job_ends(self, code: tuple[int, str]) -> None:
        self.world.finish(code[1], code[0])

    @rule(replicas=st.integers(1, 5))
    def scale(self, replicas: int) -> None:
        self.world.resource["spec"]["replicas"] = replicas
        self.world.resource["metadata"]["generation"] += 1

    @rule(suspend=st.booleans())
    def suspend(self, suspend: bool) -> None:
        self.world.resource["spec"]["suspend"] = suspend
        self.world.resource["metadata"]["generation"] += 1

    @rule(program=st.sampled_from([["a.py"], ["b.py"]]))
    def change(self, program: list[str]) -> None:
        self.world.resource["spec"]["program"] = program

    @rule(answers=st.booleans())
    def etcd(self, answers: bool) -> None:
        self.world.etcd_answers = answers

    @rule(seconds=st.floats(0.1, 400.0))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds

    @invariant()
    def no_harm(self) -> None:
        if hasattr(self, "world"):
            assert self.world.harm == []

    @invariant()
    def counts_never_fall(self) -> None:
        if hasattr(self, "world"):
            count = self.world.status.get("replacements", 0)
            assert self.counted <= count <= self.world.faults  # each is counted once, whoever counts
            self.counted = count

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.settle()
        assert world.harm == []
        alive = [pod for pod in world.pods.values() if pod.alive]
        spec, status = world.spec, world.status
        conditions = {c["type"]: c["status"] for c in status["conditions"]}
        if "outcome" in status or spec.suspend:
            assert alive == []
            assert conditions["Ready"] == "False"
            assert [c for c in ("Succeeded", "Failed", "Suspended") if conditions[c] == "True"] == [status["phase"]]
            return
        assert sorted(pod.slot for pod in alive) == sorted({pod.slot for pod in alive})
        assert len(alive) == spec.wanted
        assert len(world.members) == spec.replicas
        assert world.limits == (spec.min_replicas, spec.replicas)
        assert (status["phase"], conditions["Ready"]) == ("Running", "True")
        assert not world.reconcile()


TestOperator = Operator.TestCase
TestOperator.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
