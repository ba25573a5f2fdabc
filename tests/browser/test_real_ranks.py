"""4,096 ranks as the real server tells of them, from a leader that believes to have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.leading import JOB, SLOTS, Leading

pytestmark = pytest.mark.slow


@pytest.fixture
def leading() -> Iterator[Leading]:
    leads = Leading(4096 // SLOTS)
    yield leads
    leads.stop()


def test_thousands_of_ranks_are_shown_and_followed(leading: Leading, tabs: Tabs) -> None:
    page = tabs.open(f"{leading.url}#/job/{JOB}")
    expect(page.get_by_role("application")).to_have_accessible_name("4096 ranks. 4096 running")
    expect(page.locator(".panel")).to_contain_text("Rank 0 running")
    page.get_by_role("radio", name="step lag").check()
    leading.beat(40, behind=7)
    legend = page.get_by_role("list", name="What the cells mean")
    expect(legend).to_have_text("4095 0 steps behind1 5 to 19 behind")
    expect(page.locator(".panel")).to_contain_text("Step33Lag7 steps")
    expect(page.locator(".facts")).to_contain_text("512 nodes of 512:512")
