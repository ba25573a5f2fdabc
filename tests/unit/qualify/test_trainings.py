"""The cells of trainings find what they claim to look for; in a group of one rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elaunch.qualify.collectives import OPS

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Any]:
    dist = pytest.importorskip("torch.distributed")
    import torch

    from elaunch.qualify.programs.place import Place

    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield Place(0, 1, torch.device("cpu"), store)
    dist.destroy_process_group()


def test_gradients_that_are_reduced_in_no_sync_are_found(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come out the same in the end: they are counted."""
    from torch.nn.parallel import DistributedDataParallel

    from elaunch.qualify.programs.training import CELLS

    assert "reduced once each" in str(CELLS["ddp/no_sync"](place))
    monkeypatch.setattr(DistributedDataParallel, "no_sync", lambda _: nullcontext())
    with pytest.raises(AssertionError, match="step 0: gradients are reduced in no_sync"):
        CELLS["ddp/no_sync"](place)


def test_a_falsified_measurement_is_found(place: Any) -> None:
    from elaunch.qualify.programs.measuring import CELLS

    assert "one bucket" in str(CELLS["steps/exposed"](place))
    with pytest.raises(AssertionError, match="a step takes 0 s"):
        CELLS["steps/exposed"](replace(place, spoiled=True))


@pytest.mark.parametrize("op", OPS)
def test_each_rank_knows_what_must_stand_there(op: str, place: Any) -> None:
    """Of three ranks, against what is plain: all that the others put in, side by side."""
    import torch

    from elaunch.qualify.programs.collectives import element, prepared

    world, count = 3, 12
    for rank in range(world):
        here = replace(place, rank=rank, world=world)
        every = torch.stack([element(here, other, count, torch.uint8) for other in range(world)])
        mine = slice(rank * 4, rank * 4 + 4)
        wanted = {
            "all-reduce": every.sum(0),
            "all-gather": torch.cat([every[other][other * 4 : other * 4 + 4] for other in range(world)]),
            "reduce-scatter": every.sum(0)[mine],
            "broadcast": every[-1],
            "all-to-all": every[:, mine].reshape(-1),
            "send-recv": every[rank - 1],
        }
        assert prepared(op, count, torch.uint8, here)[2].tolist() == wanted[op].tolist()
