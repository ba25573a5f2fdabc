"""What each library is told, by itself."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.machine import Device, LinkLayer, Port, PortState
from elaunch.topology.render.ground import Ground
from elaunch.topology.render.nccl import chosen_by_user
from elaunch.topology.render.rendering import render
from tests.unit.topology.render.machines import efa, ethernet, infiniband, node, nvidia, railed

EIGHT = [infiniband(f"mlx5_{n}") for n in range(8)]


def of_rank(found: NodeBinding, rank: int = 0, /, **ground: object) -> dict[str, str]:
    """The libraries' variables of one rank."""
    env = render(found, Ground(**ground)).ranks[rank]  # type: ignore[arg-type]
    return {name: value for name, value in env.items() if not name.startswith("ELAUNCH_")}


def test_all_ranks_list_the_healthy_ports_by_their_whole_names() -> None:
    envs = [of_rank(node(EIGHT, 8), n) for n in range(8)]
    assert envs[0]["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7"
    assert envs[0]["UCX_NET_DEVICES"].startswith("mlx5_0:1,mlx5_1:1,")
    assert all(env == envs[0] for env in envs)


def test_a_port_is_named_only_where_its_nic_has_several() -> None:
    one, other = infiniband("mlx5_1"), infiniband("mlx5_1", 2, state=PortState.DOWN)
    assert of_rank(node([infiniband("mlx5_0"), one], refused=[other]))["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1:1"


def test_isolated_rails_are_each_ranks_own_and_not_crossed() -> None:
    found = railed(EIGHT[:2])
    assert of_rank(found, 0)["NCCL_IB_HCA"] == "=mlx5_0"
    assert of_rank(found, 1) == {"NCCL_IB_HCA": "=mlx5_1", "UCX_NET_DEVICES": "mlx5_1:1", "NCCL_CROSS_NIC": "0"}
    assert "NCCL_CROSS_NIC" not in of_rank(node(EIGHT))
    turned = [RankBinding(n, nvidia(n), (EIGHT[n], EIGHT[1 - n]), rail=n) for n in range(2)]
    assert "NCCL_CROSS_NIC" not in of_rank(NodeBinding(tuple(turned)))  # in another order, and all the same to NCCL
    assert "NCCL_CROSS_NIC" not in of_rank(replace(found, shared=tuple(EIGHT[:2])))


def test_with_rdma_sockets_are_for_bootstraps_over_the_agents_own_interface() -> None:
    env = of_rank(node(EIGHT), own="bond0")
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"]) == ("=bond0", "bond0")
    assert not {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"} & of_rank(node(EIGHT)).keys()


def test_without_rdma_sockets_carry_the_collectives_over_the_chosen_interfaces() -> None:
    found = node([ethernet("ens1"), ethernet("ens2")])
    env = of_rank(found, own="eth0")
    assert env == {"NCCL_SOCKET_IFNAME": "=ens1,ens2", "GLOO_SOCKET_IFNAME": "ens1", "UCX_NET_DEVICES": "ens1,ens2"}
    assert of_rank(found, every_interface=True)["GLOO_SOCKET_IFNAME"] == "ens1,ens2"
    # Of the interface that has the agent's address it is known that others reach it.
    assert of_rank(found, own="ens2")["GLOO_SOCKET_IFNAME"] == "ens2"
    assert of_rank(found, own="ens9")["GLOO_SOCKET_IFNAME"] == "ens1"


def test_without_ports_nothing_is_said_of_a_network() -> None:
    assert of_rank(node([]), own="eth0") == {}


def test_nccls_own_file_reaches_it_on_one_host_too() -> None:
    assert of_rank(node([]), topology_file="/t.xml") == {"NCCL_TOPO_FILE": "/t.xml"}


@pytest.mark.parametrize(("gdr", "rdma"), [(True, {"FI_EFA_USE_DEVICE_RDMA": "1"}), (False, {}), (None, {})])
def test_efa_goes_through_libfabric(gdr: bool | None, rdma: dict[str, str]) -> None:
    ports = [efa(f"rdmap{n}s0", gdr=gdr) for n in range(4)]
    assert of_rank(node(ports)) == {"FI_PROVIDER": "efa", **rdma}
    left_out = of_rank(node(ports[:3], refused=ports[3:]))
    assert left_out == {"FI_PROVIDER": "efa", "FI_EFA_IFACE": "rdmap0s0,rdmap1s0,rdmap2s0", **rdma}


def test_slingshot_goes_through_libfabric() -> None:
    assert of_rank(node([infiniband("cxi0", link_layer=LinkLayer.SLINGSHOT)])) == {"FI_PROVIDER": "cxi"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("=mlx5_0,mlx5_1", ""),
        ("mlx5_0:1,mlx5_1", ""),
        ("^mlx5_2", ""),
        ("mlx5", ""),
        ("=mlx5_0,mlx5_1,mlx5_2", "mlx5_2 is down"),
        ("mlx5_0,mlx5_2:1", "mlx5_2:1 is down"),
        ("=mlx5_0,mlx5_9", "mlx5_9 is not on this machine"),
        ("mlx5_0, mlx5_1", "mlx5_1 is not on this machine (here: mlx5_0:1, mlx5_1:1, mlx5_2:1), and NCCL takes blanks"),
        ("=mlx5_0", "without it, it would be =mlx5_0,mlx5_1"),
        ("", ""),
        ("^mlx5", "it leaves no port"),
    ],
)
def test_the_users_ports_win_and_are_told_of(text: str, said: str) -> None:
    found = node(EIGHT[:2], refused=[infiniband("mlx5_2", state=PortState.DOWN)])
    rendering = render(found, Ground(user={"NCCL_IB_HCA": text}))
    assert "NCCL_IB_HCA" not in rendering.ranks[0]
    assert len(rendering.conflicts) == bool(said)
    assert not said or said in rendering.conflicts[0]
    assert not said or rendering.conflicts[0].startswith(f"NCCL_IB_HCA={text} is set in the environment and stays")


def test_a_prefix_of_the_users_takes_what_it_did_not_mean() -> None:
    ports = [infiniband("mlx5_1"), infiniband("mlx5_10")]
    found = node(ports[:1], refused=ports[1:])
    assert "mlx5_10:1 would be left out" in render(found, Ground(user={"NCCL_IB_HCA": "mlx5_1"})).conflicts[0]
    assert render(found, Ground(user={"NCCL_IB_HCA": "=mlx5_1"})).conflicts == ()


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("NCCL_SOCKET_IFNAME", "ens", ""),
        ("NCCL_SOCKET_IFNAME", "^docker0,lo", ""),
        ("NCCL_SOCKET_IFNAME", "ens1", "without it, it would be =ens1,ens2"),
        ("NCCL_SOCKET_IFNAME", "=ens3", "ens3 is down"),
        ("GLOO_SOCKET_IFNAME", "ens1", ""),
        ("GLOO_SOCKET_IFNAME", "^lo", "Gloo takes plain names"),
        ("GLOO_SOCKET_IFNAME", "ens2", "without it, it would be ens1"),
        ("UCX_NET_DEVICES", "ens2,ens1", ""),
        ("UCX_NET_DEVICES", "ens2", "without it, it would be ens1,ens2"),
    ],
)
def test_the_users_interfaces_win_and_are_told_of(variable: str, text: str, said: str) -> None:
    found = node([ethernet("ens1"), ethernet("ens2")], refused=[ethernet("ens3", state=PortState.DOWN)])
    rendering = render(found, Ground(user={variable: text}))
    assert variable not in rendering.ranks[0]
    assert len(rendering.conflicts) == bool(said), rendering.conflicts
    assert not said or said in rendering.conflicts[0]


def test_other_variables_of_the_users_win() -> None:
    user = {"NCCL_CROSS_NIC": "1", "FI_PROVIDER": "tcp", "NCCL_TOPO_FILE": "/mine.xml"}
    ports = [efa("rdmap0s0"), efa("rdmap1s0")]
    rendering = render(railed(ports), Ground(user=user, topology_file="/theirs.xml"))
    assert not user.keys() & rendering.ranks[0].keys()
    assert len(rendering.conflicts) == 3


def test_a_rank_sees_its_own_device_by_its_uuid() -> None:
    found = node([], devices=[nvidia(3), nvidia(1)])
    assert of_rank(found, 0, virtual=True) == {"CUDA_VISIBLE_DEVICES": "GPU-00000003"}
    assert of_rank(found, 1, virtual=True) == {"CUDA_VISIBLE_DEVICES": "GPU-00000001"}
    assert of_rank(found) == {}


def test_devices_that_an_operator_assigned_are_shown_in_that_order() -> None:
    assert of_rank(node([], devices=[nvidia(3), nvidia(1)]), mapped=True) == {
        "CUDA_VISIBLE_DEVICES": "GPU-00000003,GPU-00000001"
    }
    unnamed = node([], devices=[nvidia(3, ""), nvidia(1, "")])
    assert of_rank(unnamed, mapped=True) == {"CUDA_VISIBLE_DEVICES": "3,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_without_a_uuid_the_agent_shows_devices_by_their_place() -> None:
    assert of_rank(node([], devices=[nvidia(0, ""), nvidia(1, "")]), virtual=True) == {}
    second = node([], devices=[nvidia(1, ""), nvidia(0, "")])
    assert of_rank(second, mapped=True, user={"CUDA_VISIBLE_DEVICES": "4,6"}) == {"CUDA_VISIBLE_DEVICES": "6,4"}
    nothing = NodeBinding((RankBinding(0),))
    assert of_rank(nothing, virtual=True) == {}


def test_amds_devices_are_shown_by_rocr_and_numbered_anew() -> None:
    devices = [Device(f"0000:0{n}:00.0", n, uuid=f"GPU-{n}", vendor="AMD") for n in range(2)]
    found = node([], devices=devices)
    assert of_rank(found, 1, virtual=True) == {"ROCR_VISIBLE_DEVICES": "GPU-1", "CUDA_VISIBLE_DEVICES": "0"}
    env = of_rank(found, 1, virtual=True, user={"HIP_VISIBLE_DEVICES": "0,1"})
    assert env["HIP_VISIBLE_DEVICES"] == "0"


def test_a_rank_is_told_where_it_is() -> None:
    found = railed(EIGHT[:2])
    env = render(found, Ground(host="gpu-07", digest="abc")).ranks[1]
    told = {name: value for name, value in env.items() if name.startswith("ELAUNCH_")}
    assert told == {
        "ELAUNCH_TOPOLOGY_DIGEST": "abc",
        "ELAUNCH_DEVICE_ID": "GPU-00000001",
        "ELAUNCH_NICS": "mlx5_1:1",
        "ELAUNCH_RAIL": "1",
        "ELAUNCH_HOST": "gpu-07",
    }


def test_the_nics_that_are_told_are_those_that_the_user_chose() -> None:
    found = node(EIGHT[:4])
    assert render(found, Ground(user={"NCCL_IB_HCA": "=mlx5_3"})).ranks[0]["ELAUNCH_NICS"] == "mlx5_3:1"
    assert "ELAUNCH_NICS" not in render(node([]), Ground(user={"NCCL_IB_HCA": "=mlx5_3"})).ranks[0]


def test_roce_is_infiniband_to_nccl_whatever_its_interfaces() -> None:
    roce = Port("mlx5_0", link_layer=LinkLayer.ETHERNET, interfaces=("ens1f0np0", "bond0"), state=PortState.ACTIVE)
    assert of_rank(node([roce]))["NCCL_IB_HCA"] == "=mlx5_0"


@pytest.mark.parametrize(
    ("state", "way"),
    [(PortState.ACTIVE, True), (PortState.UNKNOWN, True), (PortState.INIT, False), (PortState.DOWN, False)],
)
def test_a_list_of_the_users_is_a_way_where_nccl_would_take_a_port_of_it(state: PortState, way: bool) -> None:
    ports = [infiniband("mlx5_0", state=state), infiniband("mlx5_1")]
    assert bool(chosen_by_user({"NCCL_IB_HCA": "=mlx5_0"}, ports)) is way


def test_many_ports_cost_little() -> None:
    """Rendered on the agent's event loop: a thousand ports took a minute and a half."""
    ports = [infiniband(f"mlx5_{n}", addresses=(f"10.0.{n // 250}.{n % 250}",)) for n in range(400)]
    found = node(ports, ranks=16)
    begun = time.process_time()
    of_rank(found)
    render(found, Ground(user={"NCCL_IB_HCA": "mlx5_1", "UCX_NET_DEVICES": "mlx5_1:1"}))
    assert time.process_time() - begun < 2
