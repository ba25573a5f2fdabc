"""What every storage does alike: a file system, an object store, and the two that stand in for one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from elaunch.checkpoint.storages import beats, layout
from elaunch.checkpoint.storages.objects import Objects
from elaunch.checkpoint.storages.storage import Hold, Storage
from tests.checkpoint import buckets

_CLAIM = f"{layout.CLAIMS}/{layout.claim_name(1)}"


@pytest.fixture(params=buckets.KINDS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return buckets.url(request.param, tmp_path, request)


@pytest.fixture
def storage(where: str) -> Storage:
    return buckets.opened(where)


@pytest.fixture
def holds() -> Iterator[list[Hold]]:
    made: list[Hold] = []
    yield made
    for one in made:
        one.release()


def _claimed(storage: Storage, path: str, holds: list[Hold]) -> Hold:
    storage.make(path.rpartition("/")[0])
    hold = storage.claim(path, b"{}")
    assert hold is not None
    holds.append(hold)
    return hold


def _saved(storage: Storage, step: int, claim: int, manifest: bytes = b"manifest", rank: int = 0) -> str:
    staging = _staged(storage, step, claim, rank)
    return storage.publish(staging, layout.step_name(step, claim), manifest)


def _staged(storage: Storage, step: int, claim: int, rank: int = 0) -> str:
    staging = storage.staging(step, 1, claim)
    storage.make(staging)
    _write(storage, f"{staging}/{layout.data_name(rank)}", b"data")
    return staging


def _write(storage: Storage, path: str, *parts: bytes) -> None:
    sink = storage.sink(path)
    for part in parts:
        sink.write(memoryview(part))
    sink.finish()
    sink.close()


def test_a_small_file_is_put_and_replaced_and_read_and_removed(storage: Storage, where: str) -> None:
    storage.make("a/b")
    storage.write("a/b/c", b"first")
    storage.write("a/b/c", b"second, and longer")
    assert buckets.opened(where).read("a/b/c", 18) == b"second, and longer"
    assert storage.size("a/b/c") == 18
    storage.remove("a/b/c")
    storage.remove("a/b/c")
    with pytest.raises(FileNotFoundError):
        storage.read("a/b/c", 18)


def test_a_file_that_is_larger_than_it_may_be_is_not_read(storage: Storage) -> None:
    storage.make("a")
    storage.write("a/b", b"12345")
    with pytest.raises(OSError, match="more than 4") as caught:
        storage.read("a/b", 4)
    assert caught.value.errno == errno.EFBIG


def test_names_are_sorted_and_those_of_one_directory(storage: Storage, where: str) -> None:
    storage.make("a/b")
    for name in ("z", "a", "b/deep", ".hidden"):
        storage.write(f"a/{name}", b"")
    assert buckets.opened(where).names("a") == [".hidden", "a", "b", "z"]
    assert storage.names("a/b") == ["deep"]
    assert storage.names("nowhere") == storage.names("a/nowhere") == []
    assert storage.names("") == ["a"]


def test_what_another_has_changed_is_seen_at_once(storage: Storage, where: str) -> None:
    other = buckets.opened(where)
    storage.make("a")
    for number in range(3):
        assert other.names("a") == [f"{one}" for one in range(number)]
        storage.write(f"a/{number}", b"x" * number)
        assert other.size(f"a/{number}") == number
    storage.remove("a/0")
    assert other.names("a") == ["1", "2"]


def test_a_missing_file_is_told_with_its_path(storage: Storage) -> None:
    for ask in (storage.size, storage.source, lambda path: storage.read(path, 1)):
        with pytest.raises(FileNotFoundError) as caught:
            ask("a/missing")  # type: ignore[operator]
        assert str(caught.value.filename).endswith("a/missing"), caught.value
        assert caught.value.errno == errno.ENOENT


def test_a_new_file_is_there_once_it_is_finished(storage: Storage, where: str) -> None:
    storage.make("a")
    parts = [os.urandom(size) for size in (1, 0, 4 << 20, 3)]
    _write(storage, "a/data", *parts)
    source = buckets.opened(where).source("a/data")
    whole = bytearray(source.size)
    source.read_into(0, memoryview(whole))
    source.close()
    assert bytes(whole) == b"".join(parts)


def test_an_empty_file_can_be_written(storage: Storage) -> None:
    storage.make("a")
    _write(storage, "a/data")
    assert storage.size("a/data") == 0


def test_a_file_is_not_written_over(storage: Storage) -> None:
    storage.make("a")
    _write(storage, "a/data", b"first")
    with pytest.raises(FileExistsError):
        storage.sink("a/data")
    assert storage.read("a/data", 9) == b"first"


@pytest.mark.parametrize("size", [1, 10 << 20, 80 << 20])
def test_any_range_is_read_by_several_threads(storage: Storage, size: int, where: str) -> None:
    if size > 16 << 20 and "memory" not in where:
        size = 34 << 20  # more than one window
    data = os.urandom(1 << 20) * (size >> 20) + os.urandom(1)
    storage.make("a")
    _write(storage, "a/data", data)
    source = storage.source("a/data")
    assert source.size == len(data)
    spans = [(start, min(start + (4 << 20), len(data))) for start in range(0, len(data), 4 << 20)]
    spans += [(0, 1), (len(data) - 1, len(data)), (len(data) // 3, len(data) // 2), (5, 5), (0, len(data))]

    def read(start: int, end: int) -> bool:
        got = bytearray(end - start)
        source.read_into(start, memoryview(got))
        return bytes(got) == data[start:end]

    assert all(read(*span) for span in spans)
    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(lambda span: read(*span), spans))
    with pytest.raises(OSError, match="ends at byte") as caught:
        read(len(data) - 1, len(data) + 1)
    assert caught.value.errno == errno.EIO
    source.close()


def test_a_checkpoint_is_there_once_it_is_published(storage: Storage, where: str) -> None:
    other = buckets.opened(where)
    staging = _staged(storage, 5, 1)
    assert other.checkpoints() == []
    name = storage.publish(staging, layout.step_name(5, 1), b"manifest")
    assert other.checkpoints() == [name]
    assert other.read(f"{name}/{layout.MANIFEST}", 99) == b"manifest"
    assert other.names(name) == sorted([layout.data_name(0), layout.MANIFEST])


def test_a_second_save_of_a_step_takes_nothing_from_the_first(storage: Storage) -> None:
    first = _saved(storage, 5, 1, b"first")
    try:
        second = _saved(storage, 5, 1, b"second")
    except FileExistsError:
        second = ""
    assert storage.read(f"{first}/{layout.MANIFEST}", 99) == b"first"
    assert storage.checkpoints() == sorted({first, second} - {""})
    assert first < (second or "z")  # a restore takes the later one


def test_a_discarded_directory_is_gone_with_all_in_it(storage: Storage) -> None:
    kept, gone = _saved(storage, 5, 1), _saved(storage, 6, 1)
    storage.discard(gone)
    storage.discard(gone)
    storage.discard(layout.step_name(7, 1))
    assert storage.checkpoints() == [kept]
    assert storage.names(gone) == []
    assert storage.names(kept) == sorted([layout.data_name(0), layout.MANIFEST])


def test_a_retired_checkpoint_is_gone(storage: Storage) -> None:
    kept, gone = _saved(storage, 5, 1), _saved(storage, 6, 1)
    retired = f"{layout.RETIRED}/{layout.retired_name(1)}"
    storage.make(retired)
    assert storage.retire(gone, retired)
    assert storage.retire(gone, retired)  # by another before
    assert storage.checkpoints() == [kept]
    assert storage.names(gone) == []


def test_what_runs_left_is_found_by_the_claim_after_theirs(storage: Storage) -> None:
    committed = _saved(storage, 4, 1)
    old, new = _staged(storage, 5, 1), _staged(storage, 6, 2)
    assert storage.leftovers(1) == []
    assert storage.leftovers(2) == [old]
    assert storage.leftovers(3) == [old, new]
    storage.discard(old)
    assert storage.leftovers(3) == [new]
    assert storage.checkpoints() == [committed]


def test_a_claim_is_made_once_and_lasts_until_it_is_released(
    storage: Storage, where: str, holds: list[Hold], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beats, "MISSED", 500)  # 10 s: who lives is seen at the next beat, however late that comes
    other = buckets.opened(where)
    assert not other.held(_CLAIM)
    hold = _claimed(storage, _CLAIM, holds)
    assert other.claim(_CLAIM, b"{}") is None
    assert other.read(_CLAIM, 99) == b"{}"
    assert other.held(_CLAIM)
    hold.release()
    hold.release()
    assert not other.held(_CLAIM)
    assert other.claim(_CLAIM, b"{}") is None, "its file stays"


def test_of_many_that_claim_at_once_one_has_it(where: str, holds: list[Hold]) -> None:
    if "memory" in where:
        pytest.skip("fsspec's looks first, and writes then: it is of one process, which has no other beside it")
    buckets.opened(where).make(layout.REMOVING)
    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            path = f"{layout.REMOVING}/{number}"
            got = list(pool.map(lambda one: one.claim(path, b"{}"), [buckets.opened(where) for _ in range(4)]))  # noqa: B023
            holds += [one for one in got if one is not None]
            assert len(holds) == number + 1


def test_who_creates_does_not_rely_on_a_look_before(
    where: str, holds: list[Hold], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = buckets.opened(where)
    if not isinstance(storage, Objects) or "memory" in where:
        pytest.skip("fsspec's memory looks first, and is of one process; a file system is asked for a link")
    _claimed(storage, _CLAIM, holds)
    monkeypatch.setattr(storage.fs, "exists", lambda path: False)
    assert storage.claim(_CLAIM, b"another") is None
    assert storage.read(_CLAIM, 99) == b"{}"


def test_a_claim_that_was_swept_away_is_not_there(storage: Storage, holds: list[Hold]) -> None:
    hold = _claimed(storage, _CLAIM, holds)
    hold.release()
    storage.remove(_CLAIM)
    assert not storage.held(_CLAIM)
    assert storage.names(layout.CLAIMS) == []


def test_a_checkpoint_can_be_read_while_nobody_removes_it(storage: Storage) -> None:
    name = _saved(storage, 5, 1)
    hold = storage.reading(f"{name}/{layout.MANIFEST}")
    hold.release()
    assert not storage.is_read(f"{name}/{layout.MANIFEST}")


def test_what_was_not_finished_is_no_file_in_a_store(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    for kind in buckets.OBJECTS:
        storage = buckets.opened(buckets.url(kind, tmp_path, request))
        sink = storage.sink("a/data")
        sink.write(b"half of it")
        sink.close()
        assert storage.names("a") == []
