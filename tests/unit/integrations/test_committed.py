"""Which of a library's checkpoints are gone on from: whole ones, by the plan's word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elaunch.integrations import committed
from elaunch.worker.ledger import RestorePoint


def write(folder: Path, step: int, generation: int = 0, *, whole: bool = True) -> Path:
    path = folder / f"checkpoint-{step}"
    (path / "parts").mkdir(parents=True)
    (path / "parts" / "model.safetensors").write_bytes(b"m" * step)
    (path / "trainer_state.json").write_text("{}")
    if whole:
        committed.commit(path, step, 0.1)
        mark = json.loads((path / committed.MARK).read_text())
        (path / committed.MARK).write_text(json.dumps({**mark, "generation": generation}))
    return path


def step_of(folder: Path, **point: object) -> int | None:
    found = committed.newest(folder, RestorePoint(**point))  # type: ignore[arg-type]
    return found.step if found is not None else None


def test_the_newest_that_is_whole(tmp_path: Path) -> None:
    assert step_of(tmp_path / "nowhere") is None
    write(tmp_path, 9)
    write(tmp_path, 10)
    write(tmp_path, 11, whole=False)
    (tmp_path / "checkpoint-12").symlink_to(tmp_path / "checkpoint-10")
    (tmp_path / "checkpoint-x").mkdir()
    (tmp_path / "checkpoint-13").mkdir()
    (tmp_path / "checkpoint-13" / committed.MARK).write_text('{"step": ')
    assert step_of(tmp_path) == 10
    committed.unmark(tmp_path / "checkpoint-10")
    assert step_of(tmp_path) == 9


def test_what_the_plan_says(tmp_path: Path) -> None:
    for step, generation in ((10, 1), (20, 1), (30, 2), (40, 3)):
        write(tmp_path, step, generation)
    assert step_of(tmp_path, step=20) == 20
    assert step_of(tmp_path, avoid=(40,)) == 30
    assert step_of(tmp_path, avoid=(10, 20, 30, 40)) == 40, "better a suspect one than none"
    assert step_of(tmp_path, rewinds=((3, 10),)) == 40, "of the generation that went back, or later"
    assert step_of(tmp_path, rewinds=((4, 10),)) == 10
    with pytest.raises(FileNotFoundError, match="no whole checkpoint of step 25"):
        step_of(tmp_path, step=25)


def test_a_mark_tells_of_the_files(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a", 7), write(tmp_path / "b", 7)
    marks = [json.loads((path / committed.MARK).read_text()) for path in (one, two)]
    assert marks[0]["digest"] == marks[1]["digest"]
    (two / "parts" / "model.safetensors").write_bytes(b"longer than it was")
    committed.commit(two, 7, 0.1)
    assert json.loads((two / committed.MARK).read_text())["digest"] != marks[0]["digest"]
