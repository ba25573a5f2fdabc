"""Whatever is saved by n ranks comes back equal on m: any tree, type, shape and placement, in real processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.e2e.crews import Crew

pytestmark = [pytest.mark.slow, pytest.mark.torch]

DTYPES = [
    *("bfloat16", "float16", "float32", "float64", "complex32", "complex64", "complex128", "bool"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
]
VIEWS = ["plain", "plain", "strided", "transposed", "conjugated", "negated", "part"]
VALUES = [
    *("none", "true", "int", "float", "infinite", "complex", "text", "bytes", "bytearray", "tuple", "set", "dtype"),
    *("size", "device", "empty dict", "empty list", "numbers"),
]
KEYS = ["a", "b", "a.b", "0", "", "weight"]

SHAPES = [
    *([], [0], [1], [2], [5], [7], [13], [30]),
    *([3, 5], [5, 3], [8, 8], [13, 1], [1, 13], [0, 4], [4, 0], [6, 7]),
    *([2, 3, 4], [5, 1, 7], [7, 5, 3], [3, 0, 2], [4, 6, 5, 3], [1, 1, 1, 9]),
]
CUTS = [[one, other] for one in (0, 1, 2, -1) for other in (0, 1, 2, 3, -1)]  # of a mesh's first and second dimension

tensors = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(DTYPES),
        "shape": st.sampled_from(SHAPES),
        "seed": st.integers(0, 9),
        "view": st.sampled_from(VIEWS),
        "spread": st.sampled_from([True, True, True, False]),
        "cuts": st.sampled_from(CUTS),
    }
)
values = st.sampled_from(VALUES).map(lambda name: {"value": name})
dicts = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        tensors | values,
        lambda inner: (
            st.dictionaries(st.sampled_from(KEYS), inner, max_size=4).map(lambda items: {"dict": items})
            | st.lists(inner, max_size=3).map(lambda items: {"list": items})
        ),
        max_leaves=8,
    ),
    max_size=4,
)
# A few tensors at least: an example costs the same, however much is in it.
trees = st.builds(
    lambda inner, more: {"dict": {**inner, "many": {"list": more}}}, dicts, st.lists(tensors, min_size=4, max_size=8)
)


@st.composite
def places(draw: st.DrawFn) -> dict[str, Any]:
    world = draw(st.sampled_from([1, 2, 3, 4, 4, 5, 6, 6]))
    pairs = [[one, world // one] for one in range(2, world) if world % one == 0]
    return {"world": world, "mesh": draw(st.sampled_from([[world], *pairs, *pairs]))}


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew() as made:
        yield made


_numbers = itertools.count()


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tree=trees, saved=places(), restored=places(), verify=st.sampled_from(["full", "fast"]))
def test_what_is_saved_comes_back(
    crew: Crew, tmp_path: Path, tree: Any, saved: dict[str, Any], restored: dict[str, Any], verify: str
) -> None:
    path = str(tmp_path / f"example{next(_numbers)}")
    told = {"path": path, "tree": tree, "from": saved, "to": restored, "verify": verify}
    for committed, error in crew.do("tests.programs.checkpoint_trees:save", saved["world"], told):
        assume("under one key" not in error)
        assert committed, error
    for step, wrong in crew.do("tests.programs.checkpoint_trees:restore", restored["world"], told):
        assert (step, wrong) == (1, [])
