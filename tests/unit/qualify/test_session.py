"""What a qualification makes on disk: nothing that was there before and is not its own is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elaunch.qualify import faulting
from elaunch.qualify.matrix import cells
from elaunch.qualify.report import read
from elaunch.qualify.running import Runner, Where
from elaunch.qualify.session import Asked, OutputError, Session


def session(output: Path) -> Session:
    """Of a cell that is not run without a laboratory: no job is started."""
    asked = Asked("quick", Where(1), output, ("rails/slow-rail",))
    return Session(asked, {}, lambda _: None, lambda _: None)


def test_logs_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "logs" / "training.log"
    theirs.parent.mkdir()
    theirs.write_text("precious")
    with pytest.raises(OutputError, match="its logs/ is not of a qualification"):
        session(tmp_path).run()
    assert theirs.read_text() == "precious"


def test_logs_of_a_qualification_give_way_to_those_of_the_next(tmp_path: Path) -> None:
    session(tmp_path).run()
    (tmp_path / "logs" / "faults.log").touch()
    session(tmp_path).run()
    assert not list((tmp_path / "logs").iterdir())
    assert read((tmp_path / "report.json").read_text()).partial == ""


def test_checkpoints_in_a_shared_directory_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training of the user's may have its own where ours go."""
    theirs = tmp_path / "checkpoints" / "step-1"
    theirs.mkdir(parents=True)
    made: list[Path] = []

    def results(_: Runner, __: Any, ___: str, folder: Path, ____: Any) -> list[Any]:
        made.append(folder)
        (folder / "step-00000001").mkdir()
        return []

    monkeypatch.setattr(faulting, "_results", results)
    runner = Runner(Where(1), tmp_path, "1234")
    some = [cell for cell in cells("quick") if cell.name == "faults/kill/save"]
    assert list(faulting.run(runner, some, "", tmp_path, lambda _: None)) == []
    assert made[0].parent == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints"]
    assert theirs.is_dir()
