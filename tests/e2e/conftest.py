"""Fixtures of the end-to-end tests: jobs that leave nothing behind, and an etcd for those that bring their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Job
from tests.etcd.servers import Member, start_single

MakeJob = Callable[..., Job]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[MakeJob]:
    """Makes jobs; at the end of the test every process of theirs must be gone by itself."""
    jobs: list[Job] = []

    def make(*options: str, **fields: object) -> Job:
        made = Job(tmp_path / f"job{len(jobs)}", list(options), **fields)  # type: ignore[arg-type]
        made.env.setdefault("XDG_STATE_HOME", str(tmp_path / "state"))
        made.env.setdefault("TMPDIR", str(tmp_path))
        jobs.append(made)
        return made

    yield make
    running = [a for j in jobs for a in j.agents if a.process.poll() is None]
    output = "\n".join(j.outputs() for j in jobs)
    left = [line for j in jobs for line in j.close()]
    assert not running, f"agents still ran at the end of the test: {[a.pid for a in running]}\n{output}"
    assert not left, f"left running: {left}\n{output}"


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of an etcd that outlives every job; a test uses a job id of its own."""
    member = start_single(tmp_path_factory.mktemp("etcd"))
    yield member.endpoint
    member.kill()


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Member]:
    """An etcd for one test, which may do with it what it likes."""
    member = start_single(tmp_path)
    yield member
    member.kill()
