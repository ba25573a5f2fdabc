"""Faults as values: what cannot be is refused, what can be survives JSON and protobuf, and each has an expectation."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.controller.command_messages import pack_command, unpack_command
from elaunch.controller.commands import Inject
from elaunch.controller.injection import wrong_fault
from elaunch.controller.places import place_of
from elaunch.inject import EXPECTED, KINDS, POINTS, Expected, Fault, Settings, expected, schedule
from elaunch.inject.page import InjectPage
from elaunch.inject.watching import Watch
from elaunch.rendezvous.state import RankExit

seeds = st.integers(0, 2**64)
HOSTILE: list[dict[str, object]] = [
    {"kind": "stop", "rank": 1, "seconds": 10**400},
    {"kind": "stop", "rank": 1, "seconds": float("nan")},
    {"kind": "stop", "rank": 1, "seconds": float("inf")},
    {"kind": "stop", "rank": 1, "seconds": -1},
    {"kind": "stop", "rank": 10**5000},
    {"kind": "stop", "rank": True},
    {"kind": "kill", "rank": 1, "at": "x" * 10**6},
    {"kind": "kill", "rank": 1, "at": ["step"]},
    {"kind": "kill", "rank": 1, "at": "a\x1b[2J"},
    {"kind": "agent-kill", "node": "a b"},
    {"kind": "agent-kill", "node": "x" * 10**6},
    {"kind": "agent-kill", "node": "a\n"},
    {"kind": ["stop"], "rank": 1},
    {"kind": "link-down", "node": "a", "port": "../../../etc"},
    {"kind": "link-down", "node": "a", "port": "/etc/x"},
    {"kind": "link-down", "node": "a", "port": ".."},
    {"kind": "link-down", "node": "a", "port": "mlx5_0:.."},
]
lists = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6)


@settings(deadline=None)
@given(seeds, lists, st.integers(1, 64), st.integers(1, 9), st.floats(0.5, 60.0))
def test_the_same_seed_is_the_same_course(seed: int, kinds: list[str], world: int, hosts: int, every: float) -> None:
    def drawn() -> object:
        random.seed()  # of no effect on it
        return schedule(seed, 600.0, every=every, world=world, hosts=hosts, kinds=kinds)

    found = schedule(seed, 600.0, every=every, world=world, hosts=hosts, kinds=kinds)
    assert found == drawn()
    assert len(found) == int(600.0 // every)
    for number, planned in enumerate(found):
        assert every * number <= planned.at <= every * (number + 1)
        assert planned.fault.kind in kinds
        assert not planned.fault.what.lasts or planned.fault.seconds > 0, "what lasts is undone"
        if planned.fault.what.target == "rank":
            assert 0 <= planned.fault.rank < world
        else:
            assert 1 <= planned.host <= hosts
        assert not planned.fault.at or planned.fault.at in POINTS


SEVEN = [
    (10.859, "stop for 6.244 s", 3),
    (31.714, "kill SIGKILL at optimizer", 2),
    (51.519, "kill SIGKILL at backward", 1),
]


def test_other_seeds_are_other_courses_and_come_to_all_kinds() -> None:
    courses = {schedule(seed, 400.0, world=8, hosts=3) for seed in range(50)}
    assert len(courses) == 50
    assert {planned.fault.kind for course in courses for planned in course} == set(KINDS)


def test_the_course_of_a_seed_stays_what_it_was() -> None:
    """A failed seed replays, also with a later release."""
    one = schedule(7, 60.0, world=4, kinds=("kill", "stop"))
    assert [(planned.at, str(planned.fault), planned.fault.rank) for planned in one] == SEVEN


@pytest.mark.parametrize("bad", [{"every": 0.0}, {"world": 0}, {"hosts": 0}, {"kinds": ()}, {"kinds": ("nothing",)}])
def test_a_course_of_nothing_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        schedule(1, 60.0, **bad)  # type: ignore[arg-type]


@settings(deadline=None)
@given(seeds)
def test_a_fault_survives_json_and_the_wire(seed: int) -> None:
    for planned in schedule(seed, 200.0, world=8, hosts=2):
        fault = planned.fault
        assert Fault.of(json.loads(json.dumps(fault.values))) == fault
        command = Inject("id", 3, (1,), fault)
        assert unpack_command(pack_command(command, 5)) == command


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "a fault has a kind"),
        ({"kind": 7}, "a fault has a kind"),
        ({"kind": "fire"}, "no fault 'fire': expected one of kill, "),
        ({"kind": "kill", "rank": "1"}, "kill: rank='1': expected a whole number from -1 to "),
        ({"kind": "kill", "rank": True}, "kill: rank=True: expected a whole number"),
        ({"kind": "kill", "signal": 65}, "kill: signal=65: expected a whole number from 1 to 64"),
        ({"kind": "kill", "seconds": 3}, "kill: it has no duration"),
        ({"kind": "stop", "seconds": float("nan")}, "stop: seconds=nan: expected a number"),
        ({"kind": "stop", "seconds": -1.0}, "stop: seconds=-1: expected 0 to 86400"),
        ({"kind": "stop", "step": 5}, "stop: step and nth are of a point of the program (at)"),
        ({"kind": "slow-cpu", "at": "forward"}, "slow-cpu: it does not happen at a point of the program"),
        ({"kind": "raise", "at": "A place"}, "raise: at='A place' is no point of a program"),
        ({"kind": "link-flap", "port": "a"}, "link-flap: it needs a duration"),
        ({"kind": "link-down", "port": "x y"}, "link-down: port='x y' is no name"),
        ({"kind": "link-down", "port": ".."}, "link-down: port='..' is no name"),
        ({"kind": "link-down", "port": "a/../../b"}, "link-down: port='a/../../b' is no name"),
        ({"kind": "kill", "colour": "red"}, "a fault has no 'colour'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(values: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is looked at
        Fault.of(values)
    assert str(caught.value).startswith(text)


def test_commands_are_for_those_of_a_job_and_say_whom() -> None:
    assert wrong_fault({"kind": "kill"}) == "kill: no rank given"
    assert wrong_fault({"kind": "agent-kill"}) == "agent-kill: no node given"
    assert wrong_fault({"kind": "partition"}).startswith("partition is brought about from outside of a job only")
    assert wrong_fault({"kind": "undo"}) == "undo: no rank and no node given"
    assert wrong_fault({"kind": "undo", "rank": 0}) == wrong_fault({"kind": "undo", "node": "a"}) == ""
    assert wrong_fault(None) == "no fault given"
    assert wrong_fault({"kind": "kill", "rank": 0}) == ""


def test_each_kind_has_an_expectation_with_a_bound_that_grows_with_the_settings() -> None:
    assert EXPECTED.keys() == KINDS.keys()
    for kind in EXPECTED.values():
        assert 0 < kind.within() < 300
        assert kind.within(Settings(600, 60, 30)) >= kind.within()
        assert bool(kind.codes) or kind.generation == "same"
    long, short = (expected(Fault("stop", rank=0, seconds=seconds)) for seconds in (100.0, 1.0))
    assert (long.generation, short.generation) == ("next", "either")


def _bound(usual: Expected) -> str:
    """As the table of the page has it."""
    if not usual.codes:
        return "nothing is told"
    of = ((usual.hang, "--hang-timeout"), (usual.lease, "lease_ttl"), (usual.controller, "--lease-ttl"))
    return " + ".join((f"{usual.fixed:g} s", *(f"{times:g} x `{name}`" for times, name in of if times)))


def test_the_page_has_the_bound_of_each_kind() -> None:
    page = (Path(__file__).parents[3] / "docs" / "inject.md").read_text()
    lines = page.split("| told within |")[1].split("\n\n")[0].splitlines()[2:]
    rows = [[word.strip() for word in line.strip("|").split("|")] for line in lines]
    told = {kind.strip("` "): within for kinds, within, _ in rows for kind in kinds.split(",")}
    assert told == {kind: _bound(usual) for kind, usual in EXPECTED.items()}


def test_a_fault_happens_once_at_its_step_and_its_turn() -> None:
    page, _ = InjectPage.make()
    watch = Watch(page)
    watch.reached("forward", 4)
    page.arm(Fault("raise", rank=0, at="forward", step=6, nth=2))
    for step in (5, 6):
        watch.reached("forward", step)
        watch.reached("backward", step)
    assert page.fired == 0
    with pytest.raises(RuntimeError, match="injected at forward"):
        watch.reached("forward", 7)
    assert (page.fired, page.done) == (1, 1)
    watch.reached("forward", 8)


def test_what_lasts_happens_at_each_pass_until_it_is_over() -> None:
    page, _ = InjectPage.make()
    now = [0.0]
    watch = Watch(page, lambda: now[0])
    page.arm(Fault("slow-step", rank=0, at="forward", delay=0.001, seconds=10.0))
    assert watch.due("forward") is not None
    assert watch.due("forward") is not None
    assert (page.fired, page.done) == (1, 0)
    now[0] = 10.0
    assert watch.due("forward") is None
    assert page.done == 1
    assert watch.due("forward") is None


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_a_page_that_holds_anything_is_read_without_harm(junk: bytes) -> None:
    page, fd = InjectPage.make()
    import os

    page.arm(None)
    os.pwrite(fd, len(junk).to_bytes(2, "little") + junk, 64)
    watch = Watch(page)
    watch.reached("forward", 1)
    assert page.fired == 0
    os.close(fd)
    page.close()


def test_errors_on_purpose_are_no_error_of_the_program() -> None:
    """Two in a row at one line would else end the job as one that no restart can mend."""
    for kind in ("elaunch.inject.acts.InjectedError", "elaunch.inject.acts.InjectedMemoryError"):
        trace = (
            f'Traceback (most recent call last):\n  File "/a/acts.py", line 29, in act\n{kind}: injected at forward\n'
        )
        assert place_of(RankExit(0, 0, 1, 1, 0.0, traceback=trace)) is None
    told = RankExit(0, 0, 1, 1, 0.0, traceback=trace.replace("InjectedMemoryError", "OtherError"))
    assert place_of(told) is not None


@pytest.mark.parametrize("values", HOSTILE, ids=map(str, range(len(HOSTILE))))
def test_what_no_fault_can_be_is_told_in_one_short_line(values: dict[str, object]) -> None:
    """Whoever may write to etcd may send anything: the leader must be able to say no. A port is a file's name."""
    text = wrong_fault(values)
    assert text
    assert len(text) < 400
    assert text.isprintable()


def test_an_interface_with_a_dot_is_a_port() -> None:
    assert wrong_fault({"kind": "link-down", "node": "a", "port": "eth0.100"}) == ""
