"""What a job has gone back from, or failed from, is restored only where there is nothing else."""

from __future__ import annotations

import pytest

from elaunch.checkpoint.collective.restoring import Wish

pytestmark = [pytest.mark.torch]


@pytest.mark.parametrize(
    ("step", "generation", "passed"),
    [
        (60, 8, True),  # a suspect
        (50, 6, True),  # generation 7 went back from it
        (50, 0, True),  # so it is with what another job wrote
        (50, 7, False),  # made since
        (40, 6, False),  # what it went back to
        (30, 6, False),
    ],
)
def test_what_is_passed_over(step: int, generation: int, passed: bool) -> None:
    wish = Wish(avoid=frozenset({60}), rewinds=((7, 40),))
    assert wish.passes_over(step, generation) is passed
