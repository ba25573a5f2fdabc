"""What holds of every machine: bindings follow the hardware, never the order in which it was found."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, event, given
from hypothesis import strategies as st

from elaunch.errors import NoRouteError
from elaunch.topology.binding import NodeBinding, RankBinding, Wishes
from elaunch.topology.cpus import cpu_set
from elaunch.topology.digest import differences, digest
from elaunch.topology.level import Level
from elaunch.topology.machine import LinkLayer, NumaNode, Topology
from elaunch.topology.policy import bind
from tests.unit.topology.machines import rails
from tests.unit.topology.random_machines import (
    as_a_matrix_tells,
    down,
    equal_ports,
    found_otherwise,
    machines,
    shuffled,
)

SEEDS = st.integers(0, 1 << 30)
WISHES = st.builds(
    Wishes,
    nic_policy=st.sampled_from(["auto", "local", "all"]),
    nics_per_rank=st.sampled_from([None, None, 1, 2]),
    cpu_bind=st.sampled_from(["none", "numa", "core"]),
    rails=st.sampled_from([None, 1, 2, 4]),
)


def bound(topology: Topology, wishes: Wishes) -> NodeBinding:
    try:
        return bind(topology, len(topology.devices), wishes)
    except NoRouteError:
        assume(False)
        raise


def by_device(binding: NodeBinding, topology: Topology) -> dict[str, tuple[object, ...]]:
    """Everything a rank gets, by what does not depend on names and indices."""
    found: dict[str, tuple[object, ...]] = {}
    for rank in binding.ranks:
        assert rank.device is not None
        ports = tuple(p.pci for p in rank.ports)
        found[rank.device.id] = (ports, rank.level, rank.rail, rank.numa, rank.cpus, rank.memory)
    return found


@given(machines(), WISHES, SEEDS)
def test_the_order_in_which_things_are_found_changes_no_binding(topology: Topology, wishes: Wishes, seed: int) -> None:
    other = found_otherwise(topology, seed)
    here, there = bound(topology, wishes), bound(other, wishes)
    assert by_device(here, topology) == by_device(there, other)
    assert [p.pci for p in here.shared] == [p.pci for p in there.shared]
    assert {(r.port.pci, r.code) for r in here.refused} == {(r.port.pci, r.code) for r in there.refused}
    assert _rails(topology) == _rails(other)


@given(machines(), WISHES, SEEDS)
def test_the_order_of_rows_and_columns_changes_no_binding(topology: Topology, wishes: Wishes, seed: int) -> None:
    told = as_a_matrix_tells(topology)
    assert bound(told, wishes) == bound(shuffled(told, seed), wishes)
    assert digest(told) == digest(shuffled(told, seed))


@given(machines())
def test_a_matrix_gives_each_device_a_port_as_near_as_the_tree_does(topology: Topology) -> None:
    """Rates, models and link layers are not in it, so here they are the same throughout."""
    topology = equal_ports(topology)
    here, there = bound(topology, Wishes()), bound(as_a_matrix_tells(topology), Wishes())
    assert [r.level for r in here.ranks] == [r.level for r in there.ranks]


def _rails(topology: Topology) -> dict[tuple[str, int], int]:
    ids = {p.id: (p.pci, p.number) for p in topology.ports}
    return {ids[port]: rail for port, rail in rails(topology).items()}


@given(machines(devices=2), WISHES, st.data())
def test_losing_a_port_moves_its_ranks_to_the_next_best_and_nobody_else(
    topology: Topology, wishes: Wishes, data: st.DataObject
) -> None:
    before = bound(topology, wishes)
    used = sorted({p.id for r in before.ranks for p in r.ports[:1]})
    assume(used)
    lost = data.draw(st.sampled_from(used))
    ways = {
        "excluded": (topology, replace(wishes, exclude=(lost,))),
        "unreachable": (topology, replace(wishes, unreachable=((lost, "it leads nowhere"),))),
    }
    if _like(topology, lost):
        ways["down"] = down(topology, lost), wishes
    way = data.draw(st.sampled_from(sorted(ways)))
    after = bound(*ways[way])
    event(way)
    for old, new in zip(before.ranks, after.ranks, strict=True):
        kept = [p.id for p in old.ports if p.id != lost]
        assert lost not in [p.id for p in new.ports]
        assert [p.id for p in new.ports][: len(kept)] == kept or (not kept and wishes.nic_policy == "local")
        assert new.ports, "another way was left, or this would have been NoRouteError"
        assert (new.numa, new.cpus, new.memory) == (old.numa, old.cpus, old.memory)
        if lost not in [p.id for p in old.ports]:
            assert [p.id for p in new.ports] == [p.id for p in old.ports]


def _like(topology: Topology, port: str) -> bool:
    """Whether another port shows what this one would run at."""
    models = {f.address: f.device for f in topology.functions}
    kinds = {p.id: (models[p.pci], p.link_layer, p.rate) for p in topology.ports}
    fastest = max(rate or 0.0 for model, layer, rate in kinds.values() if (model, layer) == kinds[port][:2])
    return fastest == kinds[port][2] and list(kinds.values()).count(kinds[port]) > 1


@given(machines(), WISHES)
def test_every_list_is_of_usable_ports_once_each_nearest_first(topology: Topology, wishes: Wishes) -> None:
    binding = bound(topology, wishes)
    for rank in binding.ranks:
        ids = [p.id for p in rank.ports]
        assert ids
        assert len(ids) == len(set(ids))
        assert rank.why
        assert rank.level in Level
        if binding.shared:
            assert sorted(ids) == sorted(p.id for p in binding.shared)
    refused = {r.port.id for r in binding.refused}
    used = {p.id for r in binding.ranks for p in r.ports}
    assert refused | used == {p.id for p in topology.ports}
    assert not refused & used


@given(machines())
def test_shares_of_cpus_never_overlap_where_there_are_enough(topology: Topology) -> None:
    ranks = bound(topology, Wishes(cpu_bind="core", network=False)).ranks
    for node in topology.numa:
        mine = [r for r in ranks if r.numa == node.number]
        if 0 < len(mine) <= len(node.cpus):
            every = [c for r in mine for c in r.cpus or ()]
            assert cpu_set(every) == node.cpus
            assert len(every) == len(set(every))
            assert max(map(_count, mine)) - min(map(_count, mine)) <= 1


def _count(rank: RankBinding) -> int:
    return len(rank.cpus or ())


@given(machines(), SEEDS)
def test_the_digest_is_equal_for_the_same_machine(topology: Topology, seed: int) -> None:
    other = found_otherwise(topology, seed)
    devices = tuple(replace(d, uuid=f"GPU-{d.index}-elsewhere") for d in other.devices)
    elsewhere = replace(other, devices=devices, allowed_cpus=(0,), notes=("said",))
    assert digest(elsewhere) == digest(topology)
    assert differences(topology, elsewhere) == ()


@given(machines(), st.data())
def test_the_digest_differs_for_any_change_that_matters(topology: Topology, data: st.DataObject) -> None:
    name, change = data.draw(st.sampled_from(sorted(CHANGES.items(), key=lambda item: item[0])))
    other = change(topology)
    assume(other != topology)
    event(name)
    assert digest(other) != digest(topology)
    said = differences(topology, other)
    assert said
    assert all(said)


def _device(topology: Topology, **facts: object) -> Topology:
    first, *rest = topology.devices
    return replace(topology, devices=(replace(first, **facts), *rest))  # type: ignore[arg-type]


def _port(topology: Topology, **facts: object) -> Topology:
    if not topology.ports:
        return topology
    first, *rest = topology.ports
    return replace(topology, ports=(replace(first, **facts), *rest))  # type: ignore[arg-type]


def _moved(topology: Topology) -> Topology:
    """The first device below another bridge."""
    address = topology.devices[0].pci
    bridges = [f.address for f in topology.functions if f.class_code == 0x0604]
    parent = {f.address: f.parent for f in topology.functions}[address]
    other = next((b for b in bridges if b != parent), parent)
    functions = tuple(replace(f, parent=other) if f.address == address else f for f in topology.functions)
    return replace(topology, functions=functions)


CHANGES = {
    "model": lambda t: _device(t, model="H200"),
    "count": lambda t: replace(t, devices=t.devices[1:]),
    "node": lambda t: _device(t, numa=7),
    "place": _moved,
    "lanes": lambda t: replace(t, functions=tuple(replace(f, width=8) for f in t.functions)),
    "rate": lambda t: _port(t, rate=50.0),
    "layer": lambda t: _port(t, link_layer=LinkLayer.OMNIPATH),
    "ports": lambda t: replace(t, ports=t.ports[1:]),
    "nodes": lambda t: replace(t, numa=(*t.numa, NumaNode(9))),
    "cpus": lambda t: replace(t, numa=(replace(t.numa[0], cpus=t.numa[0].cpus[1:]), *t.numa[1:])),
}
