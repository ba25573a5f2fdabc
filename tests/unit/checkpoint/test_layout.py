"""The names in a checkpoint directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.checkpoint.storages import layout

_COUNTS = st.integers(0, 10**17)


@given(_COUNTS, _COUNTS, _COUNTS)
def test_a_name_tells_what_it_was_made_of(step: int, generation: int, claim: int) -> None:
    assert layout.step_of(layout.step_name(step)) == step
    assert layout.step_of(layout.step_name(step, claim)) == step
    assert layout.staged_of(layout.staging_name(step, generation, claim)) == layout.Staged(step, generation, claim)
    assert layout.claim_of(layout.claim_name(claim)) == claim


@given(st.text(max_size=40))
def test_no_other_name_is_taken_for_ours(name: str) -> None:
    if (step := layout.step_of(name)) is not None:
        assert name.startswith(layout.step_name(step))
    if (claim := layout.claim_of(name)) is not None:
        assert layout.claim_name(claim) == name or name.startswith("0")


def test_a_save_in_progress_is_no_checkpoint() -> None:
    assert layout.step_of(layout.staging_name(7, 3, 2)) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\0b", "/etc/passwd", "x" * 129])
def test_a_file_name_that_leaves_its_checkpoint_is_refused(name: str) -> None:
    assert not layout.is_plain(name)


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata", "manifest.json", "__10_3.distcp"])
def test_the_names_of_dcp_are_taken(name: str) -> None:
    assert layout.is_plain(name)
