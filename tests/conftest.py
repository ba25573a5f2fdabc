"""For all tests: what one does to the environment, the next does not see."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _same_environment() -> Iterator[None]:
    """The torchrun plug-in, for one, sets variables of its process for the workers that will inherit them."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
