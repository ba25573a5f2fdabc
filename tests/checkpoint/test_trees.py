"""Any tree of values comes back as it was, or is refused when it is saved."""

from __future__ import annotations

import enum
import io
import re
from collections import Counter, OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elaunch.checkpoint.state.digest import difference, differing, digest
from elaunch.checkpoint.state.per_rank import PerRank
from elaunch.checkpoint.state.saved import nested, saved_keys
from elaunch.checkpoint.state.states import States
from elaunch.checkpoint.state.tree import decode, encode
from elaunch.errors import DamagedCheckpointError, StateError
from tests.checkpoint.roundtrip import restore, save

pytestmark = pytest.mark.torch
DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float8_e4m3fn,
    torch.complex64,
    torch.bool,
    torch.int64,
    torch.uint8,
]


class Holder:
    """Something with a state."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.state = state


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


Pair = namedtuple("Pair", "a b")


def equal(one: Any, other: Any) -> bool:
    """Equal with all types, orders, and the bits of tensors."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape
        return same and digest(one) == digest(other)
    if isinstance(one, numpy.ndarray):
        return one.dtype == other.dtype and numpy.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, io.BytesIO):
        return one.getvalue() == other.getvalue()
    return bool(one == other) or one != one


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    made = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 9)))).to(dtype)
    return made.t() if made.ndim == 2 and draw(st.booleans()) else made


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.complex_numbers(allow_nan=False)
)
keys = st.text(max_size=3) | st.integers(-5, 5) | st.tuples(st.integers(0, 2), st.booleans())
leaves = scalars | tensors() | st.sets(st.integers()) | st.frozensets(st.text(max_size=2))


def dicts(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.dictionaries(keys, children, max_size=4)
    return plain | plain.map(OrderedDict)


trees = st.recursive(
    leaves,
    lambda children: st.lists(children, max_size=4) | st.lists(children, max_size=3).map(tuple) | dicts(children),
    max_leaves=12,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(tree=trees)
def test_a_state_comes_back(tree: Any, tmp_path: Path) -> None:
    """Stored once, stored per rank, and by name; through stock DCP's files."""
    objects = {"one": Holder(tree), "two": PerRank(Holder(tree))}
    try:
        save(objects, tmp_path)
    except StateError as error:
        if "rename one" not in str(error):  # keys that look alike, as 1 and "1"
            raise
        return
    once, own = Holder(None), Holder(None)
    restore({"one": once, "two": PerRank(own)}, tmp_path)
    assert equal(once.state, tree)
    assert equal(own.state, tree)


@settings(max_examples=200, deadline=None)
@given(tree=trees, ordered=st.booleans())
def test_digests_tell_trees_apart(tree: Any, ordered: bool) -> None:
    try:
        stored, shape = encode(tree, ("x",), ordered=ordered)
    except StateError:
        return
    assert digest((stored, shape)) == digest(encode(tree, ("x",), ordered=ordered))
    assert digest((stored, shape)) != digest(encode([tree], ("x",), ordered=ordered))
    back = decode(stored, shape)
    assert equal(back, tree) or not ordered


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (Level.HIGH, 3),
        (numpy.float32(1.5), 1.5),
        (numpy.bool_(True), True),
        (defaultdict(list, {"a": [1]}), {"a": [1]}),
        (Counter("aab"), Counter("aab")),
        (numpy.arange(6, dtype=numpy.int16).reshape(2, 3)[:, ::-1], numpy.array([[2, 1, 0], [5, 4, 3]], numpy.int16)),
        (numpy.array(2.5), numpy.array(2.5)),
        (io.BytesIO(b"ab"), io.BytesIO(b"ab")),
        (torch.Size([2, 3]), torch.Size([2, 3])),
        (torch.bfloat16, torch.bfloat16),
        (torch.device("cpu"), torch.device("cpu")),
        (bytearray(b"x"), bytearray(b"x")),
        (b"", b""),
        ("\ud800", "\ud800"),
        ([[], {}, [{}], ()], [[], {}, [{}], ()]),
        ({}, {}),
        ([], []),
        (torch.nn.Parameter(torch.ones(2)), torch.ones(2)),
        (torch.ones(2, dtype=torch.complex64).mul(1j).conj(), torch.tensor([complex(0.0, -1.0)] * 2)),
    ],
)
def test_what_is_taken(value: Any, back: Any, tmp_path: Path) -> None:
    save({"x": Holder(value), "y": Holder({"in": [value, 1]})}, tmp_path)
    x, y = Holder(None), Holder(None)
    restore({"x": x, "y": y}, tmp_path)
    assert equal(x.state, back)
    assert equal(y.state, {"in": [back, 1]})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "builtins.object"),
        (Colour.RED, "store its .value"),
        (lambda: 1, "builtins.function"),
        (Path("/x"), "pathlib"),
        (Pair(1, 2), "Pair"),
        (numpy.array(["a"]), "numpy.ndarray of <U1"),
        (1 << 3000, "3001 bits"),
        ({frozenset(): 1}, "frozenset"),
        (torch.eye(2).to_sparse(), "sparse"),
        (torch.ones(1, device="meta"), "meta"),
        (PerRank({}), "PerRank"),
        (torch.nn.Linear(1, 1), "give the object itself a name"),
    ],
)
def test_what_is_refused(value: Any, said: str) -> None:
    for held in (Holder({"in": [0, value]}), PerRank({"in": [0, value]}), {"in": [0, value]}):
        with pytest.raises(StateError, match=re.escape(said)) as caught:
            States({"x": held}, rank=0, world=1).collect()
        assert "'x.in.1'" in str(caught.value)


def test_a_state_that_holds_itself_is_refused() -> None:
    state: dict[str, Any] = {}
    state["me"] = state
    with pytest.raises(StateError, match="hold itself"):
        States({"x": state}, rank=0, world=1).collect()


def test_names_that_would_share_a_key_are_refused() -> None:
    for objects in (
        {"a": {"b.c": 1}, "a.b": {"c": 1}},
        {"a": {"b": {"c": 1}, "b.c": 1}},
        {"a": {1: 1, "1": 1}},
        {"elaunch.shape.a": 1},
    ):
        with pytest.raises(StateError, match=r"rename one|use another one"):
            States(objects, rank=0, world=1).collect()


def test_a_damaged_list_of_keys_is_an_error_of_bounded_size() -> None:
    with pytest.raises(DamagedCheckpointError, match="value of its own"):
        nested([(("a",), 1), (("a", "b"), 2)])
    assert nested([((10**12,), 1)]) == {10**12: 1}
    with pytest.raises(DamagedCheckpointError, match="lacks"):
        decode({}, ("dict", (("a", ""),)))
    for shape in (
        ("dict", 1),
        ("dict", ((1, 2, 3),)),
        None,
        3,
        ("list", 5),
        ("dict", (([], ""),)),
        "ndarray",
        "BytesIO",
    ):
        with pytest.raises(DamagedCheckpointError, match=r"shape|lacks"):
            decode([1], shape)


def test_saved_keys_tell_what_a_checkpoint_holds(tmp_path: Path) -> None:
    saved = save({"a": {"w.x": torch.ones(2, 3, dtype=torch.bfloat16), "n": [{"k": 1}]}}, tmp_path)
    assert saved["a.w.x"].path == ("a", "w.x")
    assert (saved["a.w.x"].size, saved["a.w.x"].dtype) == ((2, 3), torch.bfloat16)
    assert saved["a.n.0.k"].path == ("a", "n", 0, "k")
    assert not saved["a.n.0.k"].is_tensor
    from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata

    assert saved_keys(Metadata({"k": BytesStorageMetadata()}))["k"].path == ("k",)


def test_ranks_that_differ_are_named() -> None:
    def values(**states: Any) -> dict[str, bytes]:
        return States(states, rank=0, world=3).shared_values()

    same = values(data={"a": 1, "b": torch.ones(2)}, lr=0.1)
    assert values(data={"b": torch.ones(2), "a": 1}, lr=0.1) == same  # filled in another order
    others = [
        values(data={"a": 1, "b": torch.zeros(2)}, lr=0.1),
        values(data={"a": 1.0, "b": torch.ones(2)}, lr=0.1),
        values(data={"a": 1, "b": torch.ones(2, dtype=torch.float64)}, lr=0.1),
        values(data={"a": 1, "b": torch.ones(2), "c": {}}, lr=0.1),
    ]
    for other in others:
        assert differing([same, same, other]) == [("data", 0, 2)]
    assert differing([same, same, same]) == []
    assert difference("data", 0, 2).startswith(
        "state 'data' differs between ranks 0 and 2, and only one would be kept; "
    )
    assert difference("data", 0, 2).endswith("or declare it PerRank(data)")
    assert difference("optim.param_groups", 0, 2).endswith("make it equal on all ranks")
    assert difference("new", 0, 2, lacking=2).startswith("rank 0 has a state 'new' and rank 2 has none")
    assert difference("new", 0, 2, lacking=0).startswith("rank 2 has a state 'new' and rank 0 has none")
    assert difference("data", 0, 2, None, "so").endswith("ranks 0 and 2: so")
    assert values(x=PerRank({"a": 1})) == {}
