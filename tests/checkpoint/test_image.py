"""The memory that a save is copied into."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from elaunch.checkpoint.collective import planning
from elaunch.checkpoint.encoding.image import Image

pytestmark = [pytest.mark.torch]


class Elsewhere(torch.Tensor):
    """A tensor that says that it is on a second accelerator."""

    device = torch.device("cuda", 1)  # type: ignore[assignment]


def described(**state: Any) -> tuple[Image, Any]:
    mine = planning.describe(state)
    return Image(mine.plan()), mine.planner()


def test_a_forked_child_holds_none_of_it() -> None:
    image, planner = described(w=torch.full((1000,), 7, dtype=torch.uint8))
    image.fill(planner)
    seen, tell = os.pipe()
    child = os.fork()
    if child == 0:
        held = bytes(image.parts()[0])
        image.close()
        os.write(tell, b"empty" if not any(held) else b"full")
        os._exit(0)
    os.close(tell)
    with open(seen, "rb") as answer:
        assert answer.read() == b"empty"
    os.waitpid(child, 0)
    assert bytes(image.parts()[0]).count(7) >= 1000


def test_every_device_that_was_copied_from_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device=None: waited.append(torch.device(device)))
    image, planner = described(a=torch.ones(3).as_subclass(Elsewhere), b=torch.ones(2))
    image.fill(planner)
    assert waited == [torch.device("cuda", 1)]
