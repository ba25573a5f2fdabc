"""Who may take the Lease, and what its holder writes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from typing import cast

import pytest

from elaunch.clock import SystemClock
from elaunch.kubernetes import electing
from elaunch.kubernetes.cluster import Cluster
from elaunch.kubernetes.electing import DURATION, GIVE_UP, Sighting, free, held_by
from elaunch.rendezvous.waiting import within

AT = datetime(2026, 11, 30, 12, 0, 0, 5, timezone.utc)


def lease(holder: str) -> dict[str, object]:
    return held_by(None, "elaunch-operator", holder, AT)


def test_a_lease_is_its_holders_until_it_has_not_changed_for_so_long() -> None:
    seen = Sighting("7", 100.0)
    assert free(lease("a"), seen, "a", 100.0)
    assert not free(lease("a"), seen, "b", 100.0 + DURATION - 0.1)
    assert free(lease("a"), seen, "b", 100.0 + DURATION)
    assert free(lease(""), seen, "b", 100.0)


def test_its_holder_stops_before_another_can_have_it() -> None:
    assert GIVE_UP < DURATION


def test_a_new_holder_counts_as_a_transition_and_a_renewal_does_not() -> None:
    first = {**lease("a"), "metadata": {"name": "elaunch-operator", "resourceVersion": "9"}}
    later = datetime(2026, 11, 30, 12, 1, 0, 0, timezone.utc)
    renewed = held_by(first, "elaunch-operator", "a", later)
    taken = held_by(first, "elaunch-operator", "b", later)
    assert renewed["metadata"]["resourceVersion"] == "9"  # the server refuses it where another was quicker
    assert (renewed["spec"]["leaseTransitions"], taken["spec"]["leaseTransitions"]) == (1, 2)
    assert renewed["spec"]["acquireTime"] == "2026-11-30T12:00:00.000005Z"
    assert taken["spec"]["acquireTime"] == taken["spec"]["renewTime"] == "2026-11-30T12:01:00.000000Z"


class Silent:
    """A server that takes requests and never answers, once it has let somebody have the Lease."""

    def __init__(self) -> None:
        self.asked = 0

    async def get(self, *_: str) -> None:
        self.asked += 1
        if self.asked > 1:
            await asyncio.Event().wait()

    async def create(self, *_: object) -> bool:
        return True


def test_a_holder_whom_the_server_keeps_waiting_stops_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(electing, "RENEW", 0.01)
    monkeypatch.setattr(electing, "GIVE_UP", 0.2)
    monkeypatch.setattr(electing, "FAREWELL", 0.05)

    async def run() -> None:
        candidate = electing.Candidate(cast(Cluster, Silent()), "system", "elaunch-operator", "a", SystemClock())
        await candidate.win()
        await within(10.0, candidate.hold())
        await within(10.0, candidate.resign())

    asyncio.run(run())
