"""Damage that one rank meets sends all ranks back to the older checkpoint, with a reason that names the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.crews import Crew

pytestmark = [pytest.mark.slow, pytest.mark.torch]
PROGRAM = "tests.programs.checkpoint_foreign"
NEW, OLD = "step-00000002", "step-00000001"
FIRST, SECOND = "__0_0.distcp", "__1_0.distcp"


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew() as made:
        yield made


@pytest.fixture(scope="module")
def saved(crew: Crew, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "saved"
    crew.do(f"{PROGRAM}:save_two", 2, {"path": str(path)})
    return path


def turn(name: str, place: int) -> Callable[[Path], None]:
    def damage(at: Path) -> None:
        data = bytearray((at / NEW / name).read_bytes())
        data[place] ^= 1
        (at / NEW / name).write_bytes(data)

    return damage


def swap(at: Path) -> None:
    for one, other in ((FIRST, "x"), (SECOND, FIRST), ("x", SECOND)):
        (at / NEW / one).rename(at / NEW / other)


# What is done, and which file is to be named.
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit of the first rank's": (turn(FIRST, 3000), FIRST),
    "a bit of the second rank's": (turn(SECOND, 3000), SECOND),
    "a bit of the metadata": (turn(".metadata", 100), ".metadata"),
    "a bit of the manifest": (turn("manifest.json", 100), "manifest.json"),
    "a file that is missing": (lambda at: (at / NEW / SECOND).unlink(), SECOND),
    "a file that is empty": (lambda at: (at / NEW / SECOND).write_bytes(b""), SECOND),
    "files of two ranks, swapped": (swap, ".distcp"),
    "a file of another step": (lambda at: shutil.copy(at / OLD / SECOND, at / NEW / SECOND), SECOND),
}


@pytest.mark.parametrize("verify", ["full", "fast"])
@pytest.mark.parametrize("what", list(DAMAGE))
def test_all_ranks_fall_back(crew: Crew, saved: Path, tmp_path: Path, what: str, verify: str) -> None:
    damage, named = DAMAGE[what]
    path = tmp_path / "copy"
    shutil.copytree(saved, path)
    damage(path)
    told = crew.do(f"{PROGRAM}:restore", 2, {"path": str(path), "verify": verify})
    assert [one[:3] for one in told] == [[1, "", True]] * 2
    assert f"{NEW}/" in told[0][3][0]
    assert named in told[0][3][0]
    assert named in json.loads((path / ".elaunch" / "marks" / f"{NEW}.json").read_text())["reason"]
    again = crew.do(f"{PROGRAM}:restore", 2, {"path": str(path), "verify": verify})
    assert [one[:3] for one in again] == [[1, "", True]] * 2


def test_no_rank_goes_on_where_none_is_good(crew: Crew, saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(saved, path)
    (path / OLD / SECOND).write_bytes(b"")
    turn(SECOND, 3000)(path)
    for _ in range(2):
        told = crew.do(f"{PROGRAM}:restore", 2, {"path": str(path), "verify": "full"})
        assert [one[0] for one in told] == [-1, -1]
        assert all(f"{name}/{SECOND}" in one[1] for one in told for name in (OLD, NEW))
