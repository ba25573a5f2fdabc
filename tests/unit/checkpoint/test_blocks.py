"""Reading parts of a file, with every block checked that is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.checkpoint.records import sums
from elaunch.checkpoint.records.blocks import BlockFile
from elaunch.checkpoint.records.manifest import FileSum
from elaunch.checkpoint.records.writing import write_file
from elaunch.checkpoint.storages.posix import Posix
from elaunch.errors import DamagedCheckpointError


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "BLOCK", 64)


def _written(tmp_path: Path, data: bytes) -> tuple[Posix, FileSum]:
    storage = Posix(tmp_path)
    (tmp_path / "f").unlink(missing_ok=True)
    cut = len(data) // 3
    return storage, write_file(storage, "f", [memoryview(data[:cut]), memoryview(data[cut:])])


@settings(max_examples=60)
@given(
    st.binary(max_size=400), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=8), st.booleans()
)
def test_any_part_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, parts: list[tuple[int, int]], verify: bool
) -> None:
    storage, known = _written(tmp_path_factory.mktemp("blocks"), data)
    file = BlockFile(storage.source("f"), "f", known, verify)
    for start, length in parts:
        start = min(start, len(data))
        length = min(length, len(data) - start)
        assert bytes(file.read(start, length)) == data[start : start + length]
    file.verify()
    file.close()


@pytest.mark.parametrize("at", range(0, 300, 7))
def test_damage_is_found_by_whoever_reads_its_block_and_named(tmp_path: Path, at: int) -> None:
    data = bytes(range(256)) + bytes(44)
    storage, known = _written(tmp_path, data)
    damaged = bytearray(data)
    damaged[at] ^= 4
    (tmp_path / "f").write_bytes(damaged)
    file = BlockFile(storage.source("f"), "step-1/f", known, verify=True)
    block = at // 64
    with pytest.raises(DamagedCheckpointError, match=f"step-1/f: damaged between bytes {block * 64} "):
        file.read(at, 1)
    other = (block + 1) % 4
    assert bytes(file.read(other * 64 + 3, 20)) == data[other * 64 + 3 : other * 64 + 23]
    with pytest.raises(DamagedCheckpointError):
        file.verify()
    file.close()


def test_another_size_is_found_at_once_though_nothing_is_verified(tmp_path: Path) -> None:
    storage, known = _written(tmp_path, bytes(100))
    (tmp_path / "f").write_bytes(bytes(99))
    source = storage.source("f")
    with pytest.raises(DamagedCheckpointError, match="has 99 bytes, 100 were written"):
        BlockFile(source, "f", known, verify=False)
    source.close()


def test_no_file_is_written_over(tmp_path: Path) -> None:
    storage, _ = _written(tmp_path, b"first")
    with pytest.raises(FileExistsError):
        storage.sink("f")
    assert (tmp_path / "f").read_bytes() == b"first"
