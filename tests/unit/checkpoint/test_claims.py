"""The fence of a directory: who may write, and who no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elaunch.checkpoint.records import manifest
from elaunch.checkpoint.records.claims import Claim, Owner, claim
from elaunch.checkpoint.records.manifest import Manifest, Origin
from elaunch.checkpoint.storages import layout, locks
from elaunch.checkpoint.storages.posix import Posix
from elaunch.errors import CheckpointError, DirectoryInUseError, FencedError

_HOLDER = """
import sys
from pathlib import Path
from elaunch.checkpoint.records.claims import Owner, claim
from elaunch.checkpoint.storages.posix import Posix
owner = Owner(sys.argv[2], sys.argv[3], int(sys.argv[4]), "other-host", 42, 0.0)
held = claim(Posix(Path(sys.argv[1])), owner, 0)
print(held.number, flush=True)
sys.stdin.read()
"""


def _owner(job: str = "job", generation: int = 1, incarnation: str = "i") -> Owner:
    return Owner(job, incarnation, generation, "host", os.getpid(), 0.0)


class _Holder:
    """Another process that holds a claim."""

    def __init__(self, root: Path, job: str = "job", generation: int = 1, incarnation: str = "i") -> None:
        command = [sys.executable, "-c", _HOLDER, str(root), job, incarnation, str(generation)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.number = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def holders(tmp_path: Path) -> object:
    made: list[_Holder] = []

    def make(**who: object) -> _Holder:
        made.append(_Holder(tmp_path, **who))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.kill()


def test_a_directory_of_a_job_that_lives_is_refused_with_its_name(tmp_path: Path, holders: object) -> None:
    holders(job="first")  # type: ignore[operator]
    with pytest.raises(DirectoryInUseError, match=r"job first generation 1 on other-host \(pid 42\)"):
        claim(Posix(tmp_path), _owner("second"), 0)


def test_a_program_without_a_job_is_refused_as_well(tmp_path: Path, holders: object) -> None:
    holders(job="", generation=0, incarnation="")  # type: ignore[operator]
    with pytest.raises(DirectoryInUseError):
        claim(Posix(tmp_path), _owner("", 0, ""), 0)


def test_a_directory_of_a_process_that_was_killed_is_free(tmp_path: Path, holders: object) -> None:
    holders(job="first").kill()  # type: ignore[operator]
    held = claim(Posix(tmp_path), _owner("second"), 0)
    held.check()
    held.release()


def test_an_owner_that_is_ending_is_waited_for(tmp_path: Path, holders: object) -> None:
    holder = holders(job="first")  # type: ignore[operator]
    held = claim(Posix(tmp_path), _owner("second"), 30, sleep=lambda _: holder.kill())
    held.release()


def test_a_later_generation_takes_over_from_one_that_is_frozen(tmp_path: Path) -> None:
    storage = Posix(tmp_path)
    old = claim(storage, _owner(generation=1), 0)
    staging = storage.staging(5, 1, old.number)
    storage.make(staging)
    new = claim(storage, _owner(generation=2), 0)
    with pytest.raises(FencedError, match="job job generation 2"):
        old.check()
    with pytest.raises(FileNotFoundError):
        storage.publish(staging, layout.step_name(5), b"m")
    new.check()
    assert storage.names("") == [layout.PRIVATE]


def test_an_older_generation_cannot_come_after_a_later_one_though_that_has_ended(
    tmp_path: Path, holders: object
) -> None:
    holders(generation=3).kill()  # type: ignore[operator]
    with pytest.raises(FencedError):
        claim(Posix(tmp_path), _owner(generation=2), 0)


def test_a_job_of_the_same_name_that_is_begun_anew_may(tmp_path: Path, holders: object) -> None:
    holders(generation=3, incarnation="last week").kill()  # type: ignore[operator]
    claim(Posix(tmp_path), _owner(generation=1), 0).release()


def test_what_a_later_run_is_writing_is_not_swept(tmp_path: Path) -> None:
    storage = Posix(tmp_path)
    first = claim(storage, _owner(generation=1), 0)
    storage.make(storage.staging(9, 2, first.number + 1))
    second = claim(storage, _owner(generation=2), 0)
    assert second.number == first.number + 1
    assert storage.names(layout.STAGING) == [layout.staging_name(9, 2, second.number)]


def test_a_claim_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / layout.CLAIMS).mkdir(parents=True)
    (tmp_path / layout.CLAIMS / layout.claim_name(4)).write_text("{}")
    with pytest.raises(CheckpointError, match=r"00000004\.json: not a claim"):
        claim(Posix(tmp_path), _owner(), 0)


def test_a_child_that_was_forked_does_not_keep_the_claim(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from elaunch.checkpoint.records.claims import Owner, claim
from elaunch.checkpoint.storages.posix import Posix
held = claim(Posix(Path(sys.argv[1])), Owner("first", "i", 1, "host", 42, 0.0), 0)
if os.fork() == 0:
    print("up", flush=True)
    sys.stdin.read()
else:
    os.kill(os.getpid(), 9)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.wait()
        claim(Posix(tmp_path), _owner("second"), 5).release()


def test_onlookers_do_not_take_each_other_for_the_owner(tmp_path: Path) -> None:
    storage = Posix(tmp_path)
    claim(storage, _owner("first"), 0).release()
    path = f"{layout.CLAIMS}/{layout.claim_name(1)}"
    looking = locks.shared(tmp_path / path)
    assert looking is not None
    assert not storage.held(path)
    claim(storage, _owner("second"), 0).release()
    looking.release()


def test_a_reader_keeps_a_checkpoint_from_being_removed(tmp_path: Path) -> None:
    storage = Posix(tmp_path)
    held = claim(storage, _owner(), 0)
    name = _committed(storage, held, 5)
    reading = storage.reading(f"{name}/{layout.MANIFEST}")
    assert not storage.retire(name, held.retired())
    assert storage.checkpoints() == [name]
    reading.release()
    assert storage.retire(name, held.retired())
    assert storage.checkpoints() == []
    assert storage.retire(name, held.retired())
    with pytest.raises(FileNotFoundError):
        storage.reading(f"{name}/{layout.MANIFEST}")


def test_a_run_that_is_fenced_removes_no_checkpoint(tmp_path: Path) -> None:
    storage = Posix(tmp_path)
    old = claim(storage, _owner(generation=1), 0)
    name = _committed(storage, old, 5)
    retired = old.retired()
    claim(storage, _owner(generation=2), 0)
    with pytest.raises(FileNotFoundError):
        storage.retire(name, retired)
    with pytest.raises(FencedError):
        old.retired()
    assert storage.checkpoints() == [name]


def test_claims_that_were_lost_are_counted_on_from_the_checkpoints(tmp_path: Path) -> None:
    storage = Posix(tmp_path)
    for generation in (1, 2, 3):
        held = claim(storage, _owner(generation=generation), 0)
    _committed(storage, held, 5)
    shutil.rmtree(tmp_path / layout.PRIVATE)
    assert claim(Posix(tmp_path), _owner("second"), 0).number == 4


def test_what_a_killed_claimer_left_is_swept(tmp_path: Path) -> None:
    storage = Posix(tmp_path)
    storage.make(layout.CLAIMS)
    left = [tmp_path / layout.CLAIMS / layout.temporary_name("00000001.json"), tmp_path / layout.PRIVATE / "mine.json"]
    for path in left:
        path.write_text("{")
    claim(storage, _owner(), 0)
    assert [path.exists() for path in left] == [False, True]


def test_a_claim_whose_file_is_swept_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Posix(tmp_path)
    real, swept = os.link, []

    def link(source: Path, target: Path) -> None:
        if not swept:
            swept.append(source)
            os.unlink(source)
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    assert claim(storage, _owner(), 0).number == 1
    assert len(swept) == 1


def test_a_claim_that_comes_late_to_a_number_that_is_free_again_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Posix(tmp_path)
    real, once = os.link, [True]

    def link(source: Path, target: Path) -> None:
        if once:
            once.clear()
            for generation in (2, 3):
                claim(Posix(tmp_path), _owner(generation=generation), 0)
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(FencedError, match="generation 3"):
        claim(storage, _owner(generation=1), 0)
    assert storage.names(layout.CLAIMS) == [layout.claim_name(2)]


def test_a_claim_that_is_gone_is_made_anew_by_the_next_save_but_one(tmp_path: Path) -> None:
    storage = Posix(tmp_path)
    held = claim(storage, _owner(), 0)
    shutil.rmtree(tmp_path)
    with pytest.raises(CheckpointError, match="was the directory removed"):
        held.prepare()
    held.prepare()
    held.check()
    assert storage.held(f"{layout.CLAIMS}/{layout.claim_name(held.number)}")


def test_a_directory_that_another_job_has_begun_anew_is_not_taken_back(tmp_path: Path) -> None:
    held = claim(Posix(tmp_path), _owner("first"), 0)
    shutil.rmtree(tmp_path)
    other = claim(Posix(tmp_path), _owner("second"), 0)
    with pytest.raises(CheckpointError, match="its file system unmounted"):
        held.prepare()
    with pytest.raises(DirectoryInUseError):
        held.prepare()
    other.check()


def _committed(storage: Posix, held: Claim, step: int) -> str:
    staging = storage.staging(step, 1, held.number)
    storage.make(staging)
    known = Manifest(step, 1, Origin(claim=held.number), {}, {})
    return storage.publish(staging, layout.step_name(step), manifest.encode(known))
