"""Tests that need root and network namespaces; elsewhere they are left out, and say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.network import Network, impossible

WHY_NOT = impossible()


@pytest.fixture(scope="module")
def three() -> Iterator[Network]:
    """Three hosts with two rails. A test leaves them as it has found them."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    with Network(3) as made:
        yield made
