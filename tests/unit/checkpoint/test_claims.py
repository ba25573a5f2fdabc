"""The fence of a directory: who may write, and who no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elaunch.checkpoint import layout
from elaunch.checkpoint.claims import Owner, claim
from elaunch.checkpoint.posix import Posix
from elaunch.errors import CheckpointError, DirectoryInUseError, FencedError

_HOLDER = """
import sys
from pathlib import Path
from elaunch.checkpoint.claims import Owner, claim
from elaunch.checkpoint.posix import Posix
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
