"""The text of nvidia-smi topo -m, as drivers print it and as people hand it on."""

from __future__ import annotations

import re

import pytest

from elaunch.errors import TopologyError
from elaunch.topology.files.nvidia_smi import parse
from elaunch.topology.level import Level
from elaunch.topology.machine import LinkLayer, NumaNode, Peer, ToldLevel, Topology

TABS = (
    "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV18\tPXB\tSYS\t0-3,8-11\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\tNODE\t4-7\t1\t\tN/A\n"
    "NIC0\tPXB\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tNODE\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    "\nNIC Legend:\n\n  NIC0: mlx5_2\n  NIC1: rocep49s0\n"
)
BLANKS = re.sub("\t", "    ", TABS)


def levels(machine: Topology) -> dict[tuple[str, str], str]:
    return {(told.device, told.port): told.level.name for told in machine.levels}


@pytest.mark.parametrize("text", [TABS, BLANKS, TABS.replace("\n", "\r\n"), "\ufeff" + TABS], ids=lambda t: repr(t[:8]))
def test_everything_a_text_tells_is_taken_over(text: str) -> None:
    machine = parse(text.encode())
    first, second = machine.devices
    assert (first.id, first.index, first.numa, first.cpus) == ("GPU0", 0, 0, (0, 1, 2, 3, 8, 9, 10, 11))
    assert (second.id, second.index, second.numa, second.cpus) == ("GPU1", 1, 1, (4, 5, 6, 7))
    assert first.peers == (Peer("GPU1", "nvlink", 18),)
    assert [(port.id, port.rdma, port.link_layer) for port in machine.ports] == [
        ("mlx5_2:1", True, LinkLayer.UNKNOWN),
        ("rocep49s0:1", True, LinkLayer.ETHERNET),
    ]
    assert machine.levels == (
        ToldLevel("GPU0", "mlx5_2:1", Level.PXB),
        ToldLevel("GPU0", "rocep49s0:1", Level.SYS),
        ToldLevel("GPU1", "mlx5_2:1", Level.SYS),
        ToldLevel("GPU1", "rocep49s0:1", Level.NODE),
    )
    assert machine.numa == (NumaNode(0, (0, 1, 2, 3, 8, 9, 10, 11)), NumaNode(1, (4, 5, 6, 7)))
    assert machine.notes == ()


def test_escape_codes_lower_case_and_the_order_of_rows_make_no_difference() -> None:
    head, *rows = TABS.split("\n", 5)
    text = "\n".join([head.replace("GPU0", "\x1b[4mgpu0") + "\x1b[0m", rows[3], rows[2], rows[1], rows[0], rows[4]])
    text = text.replace("NV18", "nv18").replace("\tPXB", "\t\x9b31mpxb").replace("GPU1\t", "\x1b]0;x\x07gpu1\t")
    assert parse(text.encode()) == parse(TABS.encode())


def test_broken_lines_are_joined() -> None:
    rows = TABS.split("\n")
    header = "\tGPU0\tGPU1\tNIC0\nNIC1\tCPU\nAffinity\tNUMA Affinity\tGPU NUMA ID"
    row = "GPU0\t X \tNV18\nPXB\tSYS\n0-3,8-11\t0\t\tN/A"
    assert parse("\n".join([header, row, *rows[2:]]).encode()) == parse(TABS.encode())


def test_an_old_text_has_names_for_columns_and_soc_for_sys() -> None:
    machine = parse(
        b"        GPU0    GPU1    mlx5_2  mlx5_1  CPU Affinity\n"
        b"GPU0     X      NV1     SOC     PIX     0-1\n"
        b"GPU1    NV1      X      PHB     SOC     2-3\n"
        b"mlx5_2  SOC     PHB      X      SOC\n"
        b"mlx5_1  PIX     SOC     SOC      X\n"
    )
    assert levels(machine) == {
        ("GPU0", "mlx5_2:1"): "SYS",
        ("GPU0", "mlx5_1:1"): "PIX",
        ("GPU1", "mlx5_2:1"): "PHB",
        ("GPU1", "mlx5_1:1"): "SYS",
    }
    assert [port.nic for port in machine.ports] == ["mlx5_1", "mlx5_2"]
    assert [(device.cpus, device.numa) for device in machine.devices] == [((0, 1), None), ((2, 3), None)]
    assert (machine.numa, machine.notes) == ((), ())


@pytest.mark.parametrize(
    ("tail", "cpus", "numa"),
    [
        ("\t0-1\t3\t\tN/A", (0, 1), 3),
        ("\t\t3\t\tN/A", (), 3),
        ("\tN/A\tN/A\t\tN/A", None, None),
        ("    0-1   3   N/A", (0, 1), 3),
        ("    3   N/A", (), 3),
        ("    0,4   N/A   N/A", (0, 4), None),
        ("", (), None),
    ],
)
def test_what_stands_beside_it_may_be_missing(tail: str, cpus: tuple[int, ...] | None, numa: int | None) -> None:
    blank = "\t" if "\t" in tail else "   "
    text = f"{blank}GPU0{blank}CPU Affinity{blank}NUMA Affinity{blank}GPU NUMA ID\nGPU0{blank} X {tail}\n"
    (device,) = parse(text.encode()).devices
    assert (device.cpus, device.numa) == (cpus, numa)


def test_a_cut_text_gives_what_it_holds() -> None:
    machine = parse(TABS[: TABS.index("SYS\t0-3")].replace("\tCPU", "\tNIC2\tCPU").encode())
    assert [device.id for device in machine.devices] == ["GPU0", "GPU1"]
    assert [port.nic for port in machine.ports] == ["NIC0", "NIC1", "NIC2"]
    assert levels(machine) == {("GPU0", "NIC0:1"): "PXB"}
    assert machine.notes == (
        "no legend names NIC0, NIC1, NIC2",
        "the text has no row of GPU1, NIC0, NIC1, NIC2",
        "the rows of GPU0 are cut",
    )


def test_a_row_of_which_only_the_name_is_left_is_no_header() -> None:
    machine = parse(b"     GPU0 NIC0\nGPU0\nNIC0 PIX   X\n")
    assert levels(machine) == {("GPU0", "NIC0:1"): "PIX"}
    assert machine.notes == ("no legend names NIC0", "the rows of GPU0 are cut")


def test_a_missing_row_is_read_off_the_others() -> None:
    lines = TABS.split("\n")
    machine = parse("\n".join([lines[0], *lines[2:]]).encode())
    assert levels(machine)[("GPU0", "mlx5_2:1")] == "PXB"
    assert machine.devices[0].peers == (Peer("GPU1", "nvlink", 18),)
    assert machine.notes == ("the text has no row of GPU0",)


def test_unknown_words_and_contradictions_are_told() -> None:
    text = TABS.replace("\tPXB\tSYS\t0-3", "\tXYZ\tSYS\t0-3").replace("NIC1\tSYS\tNODE", "NIC1\tPIX\tNODE")
    machine = parse(text.encode())
    assert levels(machine)[("GPU0", "mlx5_2:1")] == "UNKNOWN"
    assert levels(machine)[("GPU0", "rocep49s0:1")] == "SYS"
    assert machine.notes == (
        "rows contradict each other on GPU0 and NIC0, GPU0 and NIC1; that of the GPU holds",
        "no known distance: 'XYZ'",
    )


def test_names_that_are_none_or_not_unique_are_not_taken() -> None:
    machine = parse(TABS.replace("rocep49s0", "mlx5_2").encode())
    assert [port.nic for port in machine.ports] == ["NIC1", "mlx5_2"]
    assert machine.notes == ("no legend names NIC1",)
    machine = parse(TABS.replace("rocep49s0", "a;rm").encode())
    assert [port.nic for port in machine.ports] == ["NIC1", "mlx5_2"]


def test_what_stands_before_a_matrix_is_passed_over() -> None:
    text = f"Mon Jan  1\n$ nvidia-smi topo -m\nNote: GPU0 detected\nGPU0 GPU1 are there\n{TABS}"
    assert parse(text.encode()) == parse(TABS.encode())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"hello\n", "line 1: found 'hello'; expected NCCL or hwloc XML"),
        (b"\n\n \x1b[31mred\x1b[0m\n", r"line 3: found '\x1b[31mred\x1b[0m'; expected"),
        (b"\x00\x01\xff", r"line 1: found '\x00\x01"),
        (b"x" * (5 << 20), "found more than 4 MiB of text"),
        (b" ".join(b"GPU%d" % n for n in range(600)), "line 1: found 600 columns; expected at most 512"),
        (b"GPU0 NIC0\n" + b"".join(b"GPU%d X\n" % n for n in range(3000)), "line 1: found over 1024 rows"),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_what_is_no_matrix_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
