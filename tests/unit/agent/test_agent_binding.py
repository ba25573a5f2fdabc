"""What an agent binds its ranks to, on machines written down as trees of files."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from elaunch.agent import machine
from elaunch.agent.binding import Binder
from elaunch.agent.bound import Bound
from elaunch.cli.options import parse
from elaunch.errors import NoRouteError, StartError, UsageError
from elaunch.topology.host.discovery import discover
from elaunch.topology.machine import Topology
from tests.unit.topology.sysfs_tree import Netdev, Nic, ethernet, switched, write, write_machine

OWN = [(p.nic, p.addresses[0]) for p in discover().ports if not p.rdma and p.addresses and not p.software]
"""Interfaces of this host, each with an address."""

AWAY = "192.0.2.7"
"""An address that is no loopback, and nobody's."""


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Two GPUs, two NICs, on two sockets of two CPUs each."""
    functions, cards = switched(4, 4)
    cards = [replace(card, link_layer="InfiniBand") for card in cards]
    return write_machine(tmp_path / "machine", functions, cards, nodes=("0-1", "5000-5001"))


def make(root: Path, script: str, *arguments: str, address: str = AWAY, **environ: str) -> Binder:
    options = parse(["--nproc-per-node=4", *arguments, script], {})
    binder = Binder(options, {"ELAUNCH_SYSFS_ROOT": str(root), **environ})
    binder.address = address
    return binder


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.touch()
    return str(path)


def bound(binder: Binder, generation: int = 1, nodes: int = 2, **more: Any) -> list[Bound]:
    return asyncio.run(binder.bind(generation, nodes, **more))


@contextmanager
def warnings() -> Iterator[list[str]]:
    """What is warned of, as sentences; complete when the context is left."""
    found: list[str] = []
    with structlog.testing.capture_logs() as logs:
        yield found
    found += [str(line["text"]) for line in logs if line["log_level"] == "warning"]


def turn_off(root: Path, *nics: str) -> None:
    for nic in nics:
        write(root, f"sys/class/infiniband/{nic}/ports/1/state", "1: DOWN")


def test_nodes_apart_are_given_ports(server: Path, script: str) -> None:
    binder = make(server, script)
    ranks = bound(binder)
    assert {rank.env["NCCL_IB_HCA"] for rank in ranks} == {"=mlx5_0,mlx5_2,mlx5_1,mlx5_3"}
    assert {port.id: users for port, users in binder.ports_in_use} == {f"mlx5_{n}:1": (0, 1, 2, 3) for n in range(4)}


@pytest.mark.parametrize(("address", "nodes"), [(AWAY, 1), ("127.0.0.1", 2), ("::1", 2), ("localhost", 2)])
def test_on_one_host_there_is_no_network(server: Path, script: str, address: str, nodes: int) -> None:
    binder = make(server, script, address=address)
    assert not any("NCCL_IB_HCA" in rank.env for rank in bound(binder, nodes=nodes))
    assert binder.ports_in_use == ()


def test_ports_that_others_took_out_are_left_out(server: Path, script: str) -> None:
    binder = make(server, script)
    ranks = bound(binder, avoid=(("mlx5_0:1", "it has errors"),), unreachable=(("mlx5_3:1", "it leads nowhere"),))
    assert {rank.env["NCCL_IB_HCA"] for rank in ranks} == {"=mlx5_2,mlx5_1"}
    assert {rank.env["NCCL_IB_HCA"] for rank in bound(binder, 2)} == {"=mlx5_0,mlx5_2,mlx5_1,mlx5_3"}


def test_ports_of_which_something_ill_was_told_are_better_than_none(server: Path, script: str) -> None:
    every = [f"mlx5_{n}:1" for n in range(4)]
    ill = [(name, "it has errors") for name in every]
    with warnings() as said:
        ranks = bound(make(server, script), avoid=ill)
    assert {rank.env["NCCL_IB_HCA"] for rank in ranks} == {"=mlx5_3"}
    assert said[0].endswith("; going on with mlx5_3:1 all the same")
    with warnings() as said:
        ranks = bound(make(server, script), avoid=ill[:1], unreachable=ill)
    assert {rank.env["NCCL_IB_HCA"] for rank in ranks} == {"=mlx5_0,mlx5_2,mlx5_1,mlx5_3"}
    assert said[0].endswith("; going on with those that the probe found to lead nowhere")
    turn_off(server, *(f"mlx5_{n}" for n in range(4)))
    with pytest.raises(NoRouteError, match="it has errors"):
        bound(make(server, script), avoid=ill, unreachable=ill)


def test_devices_are_those_that_the_user_shows(server: Path, script: str) -> None:
    every = [rank.env["ELAUNCH_DEVICE_ID"] for rank in bound(make(server, script))]
    shown = bound(make(server, script, CUDA_VISIBLE_DEVICES="3,1,2,0"))
    assert [rank.env["ELAUNCH_DEVICE_ID"] for rank in shown] == [every[n] for n in (3, 1, 2, 0)]
    few = bound(make(server, script, "--nproc-per-node=2", CUDA_VISIBLE_DEVICES="3,2"))
    assert [rank.env["ELAUNCH_DEVICE_ID"] for rank in few] == [every[3], every[2]]


def test_an_assigned_device_is_one_of_those_that_are_shown(server: Path, script: str) -> None:
    every = [rank.env["ELAUNCH_DEVICE_ID"] for rank in bound(make(server, script))]
    binder = make(server, script, "--nproc-per-node=2", "--device-map=1,0", CUDA_VISIBLE_DEVICES="3,2")
    ranks = bound(binder)
    assert [rank.env["ELAUNCH_DEVICE_ID"] for rank in ranks] == [every[2], every[3]]
    assert [rank.env["CUDA_VISIBLE_DEVICES"] for rank in ranks] == ["2,3", "2,3"]
    with pytest.raises(UsageError, match="no device '2'"):
        asyncio.run(make(server, script, "--device-map=2,0,1,3", CUDA_VISIBLE_DEVICES="3,2").look())


def test_a_device_that_two_ranks_were_given_is_refused_where_both_see_all(server: Path, script: str) -> None:
    first = bound(make(server, script))[0].env["ELAUNCH_DEVICE_ID"]
    twice = ["--nproc-per-node=2", f"--device-map=0,{first}"]
    with pytest.raises(UsageError, match="is there twice"):
        asyncio.run(make(server, script, *twice).look())
    asyncio.run(make(server, script, "--virtual-local-rank", *twice).look())


def test_parts_of_devices_are_no_devices(server: Path, script: str) -> None:
    binder = make(server, script, CUDA_VISIBLE_DEVICES="MIG-1,MIG-2,MIG-3,MIG-4")
    with warnings() as said:
        ranks = [*bound(binder), *bound(binder, 2)]
    assert not any("ELAUNCH_DEVICE_ID" in rank.env for rank in ranks)
    assert [text for text in said if "MIG" in text] == [
        "CUDA_VISIBLE_DEVICES=MIG-1,MIG-2,MIG-3,MIG-4 shows parts of devices (MIG):"
        " ranks are bound as if there were no devices"
    ]


def test_without_a_way_nothing_starts(server: Path, script: str) -> None:
    binder = make(server, script)
    bound(binder)
    turn_off(server, *(f"mlx5_{n}" for n in range(4)))
    with pytest.raises(NoRouteError, match="4 ports found, none usable: mlx5_0:1 is down"):
        bound(binder, 2)
    assert binder.ports_in_use == ()


def test_a_user_who_knows_a_way_is_believed(server: Path, script: str) -> None:
    exclude = "--exclude-nic=mlx5_0,mlx5_1,mlx5_2,mlx5_3"
    with pytest.raises(NoRouteError):
        bound(make(server, script, exclude))
    with warnings() as said:
        ranks = bound(make(server, script, exclude, NCCL_IB_HCA="mlx5_2"))
    assert "NCCL_IB_HCA" not in ranks[0].env
    assert any(text.endswith("going on with NCCL_IB_HCA=mlx5_2, which is set in the environment") for text in said)
    turn_off(server, "mlx5_2")
    with pytest.raises(NoRouteError):
        bound(make(server, script, exclude, NCCL_IB_HCA="mlx5_2"))
    with pytest.raises(NoRouteError):
        bound(make(server, script, exclude, NCCL_SOCKET_IFNAME="eth0"))


def test_a_nic_that_is_gone_ends_the_start_and_not_the_agent(server: Path, script: str) -> None:
    binder = make(server, script, "--nic-policy=0=mlx5_0;*=mlx5_1")
    bound(binder)
    shutil.rmtree((server / "sys/class/infiniband/mlx5_0").resolve())
    (server / "sys/class/infiniband/mlx5_0").unlink()
    with pytest.raises(StartError, match="names mlx5_0, which this machine has not"):
        bound(binder, 2)


def test_cpus_that_are_not_allowed_are_told_and_left(server: Path, script: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 7})
    monkeypatch.setattr("elaunch.agent.binding.memory_refused", lambda node: "" if node == 0 else "no such node")
    with warnings() as said:
        ranks = bound(make(server, script, "--cpu-bind=numa"), nodes=1)
    assert [(rank.cpus, rank.memory) for rank in ranks] == [((0,), 0), ((0,), 0), (None, None), (None, None)]
    assert "local ranks 2-3: none of the CPUs 5000-5001 is allowed here, so all of 0,7 are used" in said
    assert "no such node" in said


def test_a_line_for_each_generation_and_for_people_where_something_is_new(server: Path, script: str) -> None:
    binder = make(server, script)
    with structlog.testing.capture_logs() as logs:
        for generation in (1, 2):
            bound(binder, generation)
        turn_off(server, "mlx5_0")
        bound(binder, 3)
    lines = [line for line in logs if line["event"] == "binding"]
    assert [(line["generation"], line["log_level"]) for line in lines] == [(1, "info"), (2, "debug"), (3, "info")]
    assert lines[2]["text"] == "all ranks use mlx5_2:1,mlx5_1:1,mlx5_3:1; not used: mlx5_0:1 is down (LinkUp)"


def test_a_machine_that_does_not_answer_costs_nothing_but_the_binding(
    server: Path, script: str, monkeypatch: Any
) -> None:
    hung = threading.Event()

    def hang(root: Path, *, nvml: bool) -> Topology:
        if nvml:
            hung.wait(30)
        return discover(root, nvml=nvml)

    monkeypatch.setattr(machine, "discover", hang)
    monkeypatch.setattr(machine, "FIRST_SECONDS", 0.05)
    binder = make(server, script)
    with warnings() as said:
        assert asyncio.run(binder.look()) == ""
    assert said == ["what this machine has could not be found out within 0.05 s"]
    assert bound(binder)[0].env["NCCL_IB_HCA"] == "=mlx5_0,mlx5_2,mlx5_1,mlx5_3"
    hung.set()


def test_what_only_the_drivers_library_knows_is_asked_once(server: Path, script: str, monkeypatch: Any) -> None:
    asked: list[bool] = []

    def with_library(root: Path, *, nvml: bool) -> Topology:
        asked.append(nvml)
        seen = discover(root, nvml=nvml)
        return replace(seen, devices=tuple(replace(d, uuid=f"GPU-{d.pci}") for d in seen.devices)) if nvml else seen

    monkeypatch.setattr(machine, "discover", with_library)
    binder = make(server, script)
    devices = [[rank.env["ELAUNCH_DEVICE_ID"] for rank in bound(binder, generation)] for generation in (1, 2, 3)]
    assert asked == [True, False, False]
    assert devices[0] == devices[1] == devices[2]
    assert devices[0][0].startswith("GPU-0000:")


def test_a_look_during_the_stop_serves_the_next_start_while_it_is_fresh(monkeypatch: Any, tmp_path: Path) -> None:
    asked: list[bool] = []

    def counted(root: Path, *, nvml: bool) -> Topology:
        asked.append(nvml)
        return discover(root, nvml=False)

    async def looks() -> list[int]:
        here = machine.Machine(None, {"ELAUNCH_SYSFS_ROOT": str(container(tmp_path / "machine"))})
        await here.now()
        numbers = [len(asked)]
        here.begin()
        here.begin()
        await here.now()
        numbers.append(len(asked))
        here.begin()
        while len(asked) == numbers[-1]:  # noqa: ASYNC110 - the look has no event
            await asyncio.sleep(0.001)
        monkeypatch.setattr(machine, "FRESH_SECONDS", -1.0)
        await here.now()
        return [*numbers, len(asked)]

    monkeypatch.setattr(machine, "discover", counted)
    monkeypatch.setattr(machine, "FRESH_SECONDS", 60.0)
    assert asyncio.run(looks()) == [1, 2, 4]
    assert asked[0] is True
    assert not any(asked[1:])


@pytest.mark.skipif(not OWN, reason="this host has no hardware with an address")
def test_the_interface_of_the_agents_address_is_known() -> None:
    async def names() -> list[str]:
        here = machine.Machine(None, {})
        await here.now()
        return [await here.interface_of(address) for address in (OWN[0][1], "127.0.0.1", AWAY)]

    assert asyncio.run(names()) == [OWN[0][0], "lo", ""]


def on_this_host(monkeypatch: Any, binder: Binder, interface: str) -> None:
    """Have an agent take a tree for its host, where it is reached at an interface."""

    async def interface_of(address: str) -> str:
        return interface

    monkeypatch.setattr(binder.machine, "interface_of", interface_of)


def container(root: Path, *cards: Nic) -> Path:
    """GPUs, and the interfaces of a container."""
    return write_machine(root, switched(4, 0)[0], cards, [Netdev("eth0"), Netdev("lo")], nodes=("0-1", "5000-5001"))


@pytest.mark.parametrize("cards", [[], [ethernet("wlp5s0", "pci0000:35/0000:36:00.0")]])
def test_where_the_agent_is_reached_is_a_way_without_rdma(
    tmp_path: Path, script: str, monkeypatch: Any, cards: list[Nic]
) -> None:
    """Containers have interfaces of software only, and their jobs ran before."""
    binder = make(container(tmp_path / "machine", *cards), script)
    on_this_host(monkeypatch, binder, "eth0")
    with warnings() as said:
        ranks = bound(binder)
    assert not any(name.startswith(("NCCL_", "GLOO_", "UCX_")) for rank in ranks for name in rank.env)
    assert (
        said[0].endswith(
            "eth0 is of software: there is no hardware behind it (likewise lo); going on by sockets: this agent is"
            " reached over eth0"
        )
        or cards
    )


@pytest.mark.parametrize(
    "wish", ["--exclude-nic=eth0", "--nic-policy=local", "--nic-policy=*=wlp5s0", "--nic-map={map}"]
)
def test_where_the_agent_is_reached_is_no_way_against_the_operators_wish(
    tmp_path: Path, script: str, monkeypatch: Any, wish: str
) -> None:
    card = ethernet("wlp5s0", "pci0000:35/0000:36:00.0", operstate="down")
    (tmp_path / "map").write_text("* = wlp5s0")
    binder = make(container(tmp_path / "machine", card), script, wish.format(map=tmp_path / "map"))
    on_this_host(monkeypatch, binder, "eth0")
    with pytest.raises(NoRouteError):
        bound(binder)


def test_where_the_agent_is_reached_does_not_stand_for_rdma(server: Path, script: str, monkeypatch: Any) -> None:
    turn_off(server, *(f"mlx5_{n}" for n in range(4)))
    binder = make(server, script)
    on_this_host(monkeypatch, binder, "eth0")
    with pytest.raises(NoRouteError):
        bound(binder)


@pytest.mark.parametrize("told", [{"NCCL_IB_DISABLE": "1"}, {"NCCL_NET": "Socket"}])
def test_a_user_who_keeps_nccl_from_rdma_is_bound_to_interfaces(
    server: Path, script: str, told: dict[str, str], monkeypatch: Any
) -> None:
    write_machine(server, nics=[ethernet("eth0", "pci0000:35/0000:36:00.0")], nodes=("0-1", "5000-5001"))
    turn_off(server, "mlx5_0")
    ranks = bound(make(server, script, **told))
    assert ranks[0].env["NCCL_SOCKET_IFNAME"] == "=ens2np0,ens1np0,ens3np0"
    assert not {"NCCL_IB_HCA", "UCX_NET_DEVICES"} & ranks[0].env.keys()
    assert ranks[0].env["ELAUNCH_NICS"] == "ens2np0,ens1np0,ens3np0"
    for setting in ({"NCCL_IB_DISABLE": "0"}, {"NCCL_IB_DISABLE": ""}, {"NCCL_NET": "IB"}):
        assert bound(make(server, script, **setting))[0].env["NCCL_IB_HCA"] == "=mlx5_2,mlx5_1,mlx5_3"
    mapped = bound(make(server, script, "--nic-policy=*=mlx5_2", **told))
    assert mapped[0].env["NCCL_IB_HCA"] == "=mlx5_2"
    turn_off(server, *(f"mlx5_{n}" for n in range(4)))
    binder = make(server, script, **told)
    on_this_host(monkeypatch, binder, "eth0")
    assert not any("NCCL_SOCKET_IFNAME" in rank.env for rank in bound(binder))


def test_a_device_that_is_gone_is_told_once(server: Path, script: str) -> None:
    binder = make(server, script)
    devices = [rank.env["ELAUNCH_DEVICE_ID"] for rank in bound(binder)]
    with warnings() as said:
        bound(binder, 2)
    assert said == []
    (fallen, gone) = devices[:2]
    (server / f"sys/bus/pci/devices/{gone}").unlink()
    write(server, f"sys/bus/pci/devices/{fallen}/current_link_width", "63")
    with warnings() as said:
        bound(binder, 3)
        bound(binder, 4)
    assert said == [
        f"device {gone} was here and is gone",
        f"PCI function {fallen} answers no more: it has fallen off the bus",
    ]


def test_a_file_that_contradicts_the_kernel_is_told_of(server: Path, script: str) -> None:
    here = discover(server)
    swapped = replace(here, source="nccl-xml", devices=tuple(replace(d, numa=1 - (d.numa or 0)) for d in here.devices))
    options = parse(["--nproc-per-node=4", "--cpu-bind=numa", script], {})
    options = replace(options, binding=replace(options.binding, machine=swapped))
    binder = Binder(options, {"ELAUNCH_SYSFS_ROOT": str(server)})
    binder.address = "127.0.0.1"
    with warnings() as said:
        ranks = bound(binder, nodes=1)
    first = here.devices[0].id
    assert f"the file puts {first} on NUMA node 1, the kernel on 0, and so on for 4 devices" in said[0]
    assert ranks[0].env["ELAUNCH_NUMA"] == "0"
