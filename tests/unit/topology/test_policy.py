"""What each rank is bound to, and what is said of it, on machines of our own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elaunch.errors import NoRouteError, UsageError
from elaunch.topology.binding import NodeBinding, RankBinding, Wishes
from elaunch.topology.level import Level
from elaunch.topology.machine import LinkLayer, PortState, Topology
from elaunch.topology.policy import bind
from tests.unit.topology import machines
from tests.unit.topology.machines import Machine

DOWN = {"state": PortState.DOWN, "rate": 10.0, "phys_state": "Polling"}


def first(binding: NodeBinding) -> list[str]:
    return [rank.ports[0].nic for rank in binding.ranks]


def nics(rank: RankBinding) -> list[str]:
    return [p.nic for p in rank.ports]


def refused(binding: NodeBinding) -> dict[str, str]:
    return {r.port.nic: r.code for r in binding.refused}


def roce(topology: Topology, **facts: object) -> Topology:
    """``topology`` with all its ports Ethernet."""
    ports = tuple(replace(p, link_layer=LinkLayer.ETHERNET, **facts) for p in topology.ports)  # type: ignore[arg-type]
    return replace(topology, ports=ports)


def test_a_dgx_gets_its_map_and_one_list_for_all() -> None:
    binding = bind(machines.dgx_like(), 8, Wishes())
    expected = ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"]
    assert first(binding) == expected
    assert [p.nic for p in binding.shared] == expected
    assert [rank.rail for rank in binding.ranks] == list(range(8))
    assert {rank.level for rank in binding.ranks} == {Level.PIX}
    assert all(sorted(nics(rank)) == sorted(expected) for rank in binding.ranks)
    assert set(refused(binding).values()) == {"far"}
    assert binding.warnings == ()


def test_every_choice_has_its_reason() -> None:
    for rank in bind(machines.dgx_like(), 8, Wishes(cpu_bind="numa")).ranks:
        assert {reason.about for reason in rank.why} == {"device", "nics", "rail", "cpus"}
        assert all(reason.code and reason.text for reason in rank.why)


def test_two_devices_that_share_two_nics_have_one_each() -> None:
    assert first(bind(machines.pairs(4), 8, Wishes())) == [f"mlx5_{n}" for n in range(8)]


def test_two_devices_that_share_four_nics_have_two_each() -> None:
    binding = bind(machines.more_nics(), 2, Wishes(nics_per_rank=2))
    assert [nics(rank) for rank in binding.ranks] == [["mlx5_0", "mlx5_1"], ["mlx5_2", "mlx5_3"]]
    assert binding.shared == ()


def test_local_gives_only_the_nearest() -> None:
    binding = bind(machines.pairs(), 4, Wishes(nic_policy="local"))
    assert [nics(r) for r in binding.ranks] == [
        ["mlx5_0", "mlx5_1"],
        ["mlx5_1", "mlx5_0"],
        ["mlx5_2", "mlx5_3"],
        ["mlx5_3", "mlx5_2"],
    ]
    assert binding.shared == ()


def test_all_takes_storage_ports_too_and_never_software() -> None:
    machine = Machine()
    switch = machine.switch(0)
    switch.gpu()
    switch.nic()
    machine.nic(machine.root_port(0), 0)
    machine.interface("docker0", software=True)
    assert nics(bind(machine.topology(), 1, Wishes()).ranks[0]) == ["mlx5_0"]
    everything = bind(machine.topology(), 1, Wishes(nic_policy="all"))
    assert nics(everything.ranks[0]) == ["mlx5_0", "mlx5_1"]
    assert refused(everything) == {"docker0": "software"}


@pytest.mark.parametrize(
    ("facts", "code", "words"),
    [
        (DOWN, "down", "no cable, or its far end"),
        ({"state": PortState.DOWN, "phys_state": "Disabled"}, "down", "switched off on this host"),
        ({"state": PortState.DOWN, "virtual_function": True}, "down_virtual", "normal"),
        ({"state": PortState.INIT}, "init", "subnet manager"),
    ],
)
def test_a_port_that_cannot_carry_is_refused_and_its_rank_moves_on(
    facts: dict[str, object], code: str, words: str
) -> None:
    topology = machines.changed(machines.pairs(), "mlx5_1", **facts)
    binding = bind(topology, 4, Wishes())
    assert first(binding) == ["mlx5_0", "mlx5_0", "mlx5_2", "mlx5_3"]
    (lost,) = binding.refused
    assert (lost.port.nic, lost.code) == ("mlx5_1", code)
    assert words in lost.text
    assert any("rank 1" in w and "mlx5_1:1" in w and "mlx5_0:1" in w for w in binding.warnings)


@pytest.mark.parametrize(
    ("wishes", "code"),
    [
        (Wishes(exclude=("mlx5_1",)), "excluded"),
        (Wishes(exclude=("mlx5_1:1",)), "excluded"),
        (Wishes(exclude=("ib1",)), "excluded"),
        (Wishes(avoid=(("mlx5_1:1", "its errors grow"),)), "degraded"),
        (Wishes(unreachable=(("mlx5_1:1", "it reaches nobody"),)), "unreachable"),
    ],
)
def test_a_port_that_is_not_wanted_is_left_out_with_the_reason(wishes: Wishes, code: str) -> None:
    binding = bind(machines.pairs(), 4, wishes)
    assert refused(binding) == {"mlx5_1": code}
    assert "mlx5_1" not in {p.nic for r in binding.ranks for p in r.ports}


def test_names_match_whole() -> None:
    binding = bind(machines.dgx_like(), 8, Wishes(exclude=("mlx5_1",)))
    assert {"mlx5_10", "mlx5_11"} <= {p.nic for p in binding.shared}
    assert binding.warnings == ()


def test_an_exclude_that_names_nothing_is_told() -> None:
    (warning,) = bind(machines.pairs(), 4, Wishes(exclude=("mlx5_20",))).warnings
    assert "mlx5_20" in warning
    assert "did you mean mlx5_2" in warning


def test_roce_without_an_address_is_refused_only_where_addresses_are_known() -> None:
    without = roce(machines.pairs(), addresses=())
    with pytest.raises(NoRouteError, match="no IP address"):
        bind(without, 4, Wishes())
    assert len(bind(roce(machines.pairs()), 4, Wishes()).shared) == 4
    some = machines.changed(without, "mlx5_2", addresses=("10.0.0.1",))
    assert first(bind(some, 4, Wishes())) == ["mlx5_2"] * 4


def test_a_link_local_address_is_enough_for_roce_only_where_no_port_has_a_better_one() -> None:
    """A port that lost its address keeps that one, and cannot reach the others' addresses from it."""
    local = roce(machines.pairs(), addresses=("fe80::1",))
    assert len(bind(local, 4, Wishes()).shared) == 4
    binding = bind(machines.changed(local, "mlx5_2", addresses=("10.0.0.1",)), 4, Wishes())
    assert {p.nic for p in binding.shared} == {"mlx5_2"}
    assert set(refused(binding).values()) == {"no_address"}
    storage = machines.changed(roce(machines.dgx_like(), addresses=("fe80::1",)), "mlx5_1", addresses=("10.0.0.1",))
    assert len(bind(storage, 8, Wishes()).shared) == 8


def test_infiniband_needs_no_address() -> None:
    infiniband = replace(machines.pairs(), ports=tuple(replace(p, addresses=()) for p in machines.pairs().ports))
    assert len(bind(infiniband, 4, Wishes()).shared) == 4


def test_nothing_left_says_what_was_found_and_why_each_was_refused() -> None:
    topology = machines.dgx_like()
    compute = [p.nic for p in bind(topology, 8, Wishes()).shared]
    for nic in compute:
        topology = machines.changed(topology, nic, **DOWN)
    with pytest.raises(NoRouteError) as caught:
        bind(topology, 8, Wishes())
    line = str(caught.value)
    assert "\n" not in line
    assert "12 ports found" in line
    first, *others = (f"{nic}:1" for nic in compute)
    why = f"{first} is down (Polling): no cable, or its far end is down (likewise {', '.join(others)})"
    assert why in line
    assert "mlx5_1:1 is NODE to its nearest device" in line
    assert "--nic-map can name mlx5_1, mlx5_2, mlx5_7, mlx5_8" in line


def test_a_machine_without_ports_has_no_route_and_alone_needs_none() -> None:
    with pytest.raises(NoRouteError, match="none at all"):
        bind(machines.no_nic(), 1, Wishes())
    (rank,) = bind(machines.no_nic(), 1, Wishes(network=False, nic_policy="local")).ranks
    assert rank.device is not None
    assert rank.ports == ()


def test_one_node_needs_no_ports_unless_asked() -> None:
    assert bind(machines.pairs(), 4, Wishes(network=False)).ranks[0].ports == ()
    assert bind(machines.pairs(), 4, Wishes(network=False)).shared == ()
    assert bind(machines.pairs(), 4, Wishes(network=False, nic_policy="local")).ranks[0].ports != ()


def test_all_ports_of_a_rail_down_leaves_the_others_alone() -> None:
    topology = machines.dgx_like()
    before = bind(topology, 8, Wishes())
    after = bind(machines.changed(topology, "mlx5_4", **DOWN), 8, Wishes())
    assert [r.rail for r in after.ranks] == [0, 1, after.ranks[2].rail, 3, 4, 5, 6, 7]
    assert after.ranks[2].ports == before.ranks[2].ports[1:]
    assert after.ranks[2].level is Level.NODE


def test_a_rank_that_lost_its_port_takes_one_that_is_nobodys_first() -> None:
    machine = Machine()
    for numa in (0, 0, 0):
        switch = machine.switch(numa)
        switch.gpu()
        switch.nic()
    spare = machine.nic(machine.root_port(0), 0)
    topology = machine.topology()
    everything = Wishes(nic_policy="all")
    assert first(bind(topology, 3, everything)) == ["mlx5_0", "mlx5_1", "mlx5_2"]
    for lost in range(3):
        moved = first(bind(machines.changed(topology, f"mlx5_{lost}", **DOWN), 3, everything))
        assert moved[lost] == spare.nic


def test_nics_only_on_the_far_socket_are_used_with_a_warning() -> None:
    binding = bind(machines.far_nics(), 2, Wishes())
    assert first(binding) == ["mlx5_0", "mlx5_1"]
    assert binding.warnings == tuple(
        f"rank {n}: mlx5_{n}:1 is reached only over the link between NUMA nodes (SYS)" for n in (0, 1)
    )


def test_bandwidth_that_is_shared_is_told_with_figures() -> None:
    (warning, *_) = bind(machines.fewer_nics(2), 2, Wishes(bandwidth=400.0)).warnings
    assert warning == "rank 0: 200 Gbit/s of 400 wanted (mlx5_0:1 400 Gbit/s for 2 ranks)"
    assert bind(machines.pairs(), 4, Wishes(bandwidth=400.0)).warnings == ()


def test_a_port_slower_than_its_like_is_told_and_kept() -> None:
    binding = bind(machines.changed(machines.dgx_like(), "mlx5_4", rate=200.0), 8, Wishes(bandwidth=400.0))
    assert "mlx5_4:1 runs at 200 Gbit/s, its like at 400" in binding.warnings
    assert "mlx5_4" in {p.nic for p in binding.shared}
    assert not any(n == "mlx5_4" for n in first(binding)), "its device reaches a faster one over the host bridge"


def test_sockets_are_used_and_told_where_there_is_no_rdma() -> None:
    machine = Machine(nodes=1)
    machine.gpu(machine.root_port(0), 0)
    machine.interface("eth0", machine.root_port(0), 0)
    machine.interface("virbr0", software=True)
    machine.interface("veth1", software=True)
    binding = bind(machine.topology(), 1, Wishes())
    assert first(binding) == ["eth0"]
    assert binding.warnings == ("no RDMA on this machine: ranks reach each other by sockets over eth0",)


def test_rdma_that_is_down_is_not_replaced_by_sockets_silently() -> None:
    machine = Machine(nodes=1)
    switch = machine.switch(0)
    switch.gpu()
    switch.nic(**DOWN)
    machine.interface("eth0", machine.root_port(0), 0)
    with pytest.raises(NoRouteError, match="--nic-map can name eth0"):
        bind(machine.topology(), 1, Wishes())


def test_ranks_without_devices_get_no_ports_unless_asked() -> None:
    binding = bind(machines.cpu_only(), 4, Wishes(cpu_bind="numa"))
    assert [r.ports for r in binding.ranks] == [()] * 4
    assert [r.numa for r in binding.ranks] == [0, 1, 0, 1]
    asked = bind(machines.cpu_only(), 4, Wishes(nic_policy="*=eth0"))
    assert first(asked) == ["eth0"] * 4
    assert [p.nic for p in asked.shared] == ["eth0"]


def test_more_ranks_than_devices_choose_for_themselves() -> None:
    binding = bind(machines.pairs(), 6, Wishes())
    assert {r.device for r in binding.ranks} == {None}
    assert binding.ranks[0].why[0].code == "more_ranks_than_devices"
    assert [p.nic for p in binding.shared] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]


def test_devices_are_mapped_by_index_address_or_uuid() -> None:
    topology = machines.pairs()
    one, other, third, _ = topology.devices
    wishes = Wishes(device_map=("3", one.uuid, other.pci.upper(), third.pci.removeprefix("0000:")))
    assert [r.device for r in bind(topology, 4, wishes).ranks] == [topology.devices[3], one, other, third]


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (Wishes(device_map=("0",)), "names 1 devices for 4 ranks"),
        (Wishes(device_map=("0", "1", "2", "9")), "no device '9'"),
        (Wishes(nics_per_rank=0), "--nics-per-rank 0"),
        (Wishes(rails=0), "--rails 0"),
        (Wishes(cpu_bind="socket"), "--cpu-bind socket"),
        (Wishes(nic_policy="0=mlx5_20"), "did you mean mlx5_2"),
        (Wishes(nic_map=(("*", ("mlx6",)),)), "names mlx6, which this machine has not"),
        (Wishes(nic_map=(("0000:ff:00.0", ("mlx5_0",)),)), "the device 0000:ff:00.0"),
        (Wishes(nic_policy="lcoal"), "names lcoal"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(wishes: Wishes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        bind(machines.pairs(), 4, wishes)


def test_the_operators_map_comes_first() -> None:
    topology = machines.pairs()
    device = topology.devices[2]
    wishes = Wishes(
        nic_map=(("0", ("mlx5_3", "mlx5_2")), (device.uuid, ("mlx5_0",)), ("*", ("mlx5_1",))),
        nic_policy="0=mlx5_0;1=mlx5_2",
    )
    binding = bind(topology, 4, wishes)
    assert [nics(r) for r in binding.ranks] == [["mlx5_3", "mlx5_2"], ["mlx5_2"], ["mlx5_0"], ["mlx5_1"]]
    assert [r.code for rank in binding.ranks for r in rank.why if r.about == "nics"] == [*["mapped"] * 3, "nearest"]
    assert binding.shared == ()


def test_a_map_that_names_storage_is_followed_with_a_warning() -> None:
    """A list copied from another machine: mlx5_1, 2, 7 and 8 are storage ports here."""
    names = tuple(f"mlx5_{n}" for n in (0, 1, 2, 3, 6, 7, 8, 9))
    binding = bind(machines.dgx_like(), 8, Wishes(nic_map=(("*", names),)))
    assert [p.nic for p in binding.shared] == list(names)
    assert first(binding) == ["mlx5_0", "mlx5_3", "mlx5_1", "mlx5_2", "mlx5_6", "mlx5_9", "mlx5_7", "mlx5_8"]
    (warning,) = binding.warnings
    assert "storage ports: mlx5_1, mlx5_2, mlx5_7, mlx5_8" in warning
    assert "leaves out the compute ports mlx5_4, mlx5_5, mlx5_10, mlx5_11" in warning


def test_a_map_that_names_only_what_is_down_has_no_route() -> None:
    topology = machines.changed(machines.pairs(), "mlx5_1", **DOWN)
    with pytest.raises(NoRouteError, match=r"rank 2 .* mlx5_1:1 is down \(Polling\)"):
        bind(topology, 4, Wishes(nic_map=(("2", ("mlx5_1",)),)))
    half = bind(topology, 4, Wishes(nic_map=(("2", ("mlx5_1", "mlx5_3")),)))
    assert nics(half.ranks[2]) == ["mlx5_3"]
    assert any("mlx5_1:1 is down" in w for w in half.warnings)


def test_a_map_may_name_more_ranks_and_uuids_of_other_hosts() -> None:
    wishes = Wishes(nic_map=(("0", ("mlx5_0",)), ("9", ("mlx5_1",)), ("GPU-99999999-aaaa", ("mlx5_1",))))
    binding = bind(machines.pairs(), 4, wishes)
    assert binding.warnings == ("the map of NICs names local rank 9, and this node has 4 ranks",)


def test_too_few_nics_for_each_rank_is_told() -> None:
    binding = bind(machines.fewer_nics(2), 2, Wishes(nics_per_rank=2))
    assert "ranks 0, 1: 1 of 2 NICs asked for (--nics-per-rank)" in binding.warnings
