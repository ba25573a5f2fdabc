"""``elaunch topo``: every source, every output, and what it says of bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from elaunch.cli.main import main
from tests.unit.topology.captured import FOLDER, needs_captures

XML = """<system version="1">
  <cpu numaid="0" affinity="0f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1"/>
      </pci>
      <pci busid="0000:03:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" gdr="1"/></nic>
      </pci>
    </pci>
    <pci busid="0000:11:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:12:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_1" dev="1" speed="400000" port="1" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
"""
MATRIX = """\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\tPIX\t0-3\t0
GPU1\tNV4\t X \tSYS\t4-7\t1
NIC0\tPIX\tSYS\t X

NIC Legend:

  NIC0: mlx5_0
"""


@pytest.fixture
def xml(tmp_path: Path) -> Path:
    path = tmp_path / "machine.xml"
    path.write_text(XML)
    return path


def topo(*words: object) -> int:
    return main(["topo", *map(str, words)])


def document(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    assert topo("--json", *words) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_table_says_what_each_rank_gets_and_why(xml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert topo("--from", xml, "--nic-policy=local", "--cpu-bind=numa") == 0
    text = capsys.readouterr().out
    (row,) = [line for line in text.splitlines() if line.lstrip().startswith("0  ")]
    assert row.split()[:7] == ["0", "0000:02:00.0", "mlx5_0:1", "PIX", "0", "0", "0-3"]
    assert "rank 0: mlx5_0:1 is nearest to 0000:02:00.0 (PIX" in text
    assert "of this machine" not in text  # the row says it
    assert "└─ NIC mlx5_1:1" in text


def test_the_document_has_distances_and_the_binding(xml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--from", xml)
    assert [(d["device"], d["port"], d["level"]) for d in found["distances"]] == [  # type: ignore[attr-defined]
        ("0000:02:00.0", "mlx5_0:1", "PIX"),
        ("0000:02:00.0", "mlx5_1:1", "PHB"),
    ]
    (rank,) = found["binding"]["ranks"]  # type: ignore[index]
    assert (rank["device"], rank["nics"][0], rank["level"]) == ("0000:02:00.0", "mlx5_0:1", "PIX")
    assert {reason["about"] for reason in rank["why"]} >= {"device", "nics"}


def test_a_matrix_is_known_by_its_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "anything.json"
    path.write_text(MATRIX)
    found = document(capsys, "--from", path)
    assert (found["source"], len(found["devices"])) == ("nvidia-smi", 2)  # type: ignore[arg-type]


def test_this_host_is_shown_without_being_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys)["source"] == "sysfs"


def test_the_files_that_it_writes_can_be_read(xml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, again = tmp_path / "machine.svg", tmp_path / "again.xml"
    assert topo("--from", xml, "--svg", picture, "--nccl-xml", again) == 0
    assert ET.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    capsys.readouterr()
    first, second = document(capsys, "--from", xml), document(capsys, "--from", again)
    assert first["distances"] == second["distances"]
    assert first["digest"] == second["digest"]
    assert "vendor=" not in again.read_text().partition("<pci")[0], "that of this host is not that of the machine"


def test_a_captured_tree_can_stand_for_this_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ELAUNCH_SYSFS_ROOT", str(tmp_path))
    assert topo("--nccl-xml", tmp_path / "empty.xml") == 0
    monkeypatch.setenv("ELAUNCH_SYSFS_ROOT", "")
    assert topo("--nccl-xml", tmp_path / "own.xml") == 0
    assert "<cpu" in (tmp_path / "own.xml").read_text()
    assert "<cpu" not in (tmp_path / "empty.xml").read_text()


def test_two_machines_are_compared(xml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.xml"
    other.write_text(XML.replace("mlx5_1", "mlx5_9").replace('speed="400000"', 'speed="200000"', 1))
    assert topo("--from", xml, "--against", xml) == 0
    assert capsys.readouterr().out.startswith("both have digest ")
    assert topo("--from", xml, "--against", other) == 1
    assert any("rate is 200 Gbit/s instead of 400 Gbit/s" in line for line in capsys.readouterr().out.splitlines())
    assert topo("--from", xml, "--against", tmp_path / "none.xml") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "/nowhere"), "/nowhere"),
        (("--from", "XML", "--nic-map", "/nowhere"), "/nowhere"),
        (("--from", "XML", "--nic-policy", "nearest"), "expected auto, local, all, or a map"),
        (("--from", "XML", "--cpu-bind", "socket"), "expected one of none, numa, core"),
        (("--from", "XML", "--nproc-per-node", "-1"), "expected a number from 0 to 10000"),
        (("--from", "XML", "--svg", "/nowhere/x.svg"), "cannot write /nowhere/x.svg"),
        (("--probe", "off"), "unrecognized arguments: --probe off"),
        (("--rails", "0"), "--rails=0: expected 1 or more"),
        (("--bogus",), "unrecognized arguments: --bogus"),
        (("here",), "unrecognized arguments: here"),
    ],
)
def test_bad_input_costs_one_line_and_exit_code_2(
    xml: Path, words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert topo(*(xml if word == "XML" else word for word in words)) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_without_a_route_the_machine_is_shown_and_the_exit_code_says_so(
    xml: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert topo("--from", xml, "--nproc-per-node=1", "--exclude-nic=mlx5_0,mlx5_1") == 95
    out, err = capfd.readouterr()
    assert "device 0000:02:00.0" in out
    assert "mlx5_0:1 is excluded (--exclude-nic)" in err


def test_without_a_route_for_ranks_that_nobody_asked_for_it_is_noted(
    xml: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert topo("--from", xml, "--exclude-nic=mlx5_0,mlx5_1") == 0
    assert "note: no port to reach other nodes over: 2 ports found" in capsys.readouterr().out
    found = document(capsys, "--from", xml, "--exclude-nic=mlx5_0,mlx5_1")
    assert (found["binding"], str(found["no_route"])[:7]) == (None, "no port")


@needs_captures
@pytest.mark.parametrize("name", ["hwloc/aws_p5.48xl.xml", "sysfs/h100_8gpu_12nic_RECONSTRUCTED.tar.gz"])
def test_no_line_is_wider_than_a_terminal_and_ports_alike_share_a_row(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert topo("--from", FOLDER / name, "--cpu-bind=core") == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 120
    assert len([line for line in lines if "has no RDMA" in line or "is another adapter" in line]) == 1


@needs_captures
@pytest.mark.parametrize("name", ["hwloc/aws_p5.48xl.xml", "sysfs/h100_8gpu_12nic_RECONSTRUCTED.tar.gz"])
def test_machines_of_others(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--from", FOLDER / name)
    assert len(found["binding"]["ranks"]) == 8  # type: ignore[index]


def spoken(*words: object, stdout: object = None, **environ: str) -> tuple[int, str]:
    """Exit code and standard error of a process of its own."""
    command = [sys.executable, "-m", "elaunch", "topo", *map(str, words)]
    done = subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, env={**os.environ, **environ}, timeout=60, check=False
    )  # type: ignore[call-overload]
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("words", [[], ["--json"], ["--svg", "-"]])
def test_a_full_disk_under_standard_output_is_told(xml: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        code, said = spoken("--from", xml, *words, stdout=full)
    assert (code, said) == (2, "elaunch: error: topo: cannot write to standard output: No space left on device\n")


def test_a_reader_that_has_gone_has_seen_enough(xml: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    assert spoken("--from", xml, "--svg", "-", "--nccl-xml", "-", stdout=writing) == (0, "")
    os.close(writing)


def test_without_standard_output_files_are_written(xml: Path, tmp_path: Path) -> None:
    line = f"exec >&-; exec {sys.executable} -m elaunch topo --from {xml} --svg - --nccl-xml {tmp_path / 'file'}"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "file").read_text().startswith("<system")


def test_files_are_utf_8_whatever_the_locale(xml: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"m\xff\xc3\xa9.xml")
    odd.write_bytes(xml.read_bytes())
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert spoken("--from", odd, "--svg", tmp_path / "file", stdout=subprocess.DEVNULL, **locale) == (0, "")
    ET.fromstring((tmp_path / "file").read_bytes())
