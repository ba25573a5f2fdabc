"""How ports and devices are put in order, and how they are named in sentences."""

from __future__ import annotations

from elaunch.topology.machine import Port
from elaunch.topology.naming import listed, natural, ordered


def test_numbers_in_names_count_as_such() -> None:
    assert sorted(["mlx5_10", "eth0", "mlx5_2", "mlx5_bond_0"], key=natural) == [
        "eth0", "mlx5_2", "mlx5_10", "mlx5_bond_0"
    ]  # fmt: skip


def test_digits_that_are_no_numbers_are_letters() -> None:
    assert sorted(["eth²", "eth1"], key=natural) == ["eth1", "eth²"]


def test_ports_without_an_address_come_last() -> None:
    ports = [Port("a", rdma=False), Port("mlx5_1", pci="10000:01:00.0"), Port("mlx5_0", pci="ffff:01:00.0")]
    assert [port.nic for port in ordered(ports)] == ["mlx5_0", "mlx5_1", "a"]


def test_many_names_are_counted() -> None:
    assert listed(["a", "b", "c"], most=2) == "a, b and 1 more"
    assert listed(["a", "b"], most=2) == "a, b"
