"""Keys of one job never meet those of another, whatever the jobs are called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elaunch.rendezvous.keys import ROOT, JobKeys

names = st.text(min_size=1, max_size=12) | st.text("./%a \0", min_size=1, max_size=5)


@given(names, names)
def test_no_job_lies_inside_another(one: str, other: str) -> None:
    a, b = JobKeys(one).prefix, JobKeys(other).prefix
    assert (a == b) == (one == other)
    if one != other:
        assert not a.startswith(b)
    assert a.startswith(ROOT)
    assert a.count("/") == 3


@given(st.integers(1, 10**10 - 1), st.integers(1, 10**10 - 1))
def test_plans_are_in_the_order_of_their_generations(one: int, other: int) -> None:
    keys = JobKeys("job")
    assert (keys.plan(one) < keys.plan(other)) == (one < other)
    assert keys.plan(one).startswith(keys.plans)


def test_the_names() -> None:
    keys = JobKeys("a/b")
    assert keys.prefix == "/elaunch/a%2Fb/"
    assert keys.node("n1") == "/elaunch/a%2Fb/nodes/n1"
    assert keys.plan(7) == "/elaunch/a%2Fb/plans/0000000007"
    assert len({keys.spec, keys.leader, keys.state, keys.commit, keys.nodes, keys.plans, keys.events}) == 7
