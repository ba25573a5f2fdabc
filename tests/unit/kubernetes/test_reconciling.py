"""What a loop does when a command cannot be given."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from elaunch.errors import CommandRefusedError, ElaunchError, EtcdLostError
from elaunch.kubernetes import reconciling
from elaunch.kubernetes.actions import Decision, Scale
from elaunch.kubernetes.cluster import Cluster
from elaunch.kubernetes.memory import Memory
from elaunch.kubernetes.observed import Observed, Pod
from elaunch.kubernetes.reconciling import Reconciler
from tests.unit.kubernetes.makers import job

MEMBER = Pod("job-etcd-0", "u", "etcd", address="127.0.0.1")


@pytest.mark.parametrize(("error", "told"), [(EtcdLostError("gone"), ""), (CommandRefusedError("torchrun's"), "torch")])
def test_a_scale_that_cannot_be_given_is_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, error: ElaunchError, told: str
) -> None:
    calls: list[Any] = []

    async def scale(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise error

    async def rounds() -> None:
        loop = Reconciler(cast(Cluster, None), "team", "job")
        monkeypatch.setattr(reconciling, "scale", scale)
        await loop._way_of(job())
        assert loop._way is not None
        seen, decision = Observed(members=(MEMBER,)), Decision(Memory(), {}, (Scale(1, 2, 1),))
        try:
            for _ in range(3):
                await loop._act(job(), seen, decision)
            assert (len(calls), told in loop._trouble) == (1, True)
            assert bool(loop._trouble) is bool(told)
            loop._scale_from = 0.0  # the pause is over
            await loop._act(job(), seen, decision)
            assert (len(calls), loop._trouble) == (2, "")
        finally:
            await loop._way.close()

    asyncio.run(rounds())
