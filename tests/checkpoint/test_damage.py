"""Damage to the files of a checkpoint is found, named and fallen back from: of every bit of a file, and every loss."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from elaunch.checkpoint import Checkpointer
from elaunch.checkpoint.collective.launcher import NoLauncher
from elaunch.checkpoint.collective.loading import Contents, LoadPlanner, load, read_metadata
from elaunch.checkpoint.collective.ranks import Alone
from elaunch.checkpoint.collective.restoring import Restore, Wish
from elaunch.checkpoint.encoding.archive import load_value
from elaunch.checkpoint.encoding.plausible import check_metadata
from elaunch.checkpoint.encoding.reading import BlockReader
from elaunch.checkpoint.encoding.unpickling import load_metadata
from elaunch.checkpoint.records import index, manifest, sums
from elaunch.checkpoint.state.saved import saved_keys
from elaunch.checkpoint.state.states import States
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.posix import Posix
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointError, DamagedCheckpointError

pytestmark = [pytest.mark.slow, pytest.mark.torch]
SAMPLE = 4096
PLACES = 64
OLD, NEW = "step-00000001", "step-00000002"
DATA = layout.data_name(0)
FILES = [DATA, layout.METADATA, layout.MANIFEST]


def objects(step: int) -> dict[str, Any]:
    return {
        "w": torch.arange(40.0) * step,
        "b": torch.full((3, 5), step, dtype=torch.int16),
        "more": {"step": step, "text": "text" * 100 * step},
    }


@pytest.fixture(scope="module")
def saved() -> Iterator[Path]:
    """A directory of two checkpoints, in memory if the machine has a place for it: no disk is on trial here."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as path:
        for step in (1, 2):
            with Checkpointer(f"{path}/saved", objects(step)) as checkpointer:
                checkpointer.save(step)
                assert checkpointer.wait().committed
        yield Path(path)


def read(saved: Path, name: str) -> bytes:
    return (saved / "saved" / NEW / name).read_bytes()


def flips(data: bytes, starts: Sequence[int] = (0,)) -> Iterator[tuple[int, bytearray]]:
    """With each bit of the sample turned, and in which byte that bit is. The sample is in pieces from ``starts`` on."""
    turned = bytearray(data)
    for start in starts:
        for place in range(start, min(start + SAMPLE // len(starts), len(data))):
            for bit in range(8):
                turned[place] ^= 1 << bit
                yield place, turned
                turned[place] ^= 1 << bit


@dataclasses.dataclass
class OneFile:
    """A storage that has one file, which lies in memory."""

    data: bytearray
    size: int = 0

    def source(self, path: str) -> OneFile:
        assert path == f"{NEW}/{DATA}"
        self.size = len(self.data)
        return self

    def read_into(self, offset: int, view: memoryview) -> None:
        view[:] = self.data[offset : offset + len(view)]

    def close(self) -> None:
        pass


def reader(saved: Path) -> tuple[Contents, OneFile]:
    known = manifest.decode(read(saved, layout.MANIFEST), NEW)
    metadata = read_metadata(read(saved, layout.METADATA), known, NEW)
    file = OneFile(bytearray(read(saved, DATA)))
    storage: Any = file
    return Contents(storage, NEW, metadata, known.files, 1), file


def found(contents: Contents, states: States, verify: bool, name: str = NEW) -> bool:
    try:
        load(contents, states, 0, verify=verify)
    except DamagedCheckpointError as error:
        return str(error).startswith(f"{name}/{DATA}: ")
    return False


def test_every_bit_of_a_data_file_is_summed(saved: Path) -> None:
    contents, file = reader(saved)
    states = States(objects(0), rank=0, world=1)
    assert not found(contents, states, True)
    planner = LoadPlanner()
    planner.set_up_planner(states.targets(saved_keys(contents.metadata), 1), contents.metadata, True)
    plan = planner.create_local_plan()
    items = {index.fqn: place.offset for index, place in contents.metadata.storage_data.items()}
    data = bytes(file.data)
    tensor = data.index(objects(2)["w"].numpy().tobytes())
    missed = set()
    for place, file.data in flips(data, [items["w"], tensor, items["more.text"], len(data) - SAMPLE // 4]):
        try:
            BlockReader(contents.storage, NEW, contents.metadata, contents.files, True).read_data(plan, planner)
            missed.add(place)
        except DamagedCheckpointError as error:
            assert str(error).startswith(f"{NEW}/{DATA}: ")  # noqa: PT017
    assert missed == set()


def test_where_sums_are_looked_at(tmp_path: Path) -> None:
    """In a file of more blocks than one: of all, or without sums of tensors of that which has values and the index."""
    large = {"w": torch.zeros(3 << 20), "text": ["text"]}
    with Checkpointer(tmp_path, large) as checkpointer:
        checkpointer.save(1)
        assert checkpointer.wait().committed
    storage = Posix(tmp_path)
    known = manifest.decode((tmp_path / OLD / layout.MANIFEST).read_bytes(), OLD)
    contents = Contents(
        storage, OLD, read_metadata((tmp_path / OLD / layout.METADATA).read_bytes(), known, OLD), known.files, 1
    )
    path = tmp_path / OLD / DATA
    for place, seen in ((6 << 20, {True: True, False: False}), (-24, {True: True, False: True})):
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        assert {verify: found(contents, States(large, rank=0, world=1), verify, OLD) for verify in seen} == seen
        data[place] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize("name", [layout.METADATA, layout.MANIFEST])
def test_every_bit_of_what_describes_it_is_summed(saved: Path, name: str) -> None:
    data = {name: read(saved, name) for name in FILES}
    known = manifest.decode(data[layout.MANIFEST], NEW)

    def look(turned: bytes) -> None:
        if name == layout.MANIFEST:
            manifest.decode(turned, f"{NEW}/{name}")
        else:
            read_metadata(turned, known, NEW)

    look(data[name])
    for _, turned in flips(data[name]):
        with pytest.raises(DamagedCheckpointError, match=name):
            look(bytes(turned))


def test_without_sums_a_turned_bit_does_no_harm(saved: Path) -> None:
    """What other programs wrote has no sums: metadata and values come out changed, or as an error of ours."""
    sizes = {DATA: len(read(saved, DATA))}
    refused = 0
    data = read(saved, layout.METADATA)
    for _, turned in flips(data[:1200]):
        try:
            check_metadata(load_metadata(bytes(turned) + data[1200:], "here"), sizes, "here")
        except DamagedCheckpointError:
            refused += 1
    assert refused
    metadata = load_metadata(read(saved, layout.METADATA), "here")
    place = next(place for index, place in metadata.storage_data.items() if index.fqn == "more.text")
    for _, turned in flips(read(saved, DATA)[place.offset : place.offset + place.length]):
        try:
            load_value(turned, "here")
        except DamagedCheckpointError:
            refused += 1


@dataclasses.dataclass
class Outcome:
    restored: str
    told: str
    marks: list[str]
    objects: dict[str, Any]


@dataclasses.dataclass
class Attempt:
    """A restore from a copy of the directory, in which something was done to it."""

    path: Path
    told: list[str] = dataclasses.field(default_factory=list)

    @property
    def newest(self) -> Path:
        return self.path / NEW

    def restore(self, verify: bool) -> Outcome:
        held = objects(0)
        storage: Storage = Posix(self.path)
        states = States(held, rank=0, world=1)
        owner = NoLauncher().owner()
        restore = Restore(storage, Alone(), states, verify, owner, lambda _, sentence: self.told.append(sentence))
        got = restore.run(Wish())
        marks = self.path / layout.MARKS
        names = sorted(file.name for file in marks.iterdir()) if marks.is_dir() else []
        return Outcome(got.name, " ".join(self.told), names, held)


@pytest.fixture
def attempt(saved: Path) -> Iterator[Callable[[], Attempt]]:
    with tempfile.TemporaryDirectory(dir=saved) as path:

        def make() -> Attempt:
            shutil.rmtree(path)
            shutil.copytree(saved / "saved", path)
            return Attempt(Path(path))

        yield make


def assert_fell_back(outcome: Outcome, named: str) -> None:
    assert outcome.restored == OLD
    assert f"{NEW}/{named}" in outcome.told, outcome.told
    assert outcome.marks == [f"{NEW}.json"]
    assert all(torch.equal(outcome.objects[key], objects(1)[key]) for key in ("w", "b"))
    assert outcome.objects["more"] == objects(1)["more"]


@pytest.mark.parametrize("verify", [True, False], ids=["full", "fast"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_off(attempt: Callable[[], Attempt], name: str, verify: bool) -> None:
    size = len((attempt().newest / name).read_bytes())
    for place in sorted({size * number // PLACES for number in range(PLACES)} | {size - 1}):
        made = attempt()
        with (made.newest / name).open("r+b") as file:
            file.truncate(place)
        assert_fell_back(made.restore(verify), name)


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_a_turned_bit(attempt: Callable[[], Attempt], name: str) -> None:
    data = bytearray((attempt().newest / name).read_bytes())
    for place in range(0, len(data), len(data) // 16):
        made = attempt()
        turned = bytearray(data)
        turned[place] ^= 1 << place % 8
        (made.newest / name).write_bytes(turned)
        assert_fell_back(made.restore(True), name)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_has_grown(attempt: Callable[[], Attempt], name: str) -> None:
    made = attempt()
    with (made.newest / name).open("ab") as file:
        file.write(b"\0")
    assert_fell_back(made.restore(False), name)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_step(attempt: Callable[[], Attempt], name: str) -> None:
    made = attempt()
    shutil.copy(made.path / OLD / name, made.newest / name)
    assert_fell_back(made.restore(False), "" if name == layout.MANIFEST else name)


@pytest.mark.parametrize("name", [DATA, layout.METADATA])
def test_a_file_that_is_missing(attempt: Callable[[], Attempt], name: str) -> None:
    made = attempt()
    (made.newest / name).unlink()
    assert_fell_back(made.restore(False), name)


def test_a_directory_without_a_manifest_is_no_checkpoint(attempt: Callable[[], Attempt]) -> None:
    made = attempt()
    (made.newest / layout.MANIFEST).unlink()
    outcome = made.restore(False)
    assert (outcome.restored, outcome.marks) == (OLD, [])
    assert f"{NEW} has no {layout.MANIFEST}" in outcome.told


def test_a_pipe_in_place_of_a_file(attempt: Callable[[], Attempt]) -> None:
    """Opening one would wait for somebody to write."""
    made = attempt()
    (made.newest / layout.MANIFEST).unlink()
    os.mkfifo(made.newest / layout.MANIFEST)
    assert made.restore(False).restored == OLD


def test_a_file_too_many_does_no_harm(attempt: Callable[[], Attempt]) -> None:
    made = attempt()
    (made.newest / "__1_0.distcp").write_bytes(b"?")
    outcome = made.restore(True)
    assert (outcome.restored, outcome.told, outcome.marks) == (NEW, "", [])


def test_none_is_left(attempt: Callable[[], Attempt]) -> None:
    """Once, and again when all are set aside: training that begins anew without a word would be worse than none."""
    made = attempt()
    for name in (OLD, NEW):
        (made.path / name / DATA).write_bytes(b"")
    for _ in range(2):
        with pytest.raises(CheckpointError, match=f"{NEW}.*{DATA}"):
            made.restore(True)


def hostile(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda raw: {**raw, **changes}


MANIFESTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "a step of many digits": hostile(step=10**3000),
    "a negative step": hostile(step=-1),
    "another step": hostile(step=3),
    "no step": hostile(step="2"),
    "an infinite claim": hostile(claim=float("inf")),
    "a claim that is none": hostile(claim=[]),
    "no files": hostile(files={}),
    "files that are none": hostile(files=[1]),
    "a file elsewhere": lambda raw: {**raw, "files": {**raw["files"], "../../x": raw["files"][DATA]}},
    "a huge file": lambda raw: {**raw, "files": {**raw["files"], DATA: {**raw["files"][DATA], "size": 10**18}}},
    "sums that are none": lambda raw: {**raw, "files": {DATA: {"size": 1, "xxh3_64_of_4MiB": "zz"}}},
    "too many sums": lambda raw: {**raw, "files": {DATA: {"size": 1, "xxh3_64_of_4MiB": "00" * 80}}},
    "entries that are none": hostile(entries={"a": 1}),
    "a shape that is none": hostile(entries={"a": {"dtype": "float32", "shape": [-1]}}),
    "meshes that are none": hostile(meshes=3),
    "another format": hostile(format=10**9),
}


@pytest.mark.parametrize("what", list(MANIFESTS))
def test_a_manifest_that_lies_under_a_good_sum(attempt: Callable[[], Attempt], what: str) -> None:
    made = attempt()
    raw = MANIFESTS[what](json.loads((made.newest / layout.MANIFEST).read_bytes()))
    del raw["sum"]
    head = json.dumps(raw).removesuffix("}") + ',\n "sum": "'
    (made.newest / layout.MANIFEST).write_bytes(f'{head}{sums.whole(head.encode())}"\n}}\n'.encode())
    assert_fell_back(made.restore(False), "")


@pytest.mark.parametrize("row", [0, 8, 700, 1 << 40, (1 << 64) - 1])
def test_an_index_that_lies_under_a_good_sum(attempt: Callable[[], Attempt], row: int) -> None:
    """Tensors are read from where they are, or not at all: never from another item, nor from beyond the file."""
    made = attempt()
    _rewrite(made.newest, lambda data: _without_index(data) + index.encode(dict.fromkeys(_index(data), row)))
    assert_fell_back(made.restore(True), DATA)


@pytest.mark.parametrize("rows", [0, 1, 1 << 40, (1 << 64) - 1])
def test_an_index_of_another_length(attempt: Callable[[], Attempt], rows: int) -> None:
    made = attempt()
    _rewrite(made.newest, lambda data: data[:-16] + rows.to_bytes(8, "little") + data[-8:])
    assert_fell_back(made.restore(True), DATA)


def _index(data: bytes) -> dict[int, int]:
    return index.decode(data[-index.length(data[-index.END_BYTES :]) :])


def _without_index(data: bytes) -> bytes:
    return data[: -index.length(data[-index.END_BYTES :])]


def _rewrite(checkpoint: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the data file, and the manifest so that it fits."""
    data = change((checkpoint / DATA).read_bytes())
    (checkpoint / DATA).write_bytes(data)
    known = manifest.decode((checkpoint / layout.MANIFEST).read_bytes(), "")
    files = {**known.files, DATA: manifest.FileSum(len(data), manifest.block_sums(data))}
    (checkpoint / layout.MANIFEST).write_bytes(manifest.encode(dataclasses.replace(known, files=files)))
