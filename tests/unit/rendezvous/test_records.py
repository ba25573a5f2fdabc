"""What is written to etcd is read back, by an older and a newer release too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.rendezvous.plan import Member, Plan
from elaunch.rendezvous.records import Leader, Node, Phase, Reason, Spec, decode, encode
from elaunch.rendezvous.state import State

text = st.text(max_size=12)
number = st.integers(-1, 2**31)
reasons = st.builds(Reason, text, text)
nodes = st.builds(Node, text, text, text, number, number, text, number, text, number, text, number)
members = st.builds(Member, text, text, number, number, number, text, number, number)
plans = st.builds(Plan, number, number, reasons, st.lists(members, max_size=4).map(tuple), number, text, text, number)
count = st.integers(0, 2**31)
verdicts = st.sampled_from(["", "failed", "stopped", "succeeded"])
states = st.builds(State, st.sampled_from(Phase), count, count, reasons, number, verdicts, st.booleans(), number)
roles = st.dictionaries(text, st.dictionaries(text, number | text, max_size=3), max_size=3)
specs = st.builds(Spec, number, number, number, roles)
leaders = st.builds(Leader, text, text, text)
records = st.one_of(nodes, members, plans, states, specs, leaders)


@given(records)
def test_a_record_is_read_back(record: Any) -> None:
    assert decode(type(record), encode(record)) == record


@given(records)
def test_members_of_a_newer_release_are_ignored(record: Any) -> None:
    data = json.loads(encode(record))
    data["flavour"] = [1]
    for inner in data.values():
        if isinstance(inner, dict) and not isinstance(record, Spec):
            inner["flavour"] = 1
    for member in data.get("members", ()):
        member["flavour"] = {}
    assert decode(type(record), json.dumps(data).encode()) == record


def test_members_that_an_older_release_does_not_write_have_defaults() -> None:
    old = b'{"phase":"running","generation":3,"restart_count":1,"reason":{"code":"a","text":"b"}}'
    assert decode(State, old) == State(Phase.RUNNING, 3, 1, Reason("a", "b"))


@pytest.mark.parametrize("kind", [Node, Plan, State, Spec, Leader])
@pytest.mark.parametrize(
    "value",
    [b"", b"\xff\xfe", b"null", b"7", b"[]", b'"x"', b"{}", b'{"reason":1}', b'{"phase":"odd","reason":{}}', b"{"],
)
def test_what_is_no_record_is_refused(kind: type[Any], value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are json's or ours
        decode(kind, value)


def test_a_record_is_json_that_an_operator_can_read() -> None:
    plan = Plan(1, 0, Reason("start", "the job starts"), (), 0, "n0", "10.0.0.1", 5)
    assert json.loads(encode(plan)) == {
        "generation": 1,
        "restart_count": 0,
        "reason": {"code": "start", "text": "the job starts"},
        "members": [],
        "world_size": 0,
        "store_node": "n0",
        "store_address": "10.0.0.1",
        "store_port": 5,
        "from_step": -1,
        "avoid_steps": [],
        "recorded_step": -1,
        "rewinds": [],
        "incarnation": "",
        "unreachable": [],
        "avoid_ports": [],
    }


def test_a_plan_knows_its_members() -> None:
    member = Member("n0", "h0", 2, 0, 0, "default", 0, 2)
    plan = Plan(1, 0, Reason("start", "x"), (member,), 2, "n0", "10.0.0.1", 5)
    assert plan.member("n0") == member
    assert plan.member("n1") is None
    assert decode(Plan, encode(plan)).member("n0") == member


@pytest.mark.parametrize(
    ("change", "defect"),
    [
        ({"phase": "dancing"}, "phase='dancing' is none of waiting, starting"),
        ({"generation": "3"}, "generation='3' is no int"),
        ({"generation": 1.5}, "generation=1.5 is no int"),
        ({"generation": -1}, "generation -1"),
        ({"generation": True}, "generation=True is no int"),
        ({"verdict": "running"}, "verdict='running'"),
        ({"reason": None}, "reason: None is no object"),
        ({"reason": {"code": "a"}}, "reason: it has no 'text'"),
        ({"history": {"charged": ["x"]}}, "history: charged='x' is no float"),
        ({"drained": [{"host": "h", "nodes": [1], "since": 1, "why": ""}]}, "drained: nodes=1 is no str"),
        ({"root": {"host": "h", "exit": []}}, "root: exit: .. is no object"),
        ({"hosts": 5}, "hosts=5 is no tuple"),
        ({"learnt": {"sections": {"save": None}}}, r"learnt: sections\['save'\]=None is no float"),
    ],
)
def test_what_is_wrong_with_a_state_is_named(change: dict[str, Any], defect: str) -> None:
    state = json.loads(encode(State(Phase.RUNNING, 3, 1, Reason("a", "b"))))
    with pytest.raises(ValueError, match=f"not a State: {defect}"):
        decode(State, json.dumps(state | change).encode())
    assert decode(State, json.dumps(state | {"generation": 3.0}).encode()).generation == 3
    with pytest.raises(ValueError, match="nested too deeply"):
        decode(State, b"[" * 100_000)


def test_final_phases() -> None:
    assert {p for p in Phase if p.final} == {Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED}


@pytest.mark.parametrize("member", ['"slots": "8"', '"host": 5', '"owns_rank": "no"', '"node_id": null'])
def test_a_member_of_another_kind_is_refused_where_it_is_read(member: str) -> None:
    """Not in the middle of a plan."""
    good = '"node_id": "n", "host": "h", "address": "a", "slots": 8, "store_port": 1, "control": "c"'
    assert decode(Node, f"{{{good}}}".encode()).slots == 8
    with pytest.raises(ValueError, match="not a Node"):
        decode(Node, f"{{{good}, {member}}}".encode())
