"""One etcd member of three killed, whichever it is: no rank notices while a job runs, and a job that forms forms."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator

import pytest

from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from tests.e2e.conftest import MakeJob
from tests.e2e.controllers import Loop
from tests.e2e.harness import Job, wait_until
from tests.e2e.test_leaders import COUNTING, check_undisturbed
from tests.etcd.servers import Cluster, Member, etcdctl, make_certificates

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("trio")
    made = Cluster(folder, make_certificates(folder))
    try:
        made.start()
        yield made
    finally:
        made.kill()


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def options(trio: Cluster, name: str, nodes: int) -> list[str]:
    files = trio.certificates
    return [
        f"--nnodes={nodes}", "--rdzv-backend=etcd", f"--rdzv-endpoint={','.join(trio.endpoints)}", f"--rdzv-id={name}",
        f"--rdzv-conf=cacert={files.ca},cert={files.cert},key={files.key}", "--max-restarts=3", "--start=exec",
    ]  # fmt: skip


def statuses(trio: Cluster) -> list[dict]:  # type: ignore[type-arg]
    """What each member that answers says of itself."""
    files = trio.certificates
    found = []
    for member in trio.members:
        if member.process is None:
            continue
        argv = [str(etcdctl()), "--endpoints", member.endpoint, "--cacert", str(files.ca), "--cert", str(files.cert)]
        argv += ["--key", str(files.key), "endpoint", "status", "--write-out=json", "--command-timeout=2s"]
        done = subprocess.run(argv, capture_output=True, timeout=30, check=False, env={"ETCDCTL_API": "3"})
        found += json.loads(done.stdout) if done.returncode == 0 else []
    return found


def leader(trio: Cluster) -> Member:
    """The member that leads, once all three are there and agree."""

    def agreed() -> Member | None:
        told = [status["Status"] for status in statuses(trio)]
        leaders = {status["leader"] for status in told}
        if len(told) < 3 or len(leaders) != 1:
            return None
        ids = [status["header"]["member_id"] for status in told]
        return trio.members[ids.index(leaders.pop())]

    found: Member = wait_until("three members with one leader", agreed)
    return found


def in_turn(trio: Cluster) -> Iterator[Member]:
    """Each member, the leader first; all three run whenever one is given."""
    first = leader(trio)
    for member in [first, *(one for one in trio.members if one is not first)]:
        leader(trio)
        yield member


def serving(trio: Cluster, loop: Loop) -> None:
    """Wait until the cluster takes writes again."""

    async def write() -> None:
        store = EtcdStore(trio.endpoints, credentials=trio.certificates.credentials(), deadline=60.0)
        try:
            await store.put("/test/serving", b"")
        finally:
            await store.close()

    loop.do(write(), 70.0)


def test_each_member_killed_under_a_running_job(job: MakeJob, trio: Cluster, loop: Loop) -> None:
    two = job(*options(trio, "running", 2), program=COUNTING)
    for _ in range(2):
        two.agent()
    two.steps_in(1, 2)
    for member in in_turn(trio):
        member.kill()
        serving(trio, loop)
        before = len(two.events("step"))
        wait_until("both go on", lambda seen=before: len(two.events("step")) > seen + 50)
        member.start()
    two.finish()
    assert [agent.wait() for agent in two.agents] == [0, 0], two.outputs()
    check_undisturbed(two)


def test_each_member_killed_while_a_generation_forms(job: MakeJob, trio: Cluster, loop: Loop) -> None:
    """At the moment in which the last node's key is written: the plan is what comes next."""
    for turn, member in enumerate(in_turn(trio)):
        name = f"forming {turn}"
        two = job(*options(trio, name, 2), program=COUNTING)
        looking = threading.Event()
        killing = threading.Thread(target=loop.do, args=(kill_at_join(trio, name, member, looking), 120.0))
        killing.start()
        assert looking.wait(60)
        for _ in range(2):
            two.agent()
        killing.join(120)
        assert member.process is None, "it was to be killed when the second node came"
        finish(two)
        member.start()


async def kill_at_join(trio: Cluster, name: str, member: Member, looking: threading.Event) -> None:
    """Kill a member as soon as two nodes of a job have joined, all that come once it is ``looking``."""
    others = [one.endpoint for one in trio.members if one is not member]
    store = EtcdStore(others, credentials=trio.certificates.credentials())
    keys = JobKeys(name)
    seen: set[str] = set()
    try:
        before = await store.list(keys.nodes)
        looking.set()
        async for _, changes in store.watch(keys.nodes, start_revision=before.revision + 1):
            seen |= {change.kv.key for change in changes}
            if len(seen) == 2:
                return member.kill()
    finally:
        await store.close()


def finish(two: Job) -> None:
    two.steps_in(1, 2)
    two.finish()
    assert [agent.wait() for agent in two.agents] == [0, 0], two.outputs()
    assert {e["generation"] for e in two.events()} == {1}, two.outputs()
