"""The matrix: which cells there are."""

from __future__ import annotations

import pytest

from elaunch.inject.kinds import KINDS, POINTS
from elaunch.qualify.cells import Job
from elaunch.qualify.collectives import OPS, SIZES, Collective, bus_factor, collectives, modulus
from elaunch.qualify.matrix import MODES, cells, faults
from elaunch.qualify.phases import AT_ONCE, PHASES, lab_faults


@pytest.mark.parametrize("mode", MODES)
def test_names_are_unique_and_every_cell_says_what_must_hold(mode: str) -> None:
    found = cells(mode)
    assert len({cell.name for cell in found}) == len(found)
    assert all(cell.text and cell.group for cell in found)
    assert all((cell.job in (Job.FAULTS, Job.LAB)) >= (cell.fault is not None) for cell in found)
    assert all((cell.job is Job.LAB) == bool(cell.phase) for cell in found)


def test_full_has_all_that_quick_has_and_more() -> None:
    quick, full = ({cell.name for cell in cells(mode)} for mode in MODES)
    assert quick < full
    assert "ddp/compiled" in full - quick


def test_every_fault_is_in_full_and_those_inside_of_a_rank_at_every_point() -> None:
    found = faults("full")
    kinds = {fault.kind for fault in found}
    assert {name for name, kind in KINDS.items() if kind.target == "rank"} <= kinds
    points = set(POINTS) - {"step"}
    for kind in ("kill", "sleep", "stop"):
        assert points <= {fault.at for fault in found if fault.kind == kind}, kind


def test_every_fault_of_the_laboratory_is_in_full_in_every_phase() -> None:
    found = [(fault.kind, phase) for fault, phase in lab_faults("full")]
    assert {kind for kind, _ in found} == {name for name, kind in KINDS.items() if "lab" in kind.carriers}
    for kind in dict(found):
        phases = {phase for name, phase in found if name == kind}
        assert phases == ({AT_ONCE} if KINDS[kind].target == "port" else set(PHASES)), kind
    assert [kind for kind, _ in found[-2:]] == ["link-down", "link-flap"], "a job of their own, at the end"
    names = {cell.name for cell in cells("full") if cell.job is Job.LAB}
    assert {"faults/etcd-freeze/save", "faults/reset/restore", "faults/agent-kill/rendezvous"} <= names


def test_each_target_has_one_cell_in_quick_that_says_why_not() -> None:
    found = [cell for cell in cells("quick") if cell.job is Job.LAB]
    assert [cell.fault.what.target for cell in found if cell.fault] == ["node", "controller", "etcd", "network", "port"]


def test_a_choice_of_cells() -> None:
    assert {cell.group for cell in cells("quick", ["ddp/*"])} == {"ddp"}
    assert [cell.name for cell in cells("quick", ["ddp/plain", "launch/fixed"])] == ["launch/fixed", "ddp/plain"]
    assert {cell.name for cell in cells("quick", ["bfloat16"])} == {
        f"collectives/{op}/bfloat16/contiguous" for op in OPS
    }
    assert cells("quick", ["nothing-of-that-kind"]) == ()


def test_collectives_are_told_by_their_names() -> None:
    for mode in MODES:
        for one in collectives(mode):
            assert Collective.of(one.name) == one
    assert list(SIZES["full"]) == sorted(SIZES["full"])


@pytest.mark.parametrize("world", [1, 2, 3, 8, 100, 1000])
def test_sums_are_exact_in_a_byte_and_in_bfloat16(world: int) -> None:
    most = (modulus(world) - 1) * min(world, 128)
    assert most < 256


def test_bus_factors() -> None:
    assert bus_factor("all-reduce", 2) == 1.0
    assert bus_factor("all-reduce", 4) == 1.5
    assert bus_factor("all-gather", 4) == 0.75
    assert bus_factor("broadcast", 4) == 1.0
    assert bus_factor("all-reduce", 1) == 0.0
