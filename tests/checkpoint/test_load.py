"""Loading from a directory that another program wrote: what fits is loaded, and what is wrong is said in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

from elaunch.checkpoint import Checkpointer
from elaunch.errors import CheckpointError, DamagedCheckpointError, StateError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning"),
]
DATA = "__0_0.distcp"


class Unknown:
    """Of a class that nobody but the program knows."""


def load(path: Path, objects: dict[str, Any], **options: bool) -> dict[str, Any]:
    with Checkpointer(path.parent / "ours", objects) as checkpointer:
        checkpointer.load(path, **options)
    return objects


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    dcp.save({"w": torch.arange(5.0), "more": {"n": 1, "s": "text"}}, checkpoint_id=tmp_path / "stock", no_dist=True)
    return tmp_path / "stock"


def test_all_of_it(stock: Path) -> None:
    got = load(stock, {"w": torch.zeros(5), "more": {"n": 0, "kept": 1}})
    assert got["w"].tolist() == [0, 1, 2, 3, 4]
    assert got["more"] == {"n": 1, "s": "text", "kept": 1}


def test_a_part_of_it(stock: Path) -> None:
    got = load(stock, {"w": torch.zeros(5), "new": {"n": 0}}, partial=True)
    assert (got["w"].tolist(), got["new"]) == ([0, 1, 2, 3, 4], {"n": 0})
    with pytest.raises(StateError, match="holds no state 'new'"):
        load(stock, {"w": torch.zeros(5), "new": {"n": 0}})


def test_one_of_our_own(stock: Path, tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "other", {"w": torch.ones(5)}) as checkpointer:
        checkpointer.save(3)
    assert load(tmp_path / "other" / "step-00000003", {"w": torch.zeros(5)})["w"].tolist() == [1] * 5
    data = bytearray((tmp_path / "other" / "step-00000003" / DATA).read_bytes())
    data[-100] ^= 1
    (tmp_path / "other" / "step-00000003" / DATA).write_bytes(data)
    with pytest.raises(DamagedCheckpointError, match=f"step-00000003/{DATA}: damaged between bytes"):
        load(tmp_path / "other" / "step-00000003", {"w": torch.zeros(5)})


def test_another_shape(stock: Path) -> None:
    with pytest.raises(CheckpointError, match="shape"):
        load(stock, {"w": torch.zeros(6)}, partial=True)


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "file"):
        with pytest.raises(CheckpointError, match=r"(no \.metadata|Not a directory)"):
            load(tmp_path / path, {"w": torch.zeros(5)})


def test_one_that_is_cut_off(stock: Path) -> None:
    data = (stock / DATA).read_bytes()
    for place in (0, 1, len(data) // 2, len(data) - 1):
        (stock / DATA).write_bytes(data[:place])
        with pytest.raises(DamagedCheckpointError, match="stock/"):
            load(stock, {"w": torch.zeros(5), "more": {}})
    (stock / DATA).unlink()
    with pytest.raises(DamagedCheckpointError, match="which is not there"):
        load(stock, {"w": torch.zeros(5), "more": {}})


def test_an_object_of_an_unknown_class(tmp_path: Path) -> None:
    dcp.save({"more": {"it": Unknown()}}, checkpoint_id=tmp_path / "stock", no_dist=True)
    with pytest.raises(CheckpointError, match=r"more\.it: .*Unknown has no place in a checkpoint"):
        load(tmp_path / "stock", {"more": {"it": None}})


def test_an_object_that_does_not_take_its_state(stock: Path) -> None:
    class Picky:
        def state_dict(self) -> dict[str, Any]:
            return {"n": 0, "s": ""}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            raise IndexError("17")

    with pytest.raises(CheckpointError, match=r"does not take its state \(IndexError: 17\)") as caught:
        load(stock, {"more": Picky()}, partial=True)
    assert isinstance(caught.value.__cause__, IndexError)
