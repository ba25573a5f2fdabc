"""Archives of sysfs trees: what is unpacked is the tree, and nothing leads out of the folder or has no end."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from elaunch.errors import TopologyError
from elaunch.topology.files import archives
from elaunch.topology.files.archives import is_archive, unpacked

Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "") -> Entry:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, target
    return info, content


def archive(path: Path, *entries: Entry, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as file:  # type: ignore[call-overload]
        for info, content in entries:
            file.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_the_tree_is_unpacked_and_taken_away(tmp_path: Path, mode: str) -> None:
    path = archive(
        tmp_path / "machine",
        entry("./sys/class/net/eth0", kind=tarfile.SYMTYPE, target="../../devices/eth0"),
        entry("sys/devices/eth0/speed", b"1000\n"),
        entry("/sys/devices/eth0/rate", kind=tarfile.LNKTYPE, target="sys/devices/eth0/speed"),
        entry("sys/bus", kind=tarfile.DIRTYPE),
        mode=mode,
    )
    assert is_archive(path)
    with unpacked(path) as folder:
        assert (folder / "sys/class/net/eth0/speed").read_text() == "1000\n"
        assert (folder / "sys/devices/eth0/rate").read_text() == "1000\n"
        assert (folder / "sys/bus").is_dir()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["../evil", "sys/../../evil", "/../evil", "a/../b"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "machine", entry(name, b"x"))
    with pytest.raises(TopologyError, match="expected names inside it"), unpacked(path):
        pass
    assert [p.name for p in tmp_path.rglob("*")] == ["machine"]


def test_links_that_lead_out_are_not_made_and_nothing_is_written_through_one(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    outside = tmp_path / "secret"
    path = archive(
        tmp_path / "machine",
        entry("sys/absolute", kind=tarfile.SYMTYPE, target=str(outside)),
        entry("sys/up", kind=tarfile.SYMTYPE, target="../.."),
        entry("sys/chained", kind=tarfile.SYMTYPE, target="up/.."),
        entry("sys/loop", kind=tarfile.SYMTYPE, target="loop"),
        entry("sys/here", kind=tarfile.SYMTYPE, target=str(tmp_path)),
        entry("sys/here/written", b"x"),
        entry("sys/hard", kind=tarfile.LNKTYPE, target=str(outside)),
        entry("sys/device", kind=tarfile.CHRTYPE),
        entry("sys/pipe", kind=tarfile.FIFOTYPE),
    )
    with unpacked(path) as folder:
        names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_symlink())
        assert names == ["sys", "sys/here", "sys/here/written"]
        assert all(p.resolve().is_relative_to(folder) for p in folder.rglob("*") if p.is_symlink() and p.name != "loop")
        assert not (folder / "sys/absolute").is_symlink()
        assert not (folder / "sys/up").is_symlink()
    assert not (tmp_path / "written").exists()


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST", 4 << 20)
    monkeypatch.setattr(archives, "MOST_ENTRIES", 50)
    large = archive(tmp_path / "large", entry("sys/zeros", bytes(5 << 20)))
    assert large.stat().st_size < 20_000
    header = tarfile.TarInfo("x")
    header.size, header.type = 1 << 32, tarfile.XHDTYPE
    (tmp_path / "pax").write_bytes(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) + bytes(6 << 20)))
    many = archive(tmp_path / "many", *(entry(f"sys/{n}") for n in range(51)))
    for path, message in (
        (large, "over 4 MiB"),
        (tmp_path / "pax", "over 4 MiB"),
        (many, "over 50 entries"),
    ):
        with pytest.raises(TopologyError, match=message), unpacked(path):
            pass


@pytest.mark.parametrize(
    "content",
    [
        b"\x1f\x8b",
        gzip.compress(b"<system version='1'/>"),
        gzip.compress(b"x" * 2000)[:40],
        b"BZh9" + b"x" * 50,
        b"\xfd7zXZ\x00" + b"x" * 50,
        b"\x00" * 257 + b"ustar" + b"\xff" * 300,
    ],
    ids=range(6),
)
def test_what_is_packed_but_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "machine").write_bytes(content)
    assert is_archive(tmp_path / "machine")
    with pytest.raises(TopologyError, match="found a damaged archive"), unpacked(tmp_path / "machine"):
        pass


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    whole = archive(tmp_path / "whole", entry("sys/a", b"x" * 3000), mode="w").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:2000])
    with pytest.raises(TopologyError, match="found a damaged archive"), unpacked(tmp_path / "cut"):
        pass
