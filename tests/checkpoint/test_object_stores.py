"""Checkpoints on object stores, from the program's call to what a restore finds, and what goes wrong on the way."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from elaunch.checkpoint import Checkpointer
from elaunch.checkpoint.records.claims import claim
from elaunch.checkpoint.storages import beats, layout
from elaunch.checkpoint.storages.objects import Objects
from elaunch.checkpoint.storages.open_storage import open_storage
from elaunch.errors import CheckpointError, DirectoryInUseError, FencedError
from tests.checkpoint import buckets
from tests.checkpoint.stored import Told, Training

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats, "INTERVAL", 0.3)


@pytest.fixture(params=buckets.OBJECTS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return buckets.url(request.param, tmp_path, request)


@pytest.fixture
def on_s3(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return buckets.url("s3", tmp_path, request)


@pytest.fixture
def train() -> Iterator[Callable[..., Training]]:
    made: list[Training] = []

    def start(where: str, told: Told | None = None, **options: Any) -> Training:
        made.append(Training(where, told, **options))
        return made[-1]

    yield start
    for one in made:
        one.ckpt.close()


def _steps(where: str) -> list[int]:
    return [layout.step_of(name) or 0 for name in open_storage(where).checkpoints()]


def test_saved_restored_and_older_ones_removed(where: str, train: Callable[..., Training]) -> None:
    first = train(where, keep_last=2)
    for step in (10, 20, 30):
        assert first.save(step).committed
    first.ckpt.close()
    assert _steps(where) == [20, 30]
    assert first.told.events == []
    second = train(where, keep_last=2)
    assert second.restore() == 30
    assert second.save(40).committed
    assert _steps(where) == [30, 40]
    assert second.told.events == []


def test_what_is_damaged_is_set_aside_and_the_one_before_it_taken(where: str, train: Callable[..., Training]) -> None:
    training = train(where)
    names = [training.save(step).name for step in (10, 20)]
    storage = open_storage(where)
    path = f"{names[1]}/{layout.data_name(0)}"
    data = bytearray(storage.read(path, 1 << 20))
    data[len(data) // 2] ^= 1
    storage.remove(path)
    storage.write(path, bytes(data))
    assert training.restore() == 10
    ((kind, sentence),) = training.told.events
    assert kind == "checkpoint_set_aside"
    assert f"{path}: damaged" in sentence


def test_a_step_that_is_saved_again_takes_nothing_from_the_first(where: str, train: Callable[..., Training]) -> None:
    training = train(where)
    first = training.save(10)
    training.save(20)
    assert training.ckpt.restore(10) == 10
    again = training.save(10)
    assert again.committed
    assert again.name != first.name
    assert _steps(where) == [10, 10, 20]


def test_a_later_generation_takes_over_and_the_older_one_saves_no_more(
    where: str, train: Callable[..., Training]
) -> None:
    old = train(where, Told(1))
    assert old.save(10).committed
    new = train(where, Told(2))
    assert new.restore() == 10
    assert new.save(20).committed
    refused = old.save(30)
    assert "job job generation 2" in refused.error
    assert _steps(where) == [10, 20]
    with pytest.raises(FencedError):
        train(where, Told(1))


class _Frozen:
    """A save that stops at one of its calls of the storage until the rest of the test has been done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, call: str, path: str, before: bool) -> None:
        self._real = getattr(Objects, call)
        self._path = re.compile(path)
        self._before = before
        self.then: Callable[[], None] | None = None
        frozen = self

        def called(storage: Objects, *args: Any) -> Any:
            return frozen._called(storage, *args)

        monkeypatch.setattr(Objects, call, called)

    def _called(self, storage: Objects, *args: Any) -> Any:
        mine = self.then is not None and bool(args) and self._path.search(str(args[0])) is not None
        if not mine or not self._before:
            result = self._real(storage, *args)
        if mine:
            then, self.then = self.then, None
            assert then is not None
            then()
        return self._real(storage, *args) if mine and self._before else result


@pytest.mark.parametrize(
    ("call", "path", "before"),
    [
        ("staging", "", False),
        ("sink", "distcp", True),
        ("sink", "metadata", True),
        ("create", "step.*manifest", True),
        ("create", "step.*manifest", False),
    ],
)
def test_a_save_that_was_frozen_while_a_newer_run_went_on_is_refused_and_never_listed(
    where: str, train: Callable[..., Training], monkeypatch: pytest.MonkeyPatch, call: str, path: str, before: bool
) -> None:
    if call != "create" and not where.startswith("memory"):
        pytest.skip("they differ in what the commit is made of alone")
    frozen = _Frozen(monkeypatch, call, path, before)
    old = train(where, Told(1))
    assert old.save(10).committed

    def meanwhile() -> None:
        new = train(where, Told(2))
        # What was published before the newer claim was made counts, though its run has not heard so.
        assert new.restore() == (30 if not before and call == "create" else 10)
        assert new.save(40).committed

    frozen.then = meanwhile
    outcome = old.save(30)
    assert frozen.then is None
    counts = not before and call == "create"
    assert outcome.committed is counts, outcome
    expected = [10, 30, 40] if counts else [10, 40]
    assert _steps(where) == expected
    last = train(where, Told(3))
    assert last.restore() == 40
    assert last.save(50).committed
    there = {layout.step_of(name) for name in open_storage(where).names("")} - {None}
    assert sorted(there) == [*expected[-2:], 50], "nothing of what was refused is left"


def test_a_second_job_is_refused_while_the_first_lives_and_gets_in_when_it_was_killed(
    on_s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "tests.checkpoint.stored", on_s3, str(beats.INTERVAL)]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "saved\n"
        storage = open_storage(on_s3)
        with monkeypatch.context() as patient:
            patient.setattr(beats, "MISSED", 100)  # 30 s: who lives is seen at the next beat, however late that comes
            with pytest.raises(DirectoryInUseError, match=rf"job first generation 1 on host \(pid {first.pid}\)"):
                claim(storage, Told(1, "second").owner(), 0)
    finally:
        first.kill()
        first.communicate()
    second = Training(on_s3, Told(1, "second"))
    assert second.restore() == 10
    assert second.save(20).committed
    second.ckpt.close()


class _Requests:
    """What is asked of a file system, counted; at a number of them it goes wrong."""

    def __init__(self, fs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.fails: Callable[[int], bool] = lambda number: False
        self.done_before = False
        for name in ("ls", "find", "info", "cat_file", "cat_ranges", "pipe_file", "open", "rm_file", "rm"):
            monkeypatch.setattr(fs, name, self._counted(getattr(fs, name)))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **how: Any) -> Any:
            here = self.count
            self.count += threading.current_thread().name != "elaunch-claim"
            if self.fails(here) and threading.current_thread().name != "elaunch-claim":
                if self.done_before:
                    real(*args, **how)
                raise OSError(errno.EIO, "the store is in trouble")
            return real(*args, **how)

        return call


@pytest.mark.slow
@pytest.mark.parametrize("how", ["refused", "answer lost", "gone from then on"])
def test_whatever_request_of_a_save_goes_wrong_the_last_good_one_stays(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    number = 0
    while _save_in_trouble(buckets.url("memory", tmp_path, request), number, how, monkeypatch):
        number += 1
    assert number > 30


def _save_in_trouble(where: str, number: int, how: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether there was a request of that number."""
    old = Training(where, Told(1), keep_last=2)
    assert [old.save(step).committed for step in (10, 20)] == [True, True]
    with monkeypatch.context() as patch:
        requests = _Requests(fsspec.filesystem("memory"), patch)
        lasting = how == "gone from then on"
        requests.done_before = how == "answer lost"
        requests.fails = lambda at: at >= number if lasting else at == number
        outcome = old.save(30)
        reached = requests.count > number
    told = f"request {number} {how}: {outcome}, {old.told.events}"
    there = _steps(where)
    assert 20 in there, told
    assert not outcome.committed or 30 in there, told
    assert outcome.committed or lasting or 30 not in there, told
    assert old.told.events or outcome.committed, told
    if not lasting:  # the same run goes on
        assert old.save(40).committed, told
        assert old.restore() == 40, told
    new = Training(where, Told(2), keep_last=2)
    assert new.restore() == max(_steps(where)) >= (30 if outcome.committed else 20), told
    assert new.save(50).committed, told
    left = [name for name in open_storage(where).names("") if layout.step_of(name) is not None]
    assert sorted(left) == open_storage(where).checkpoints(), told
    new.ckpt.close()
    old.ckpt.close()
    return reached


def test_two_ranks_write_and_read_their_parts(on_s3: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.checkpoint.stored", on_s3]
    ranks = [
        subprocess.Popen([*command, str(rank), f"file://{tmp_path}/meeting"], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=250)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    (name,) = open_storage(on_s3).checkpoints()
    assert open_storage(on_s3).names(name) == [layout.METADATA, "__0_0.distcp", "__1_0.distcp", layout.MANIFEST]


def test_an_upload_that_breaks_off_leaves_no_object_and_no_parts(on_s3: str) -> None:
    fs = buckets.file_system()
    sink = open_storage(on_s3).sink("step-00000001.claim-1/__0_0.distcp")
    for _ in range(9):
        sink.write(bytes(4 << 20))
    key = on_s3.partition(f"{buckets.BUCKET}/")[2]
    assert _uploads(fs, key), "it was uploaded in parts, in the meantime"
    sink.close()
    del sink
    assert not _uploads(fs, key)
    assert open_storage(on_s3).names("") == []


def _uploads(fs: Any, key: str) -> list[str]:
    found = fs.call_s3("list_multipart_uploads", Bucket=buckets.BUCKET).get("Uploads", [])
    return [one["Key"] for one in found if one["Key"].startswith(key)]


def test_memory_of_an_upload_is_that_of_two_parts(on_s3: str) -> None:
    storage = open_storage(on_s3)
    sink = storage.sink("large")
    held = []
    for _ in range(12):
        sink.write(bytes(4 << 20))
        held.append(len(sink._file.buffer.getbuffer()))  # type: ignore[attr-defined]
    sink.finish()
    assert 20 << 20 <= max(held) <= 36 << 20
    assert storage.size("large") == 48 << 20


def test_one_request_brings_more_than_a_block(on_s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(on_s3)
    sink = storage.sink("large")
    sink.write(bytes(64 << 20))
    sink.finish()
    source = storage.source("large")
    fs = buckets.file_system()
    rounds: list[int] = []
    real = fs.cat_ranges
    monkeypatch.setattr(
        fs, "cat_ranges", lambda paths, *args, **how: rounds.append(len(paths)) or real(paths, *args, **how)
    )
    block = memoryview(bytearray(4 << 20))
    for start in range(0, 64 << 20, 4 << 20):
        source.read_into(start, block)
    assert rounds == [4, 4]


def test_who_reads_from_many_objects_in_turn_holds_few_windows() -> None:
    storage = open_storage("memory://many/run")
    for number in range(12):
        storage.write(f"{number}", bytes([number]) * (1 << 20))
    sources = [storage.source(f"{number}") for number in range(12)]
    for start in range(0, 1 << 20, 1 << 18):
        for number, source in enumerate(sources):
            got = bytearray(1 << 18)
            source.read_into(start, memoryview(got))
            assert bytes(got) == bytes([number]) * (1 << 18)
            assert sum(bool(one._window[1]) for one in sources) <= 8  # type: ignore[attr-defined]
    for source in sources:
        source.close()
    assert not storage._ahead  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"bucket": "no-such-bucket"}, "bucket does not exist"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no credentials"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "not reached"),
    ],
)
def test_what_is_wrong_with_a_bucket_is_one_line(on_s3: str, change: dict[str, str], sentence: str) -> None:
    url = on_s3.replace(buckets.BUCKET, change.pop("bucket", buckets.BUCKET))
    os.environ.update({**change, "AWS_MAX_ATTEMPTS": "1", "AWS_CONFIG_FILE": "/dev/null"})
    os.environ["AWS_SHARED_CREDENTIALS_FILE"] = "/dev/null"
    buckets.file_system().clear_instance_cache()
    with pytest.raises(CheckpointError) as caught:
        Checkpointer(url, {"x": {"y": 1}})
    buckets.file_system().clear_instance_cache()
    assert sentence in str(caught.value)
    assert url in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_store_that_cannot_create_only_where_there_is_none_is_refused(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(where)
    assert isinstance(storage, Objects)
    real = storage.fs.pipe_file
    monkeypatch.setattr(storage.fs, "pipe_file", lambda path, data, mode="": real(path, data))
    with pytest.raises(CheckpointError, match="no conditional writes"):
        Checkpointer(where, {"x": {"y": 1}})


def test_a_directory_is_free_as_soon_as_its_run_has_ended(where: str) -> None:
    Checkpointer(where, {"x": {"y": 1}}).close()
    asked = []
    storage = open_storage(where)
    assert isinstance(storage, Objects)
    storage.interval = 1e6  # else this would wait for it
    asked.append(storage.held(f"{layout.CLAIMS}/{layout.claim_name(1)}"))
    assert asked == [False]
