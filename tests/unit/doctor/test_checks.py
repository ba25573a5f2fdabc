"""The doctor's checks, one wrong thing at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from elaunch.doctor.checks import SEVERITIES, examine
from elaunch.doctor.facts import Complaint, Host, Limit, WrongWay
from elaunch.topology.binding import NodeBinding, Refused, Wishes
from elaunch.topology.machine import Port, Topology
from elaunch.topology.policy import bind
from tests.unit.doctor.host import GOOD, RDMA, but, link

NIC = Port("mlx5_1")
BONDED = Topology("sysfs", ports=(Port("bond0", rdma=False, members=("eth0",)), Port("eth0", rdma=False, bond="bond0")))


def test_nothing_is_wrong_with_a_good_host() -> None:
    assert examine(GOOD) == ()


def test_of_a_host_of_which_nothing_is_known_nothing_is_claimed_but_what_is_missing() -> None:
    assert {complaint.code for complaint in examine(Host("h"))} == {
        "name_unresolved", "interfaces_unknown", "no_shm", "machine_unknown"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "code", "severity", "text"),
    [
        ({"resolved": ()}, "name_unresolved", "warning", "the host's own name, gpu-01, has no address"),
        ({"resolved": ("127.0.1.1",)}, "name_is_loopback", "warning", "gpu-01, is 127.0.1.1: no other host reaches it"),
        ({"links": ()}, "no_interface", "warning", "no interface but loopback is up"),
        ({"links": (link("eth0", addresses=()), link("eth1", 3))}, "no_address", "warning", "eth0 is up, but has no"),
        ({"links": (link("eth0", carrier=False), link("eth1", 3))}, "interface_down", "warning", "eth0 has no carrier"),
        ({"links": (link("eth0", up=False), link("eth1", 3))}, "interface_off", "info", "eth0 is switched off"),
        ({"links": (link("eth0", mtu=1400),)}, "small_mtu", "info", "the MTU of eth0 is 1400 bytes"),
        ({"links": (link("a", mtu=1500), link("b", 3))}, "mtu_differs", "info", "differ: a 1500, b 9000"),
        ({"no_route": "no port is left"}, "no_route", "error", "no port is left"),
        (
            {"binding": NodeBinding(refused=(Refused(NIC, "down", "mlx5_1:1 is down"),))},
            "nic_down",
            "warning",
            "mlx5_1:1 is down",
        ),
        (
            {"binding": NodeBinding(refused=(Refused(NIC, "far", "mlx5_1:1 is SYS to its nearest device"),))},
            "nic_far",
            "info",
            "mlx5_1:1 is SYS",
        ),
        ({"binding": NodeBinding(warnings=("200 of 400 Gbit/s",))}, "binding", "warning", "200 of 400 Gbit/s"),
        ({"shm": None}, "no_shm", "error", "there is no /dev/shm"),
        ({"shm": 64 << 20}, "small_shm", "warning", "/dev/shm has 64 MiB"),
        ({"shm_free": 1 << 20}, "full_shm", "warning", "nearly full: 1 MiB of 64 GiB are free"),
        ({"open_files": Limit(1024, 1024)}, "few_files", "warning", "1024 files at most"),
        ({"locked_memory": Limit(64 << 10, None)}, "little_locked_memory", "error", "may lock 64 KiB"),
        ({"cpus": 8}, "cpu_set", "info", "8 of the host's 64 CPUs"),
        ({"cpu_quota": 2.5}, "cpu_quota", "warning", "the time of 2.5 CPUs of the 64"),
        ({"clock_synchronised": False}, "clock", "info", "the clock is not synchronised"),
        ({"peermem": False}, "no_peermem", "warning", "NICs cannot reach the memory of GPUs"),
        ({"persistence": False}, "no_persistence", "info", "no persistence daemon"),
    ],
)
def test_each_thing_that_is_wrong_is_said_once(values: dict[str, Any], code: str, severity: str, text: str) -> None:
    (complaint,) = examine(but(**values))
    assert (complaint.code, complaint.severity) == (code, severity)
    assert text in complaint.text


@pytest.mark.parametrize(
    "values",
    [
        {"locked_memory": Limit(64 << 10, None), "topology": Topology("sysfs", ports=(Port("eth0", rdma=False),))},
        {"peermem": False, "dmabuf": True},
        {"nvidia": False, "peermem": False, "persistence": None},
        {"links": (link("eth0"), link("bond0", 3), link("eth9", 4, master="bond0", addresses=()))},
        {"links": (link("eth0"), link("docker0", 3, kind="bridge", carrier=False))},
        {"binding": NodeBinding(refused=(Refused(RDMA, "not_chosen", "farther away"),))},
        {"binding": NodeBinding(refused=bind(BONDED, 1, Wishes(nic_policy="all")).refused)},
    ],
    ids=["no-rdma", "dma-buf", "no-gpu", "bond", "bridge", "not-chosen", "bond-member"],
)
def test_what_is_as_it_should_be_is_not_told(values: dict[str, Any]) -> None:
    assert examine(but(**values)) == ()


def test_two_interfaces_in_one_subnet_are_told_where_the_kernel_mixes_them_up() -> None:
    beside = (link("eth0"), link("eth1", 3, addresses=("10.0.2.2/24",)))
    assert examine(but(links=beside)) == (), "answers for its own addresses only, and each leaves by its own"
    (loose,) = examine(but(links=beside, strict_arp=False))
    assert loose.code == "duplicate_route"
    assert "arp_ignore=0" in loose.text
    (wrong,) = examine(but(links=beside, wrong_ways=(WrongWay("eth1", "10.0.2.2", "eth0"),)))
    assert "what eth1 sends from 10.0.2.2 leaves by eth0" in wrong.text


def test_the_worst_is_told_first() -> None:
    found = examine(but(shm=None, clock_synchronised=False, resolved=()))
    order = [SEVERITIES.index(complaint.severity) for complaint in found]
    assert order == sorted(order)
    assert all(isinstance(complaint, Complaint) for complaint in found)


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        ("Disabled", "ip link set eth7 up"),
        ("Polling", "look at the cable and at the switch's port"),
        ("", "look at the cable and at the switch's port; ip link set eth7 up"),
    ],
)
def test_what_to_do_about_a_port_that_is_down_is_what_helps(state: str, advice: str) -> None:
    port = replace(NIC, interfaces=("eth7",), phys_state=state)
    host = but(binding=NodeBinding(refused=(Refused(port, "down", "mlx5_1:1 is down"),)))
    assert [complaint.advice for complaint in examine(host)] == [advice]


def test_ports_that_are_left_out_for_one_reason_are_told_in_one_finding() -> None:
    slow = [Refused(replace(NIC, nic=f"mlx5_{n}"), "slower", f"mlx5_{n}:1 runs at 100 Gbit/s") for n in (1, 2)]
    host = but(binding=NodeBinding(refused=tuple(slow)))
    assert [complaint.text for complaint in examine(host)] == ["mlx5_1:1 runs at 100 Gbit/s (likewise mlx5_2:1)"]
