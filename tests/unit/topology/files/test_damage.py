"""Damaged descriptions: whatever becomes of the bytes, there is a machine or one clear line, and always the same."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given
from hypothesis import strategies as st

from elaunch.errors import TopologyError
from elaunch.topology.files import nccl_xml
from elaunch.topology.files.archives import unpacked
from elaunch.topology.files.nccl_write import to_nccl_xml
from elaunch.topology.files.processor import Processor
from elaunch.topology.files.reading import parse
from elaunch.topology.machine import Topology
from tests.unit.topology.files.test_hwloc_xml import GPU, NIC, TREE, VERSION_1, VERSION_2
from tests.unit.topology.files.test_nccl_write import as_told
from tests.unit.topology.files.test_nccl_xml import SMALL
from tests.unit.topology.files.test_nvidia_smi import TABS

INSIDE = TREE.format(GPU + NIC.format(net=2, rdma=3))
WHOLE = [SMALL, VERSION_1.format(INSIDE).encode(), VERSION_2.format(INSIDE).encode(), TABS.encode()]
PIECES = [b"", b"\x1b[31m", b"\x9b", b"\xc2\x9b", b"\t", b"\n", b'"', b"<", b"/>", b"0x", b"9" * 20, b"-1", b"N/A"]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """One of the whole texts, with a few places cut out, replaced by something or by another place of it."""
    data = draw(st.sampled_from(WHOLE))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 60)))
        other = draw(st.integers(0, len(data)))
        piece = draw(st.sampled_from([*PIECES, data[other : other + end - start]]) | st.binary(max_size=4))
        data = data[:start] + piece + data[end:]
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


def outcome(data: bytes) -> Topology | str:
    try:
        return parse(data)
    except TopologyError as error:
        return str(error)


@given(damaged())
@example(SMALL)
def test_there_is_a_machine_or_a_clear_line(data: bytes) -> None:
    found = outcome(data)
    assert outcome(data) == found
    if isinstance(found, str):
        assert found.isprintable()
        assert len(found) < 300
        return
    said = [*found.notes, *(port.id for port in found.ports), *(device.id for device in found.devices)]
    said += [device.model for device in found.devices] + [name for port in found.ports for name in port.interfaces]
    assert all(text.isprintable() for text in said)
    assert [device.index for device in found.devices] == sorted({device.index for device in found.devices})
    ports, devices = {port.id for port in found.ports}, {device.id for device in found.devices}
    assert (len(ports), len(devices)) == (len(found.ports), len(found.devices))
    assert all(told.port in ports and told.device in devices for told in found.levels)
    parents = {function.address: function.parent for function in found.functions}
    assert all(parent in parents for parent in parents.values() if parent)
    assert {thing.pci for thing in (*found.devices, *found.ports) if thing.pci} <= set(parents)


@given(damaged())
def test_what_was_read_can_be_written(data: bytes) -> None:
    found = outcome(data)
    if isinstance(found, Topology) and found.source == "nccl-xml":
        text = to_nccl_xml(found, Processor("arm64"))
        assert as_told(nccl_xml.parse(text.encode())) == as_told(found)


@given(st.integers(0, 10_240), st.binary(min_size=1, max_size=8))
def test_a_damaged_archive_does_no_harm(place: int, junk: bytes) -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name in ("sys/a", "sys/b/c", "sys/d"):
            info = tarfile.TarInfo(name)
            info.size = 600
            archive.addfile(info, io.BytesIO(b"x" * 600))
    data = bytearray(whole.getvalue())
    data[place : place + len(junk)] = junk
    with TemporaryDirectory() as folder:
        path = Path(folder) / "machine"
        path.write_bytes(data)
        try:
            with unpacked(path) as tree:
                assert all(found.resolve().is_relative_to(tree) for found in tree.rglob("*"))
        except (TopologyError, OSError):
            pass  # read() makes one line of both
        assert [found.name for found in Path(folder).iterdir()] == ["machine"]
