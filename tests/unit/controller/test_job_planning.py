"""Who gets which ranks, for any nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from job_makers import make_node

from elaunch.controller.job import Job, NodeView
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.planning import make_plan, store_port
from elaunch.controller.policy import Policy
from elaunch.rendezvous.plan import Member, Plan
from elaunch.rendezvous.records import Node, Reason
from elaunch.rendezvous.seating import order

REASON = Reason("start", "the job starts")

nodes_of = st.lists(
    st.builds(
        make_node,
        st.integers(0, 40),
        st.integers(1, 8),
        role=st.sampled_from(["default", "trainer", "reader"]),
        joined=st.integers(1, 5),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda node: node.node_id,
)


def plan_of(nodes: list[Node], **job: object) -> Plan:
    views = {node.node_id: NodeView(node, NodeStatus(node.node_id)) for node in nodes}
    return make_plan(Job(Policy(1, 99, 3), nodes=views, **job), nodes, REASON)  # type: ignore[arg-type]


def members_of(nodes: list[Node]) -> tuple[Member, ...]:
    return plan_of(nodes).members


def ids(nodes: list[Node]) -> list[str]:
    return [node.node_id for node in nodes]


@given(nodes_of)
def test_ranks_are_unique_and_contiguous(nodes: list[Node]) -> None:
    plan = plan_of(nodes)
    ranks = [r for m in plan.members for r in range(m.rank0, m.rank0 + m.slots)]
    assert ranks == list(range(plan.world_size))
    assert plan.world_size == sum(node.slots for node in nodes)
    assert [m.group_rank for m in plan.members] == list(range(len(nodes)))
    assert (plan.store_node, plan.store_address) == (nodes[0].node_id, nodes[0].address)


@given(nodes_of)
def test_role_ranks_are_unique_and_contiguous_in_each_role(nodes: list[Node]) -> None:
    plan = plan_of(nodes)
    for role in {node.role for node in nodes}:
        members = [m for m in plan.members if m.role == role]
        ranks = [r for m in members for r in range(m.role_rank0, m.role_rank0 + m.slots)]
        assert ranks == list(range(len(ranks)))
        assert {m.role_world_size for m in members} == {len(ranks)}


@given(nodes_of, st.data(), st.integers(1, 12))
def test_survivors_come_first_and_keep_their_order(old: list[Node], data: st.DataObject, limit: int) -> None:
    lost = data.draw(st.sets(st.sampled_from(ids(old))))
    new = [make_node(100 + i) for i in range(data.draw(st.integers(0, 5)))]
    here = data.draw(st.permutations([n for n in old if n.node_id not in lost] + new))
    placed = order(here, members_of(old), limit)
    assert len(placed) == min(limit, len(here))
    assert len(set(ids(placed))) == len(placed)
    survivors = [i for i in ids(old) if i not in lost]
    assert [i for i in ids(placed) if i in survivors] == survivors[:limit]


@given(nodes_of, st.data())
def test_survivors_keep_their_places_where_as_many_come_as_were_lost(old: list[Node], data: st.DataObject) -> None:
    lost = data.draw(st.sets(st.sampled_from(ids(old))))
    more = data.draw(st.integers(0, 3))
    new = [make_node(100 + i) for i in range(len(lost) + more)]
    placed = ids(order([n for n in old if n.node_id not in lost] + new, members_of(old), 99))
    for place, node_id in enumerate(ids(old)):
        if node_id not in lost:
            assert placed[place] == node_id


@given(nodes_of, st.randoms())
def test_the_order_does_not_depend_on_how_nodes_are_listed(nodes: list[Node], random: object) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert order(nodes, (), 5) == order(shuffled, (), 5)


def test_newcomers_come_in_the_order_in_which_they_joined() -> None:
    nodes = [make_node(1, joined=30), make_node(2, joined=10), make_node(3, joined=20)]
    assert ids(order(nodes, (), 2)) == ["n2", "n3"]


def test_asked_for_node_ranks_come_first() -> None:
    nodes = [make_node(1), make_node(2, node_rank=1), make_node(3, node_rank=0)]
    assert ids(order(nodes, (), 3)) == ["n3", "n2", "n1"]


def test_a_replacement_takes_the_node_rank_of_the_lost() -> None:
    old = [make_node(i, node_rank=i) for i in range(3)]
    here = [old[0], old[2], make_node(9, node_rank=1)]
    assert ids(order(here, members_of(old), 3)) == ["n0", "n9", "n2"]


def test_a_spare_does_not_push_a_survivor_out() -> None:
    old = [make_node(1, node_rank=1), make_node(2, node_rank=2)]
    assert ids(order([*old, make_node(0, node_rank=0)], members_of(old), 2)) == ["n1", "n2"]


def test_a_plan_continues_the_count() -> None:
    nodes = [make_node(1), make_node(2)]
    plan = plan_of(nodes, generation=6, restart_count=2)
    assert (plan.generation, plan.restart_count) == (7, 2)
    assert plan_of(nodes, generation=6, restart_count=2, charged=True).restart_count == 3


def test_the_status_knows_the_store_port_better_than_the_key() -> None:
    node = make_node(1)
    assert store_port(NodeView(node)) == 1001
    assert store_port(NodeView(node, NodeStatus("n1"))) == 1001
    assert store_port(NodeView(node, NodeStatus("n1", store_port=7))) == 7
