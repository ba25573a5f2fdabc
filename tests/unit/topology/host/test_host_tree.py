"""Reading a tree: bounded, and never out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elaunch.topology.host.tree import MOST, Tree


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b" up \n", "up"),
        (b"a\n\tb\n", "a\n\tb"),
        (b"", ""),
        (b"\xff\xfe", None),
        (b"mlx5\x1b[2J", None),
        (b"4: ACTIVE\0", None),
        (b"x" * MOST, "x" * MOST),
        (b"x" * (MOST + 1), None),
    ],
)
def test_a_file_is_read_whole_or_not_known(tmp_path: Path, content: bytes, told: str | None) -> None:
    (tmp_path / "state").write_bytes(content)
    assert Tree(tmp_path).text("state") == told


@pytest.mark.parametrize(
    ("content", "told"),
    [("12", 12), ("-1", -1), ("0x0604", 0x604), ("08", 8), ("1_0", None), ("", None), ("9" * 30, None), ("٣", None)],
)
def test_numbers_are_those_that_the_kernel_writes(tmp_path: Path, content: str, told: int | None) -> None:
    (tmp_path / "numa_node").write_text(content)
    assert Tree(tmp_path).number("numa_node") == told


def test_what_is_no_file_is_not_known_and_keeps_no_one_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "gone").symlink_to("nowhere")
    tree = Tree(tmp_path)
    assert [tree.text(name) for name in ("fifo", "folder", "gone", "absent", "a\0b")] == ["", None, None, None, None]


def test_a_link_does_not_lead_out_of_a_captured_tree(tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text("the host's")
    root = tmp_path / "captured"
    (root / "sys").mkdir(parents=True)
    (root / "sys/direct").symlink_to(outside)
    (root / "sys/absolute").symlink_to("/sys/devices/pci0000:00")
    (root / "sys/above").symlink_to("../../../../secret")
    tree = Tree(root)
    assert tree.text("sys/direct") is None
    assert tree.target("sys/absolute") == "sys/devices/pci0000:00"
    assert tree.target("sys/above") == "secret"
    assert tree.text("secret") is None


def test_names_that_would_steer_a_terminal_are_left_out(tmp_path: Path) -> None:
    for name in ("eth0", "eth\x1b[2J", os.fsdecode(b"eth\xff")):
        (tmp_path / name).touch()
    assert Tree(tmp_path).names("") == ["eth0"]


def test_only_the_real_root_is_this_host(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    assert Tree(Path("/")).real
    assert Tree(tmp_path / "link").real
    assert not Tree(tmp_path).real
