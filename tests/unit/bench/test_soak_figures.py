"""The course of a seed, goodput and recoveries of bench/soak.py, as values."""

from __future__ import annotations

import pytest

from bench.soaking.course import HOSTS, drawn, told
from bench.soaking.figures import NOBODY, SEVERAL, Recovery, goodput, recoveries, rises, spread
from bench.soaking.lines import Line
from elaunch.inject import KINDS, POINTS


def steps(*times: tuple[int, float]) -> list[Line]:
    return [Line("step", 1, 0, 1, 1, t, step=step) for step, t in times]


def test_a_seed_is_a_course() -> None:
    assert drawn(5, 600, 20) == drawn(5, 600, 20) != drawn(6, 600, 20)
    assert [one.fault for one in drawn(5, 600, 20)[:4]] == [one.fault for one in drawn(5, 80, 20)]
    assert len(told(drawn(5, 600, 20)[0]).splitlines()) == 1


def test_all_that_a_laboratory_can_do_is_drawn_at_all_points() -> None:
    found = drawn(1, 200_000, 20)
    assert {one.fault.kind for one in found} == set(KINDS)
    assert {one.fault.port for one in found if one.fault.what.target == "port"} == {"mlx5_0:1", "mlx5_1:1"}
    assert {one.fault.at for one in found if one.fault.at} == set(POINTS)
    assert {one.fault.rank for one in found} == {-1, 0, 1, 2}
    assert {one.host for one in found} == {0, 1, 2, HOSTS}


def test_steps_that_are_done_again_are_no_progress() -> None:
    assert rises(steps((1, 1.0), (1, 1.1), (2, 2.0), (2, 5.0), (1, 4.0), (3, 6.0))) == [1.0, 2.0, 6.0]


@pytest.mark.parametrize(
    ("faults", "kind"),
    [
        ([], NOBODY),
        ([(1.0, "kill")], "kill"),
        ([(2.3, "kill")], "kill"),
        ([(4.0, "kill")], "kill"),
        ([(4.0, "kill"), (4.5, "loss")], SEVERAL),
        ([(1.0, "kill"), (1.5, "loss")], "loss"),
        ([(1.0, "kill"), (4.5, "loss")], SEVERAL),
        ([(7.0, "kill")], NOBODY),
    ],
)
def test_a_pause_is_of_the_last_fault_before_it(faults: list[tuple[float, str]], kind: str) -> None:
    assert recoveries([1.0, 1.5, 2.0, 6.0, 6.5], faults) == [Recovery(kind, 2.0, 4.0)]


def test_goodput_is_what_counted_steps_take_usually() -> None:
    times = [1.0, 1.1, 1.2, 5.2, 5.3, 5.4, 5.9]
    found = recoveries(times, [(1.0, "kill")])
    good = goodput(times, 7, found, 1.0, 6.0)
    assert good.step == pytest.approx(0.1)
    assert good.useful == pytest.approx(0.7)
    assert good.lost == {"kill": pytest.approx(4.0)}
    assert good.slow == pytest.approx(0.3)
    assert good.ratio == pytest.approx(0.14)


def test_a_distribution() -> None:
    assert spread([]) == {"n": 0}
    assert spread([float(n) for n in range(1, 11)]) == {"n": 10, "min": 1, "median": 5.5, "p90": 10, "max": 10}
