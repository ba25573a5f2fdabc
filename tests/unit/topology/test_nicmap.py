"""The operator's map: what it may say, and where it is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elaunch.errors import UsageError
from elaunch.topology import nicmap
from elaunch.topology.nicmap import LARGEST, parse, parse_inline, read

MAP = """\
# rank or device = NICs, in order
0 = mlx5_0, mlx5_1:1
3B:00.0=eth0   # an interface
GPU-0a1b2c3d-0000-1111-2222-333344445555 = mlx5_2

* = mlx5_3
"""


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "map"
    path.write_text(MAP)
    assert read(str(path)) == (
        ("0", ("mlx5_0", "mlx5_1:1")),
        ("0000:3b:00.0", ("eth0",)),
        ("GPU-0a1b2c3d-0000-1111-2222-333344445555", ("mlx5_2",)),
        ("*", ("mlx5_3",)),
    )


def test_a_map_on_the_command_line() -> None:
    assert parse_inline("0=mlx5_0,mlx5_1;1=mlx5_2") == (("0", ("mlx5_0", "mlx5_1")), ("1", ("mlx5_2",)))
    assert parse_inline("mlx5_0,mlx5_1") == (("*", ("mlx5_0", "mlx5_1")),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 = mlx5_0\n1 mlx5_1\n", "line 2: '1 mlx5_1' has no '='"),
        ("\n\nmlx5_0 = 0\n", "line 3: 'mlx5_0' is no local rank"),
        ("0 = mlx5_0\n0 = mlx5_1\n", "line 2: 0 stands at line 1 as well"),
        ("0 = mlx5_0\n00 = mlx5_1\n", "line 2: 00 stands at line 1 as well"),
        ("0 = mlx5_0,mlx5_0\n", "line 1: mlx5_0 is named twice"),
        ("0 =\n", "line 1: '' is no name"),
        ("0 = ^mlx5_0\n", r"line 1: '\^mlx5_0' is no name"),
        ("0 = mlx5_0:1:2:3\n", "is no name"),
        ("0 = mlx5_0\x1b[31m\n", "is no name"),
        ("# nothing\n", "names no NIC"),
    ],
)
def test_errors_name_the_line(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse(text, "--nic-map map")


@pytest.mark.parametrize("text", ["0=mlx5_0;1", "", ";", "0=a;0=b", "x=mlx5_0"])
def test_errors_on_the_command_line(text: str) -> None:
    with pytest.raises(UsageError, match="--nic-policy"):
        parse_inline(text)


def test_files_that_are_no_maps(tmp_path: Path) -> None:
    path = tmp_path / "map"
    with pytest.raises(UsageError, match="No such file"):
        read(str(path))
    path.write_bytes(b"0 = \xff\xfe")
    with pytest.raises(UsageError, match="no text"):
        read(str(path))
    path.write_bytes(b"#" * (LARGEST + 1))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read(str(path))


def test_a_map_through_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nicmap, "SECONDS", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="nothing is written to this pipe"):
        nicmap.read(str(pipe))
    reading, writing = os.pipe()
    os.write(writing, "\ufeff0 = mlx5_0\r\n".encode())
    with pytest.raises(UsageError, match="nothing is written to this pipe"):
        nicmap.read(f"/dev/fd/{reading}")
    os.write(writing, b"1 = mlx5_1")
    os.close(writing)
    assert nicmap.read(f"/dev/fd/{reading}") == (("1", ("mlx5_1",)),)
    os.close(reading)


def test_a_map_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "map").write_bytes("\ufeff0 = mlx5_0\r\n".encode())
    assert nicmap.read(str(tmp_path / "map")) == (("0", ("mlx5_0",)),)
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        nicmap.read("/dev/zero")
