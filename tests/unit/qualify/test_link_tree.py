"""The trees whose ports go down: one that elaunch makes, or a copy of the user's."""

from __future__ import annotations

from pathlib import Path

from elaunch.qualify.link_tree import NICS, ROOT, made, ports
from elaunch.topology.host.discovery import discover
from elaunch.topology.machine import LinkLayer


def test_a_tree_with_two_ports_that_are_up(tmp_path: Path) -> None:
    tree = made(tmp_path / "tree", {})
    assert ports(tree) == [f"{nic}:1" for nic in NICS]
    found = discover(tree, nvml=False)
    assert {port.link_layer for port in found.ports} == {LinkLayer.INFINIBAND}
    assert {port.rate for port in found.ports} == {400.0}
    (tree / "sys/class/infiniband/mlx5_0/ports/1/state").write_text("1: DOWN\n")
    assert ports(tree) == ["mlx5_1:1"]


def test_the_user_s_tree_is_copied_and_not_touched(tmp_path: Path) -> None:
    theirs = made(tmp_path / "theirs", {})
    (theirs / "sys/class/infiniband/mlx5_0").rename(theirs / "sys/class/infiniband/ibp7")
    tree = made(tmp_path / "tree", {ROOT: str(theirs)})
    assert ports(tree) == ["ibp7:1", "mlx5_1:1"]
    (tree / "sys/class/infiniband/ibp7/ports/1/state").write_text("1: DOWN\n")
    assert ports(theirs) == ["ibp7:1", "mlx5_1:1"]


def test_a_tree_without_ports_of_rdma_and_the_real_one_are_none(tmp_path: Path) -> None:
    (tmp_path / "theirs/sys/class/net").mkdir(parents=True)
    for root in (str(tmp_path / "theirs"), "/", str(tmp_path / "absent")):
        assert ports(made(tmp_path / "tree", {ROOT: root})) == [f"{nic}:1" for nic in NICS]
