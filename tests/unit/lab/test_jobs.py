"""A job that is watched before it, or its etcd, is there."""

from __future__ import annotations

import asyncio

import pytest

from elaunch.errors import EtcdLostError, NoSuchJobError, UnansweredError
from elaunch.lab import Watched

NOBODY = "127.0.0.1:1"


def test_what_is_not_there_yet_is_waited_for() -> None:
    answers: list[Exception | str] = [EtcdLostError("lost"), NoSuchJobError("none"), "there"]

    def asked(job: Watched) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with Watched("job", [NOBODY]) as job:
        assert job.until("it", asked, 30.0) == "there"


def test_an_etcd_that_is_never_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise EtcdLostError("etcd at nowhere did not answer")

    with Watched("job", [NOBODY]) as job:
        monkeypatch.setattr(job, "events", lost)
        with pytest.raises(TimeoutError, match="job: waited 0 s for it\netcd at nowhere did not answer"):
            job.until("it", lost, 0.0)


def test_nothing_goes_on_after_the_end() -> None:
    job = Watched("job", [NOBODY])
    left = asyncio.run_coroutine_threadsafe(asyncio.sleep(3600), job._loop)
    job.close()
    assert left.cancelled()
    with pytest.raises(UnansweredError, match="job: the connection is closed"):
        job.look()
