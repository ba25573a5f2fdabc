"""Three members with TLS, and one of them lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from elaunch.errors import AmbiguousError, EndpointUnreachableError, EtcdLostError, EtcdRefusedError
from elaunch.proto.etcd.v3 import rpc_pb2 as pb
from elaunch.rendezvous.endpoints import Credentials
from elaunch.rendezvous.methods import STATUS
from elaunch.rendezvous.store import Put, absent
from tests.etcd.running import opened, run
from tests.etcd.servers import Cluster, Member

FAILOVER = 60.0  # seconds; single kills were seen to take 12
CALL = 1.5  # seconds that one call may take


async def leader_of(cluster: Cluster) -> Member:
    deadline = time.monotonic() + FAILOVER
    while time.monotonic() < deadline:  # they may elect another one while they are asked
        for member in cluster.members:
            async with opened(member.endpoint, credentials=cluster.certificates.credentials()) as store:
                status = await store._transport.call(STATUS, pb.StatusRequest(), deadline=FAILOVER)
                if status.leader == status.header.member_id:
                    return member
    raise AssertionError("no leader")


@pytest.mark.slow
def test_nothing_is_lost_when_the_leader_is_killed_under_load(cluster: Cluster) -> None:
    credentials = cluster.certificates.credentials()

    async def body() -> None:
        async with (
            opened(*cluster.endpoints, credentials=credentials, deadline=FAILOVER) as watching,
            opened(*cluster.endpoints, credentials=credentials, deadline=FAILOVER, call_timeout=CALL) as writing,
        ):
            await writing.check(timeout=FAILOVER)
            start = (await watching.list("/load/")).revision + 1
            told: list[tuple[int, str]] = []

            async def follow() -> None:
                async for _, changes in watching.watch("/load/", start_revision=start):
                    told.extend((c.kv.mod_revision, c.kv.key) for c in changes)
                    if told[-1][1] == "/load/end":
                        return

            following = asyncio.create_task(follow())
            written: dict[str, int | None] = {}
            killed = back = 0.0

            async def write(i: int) -> None:
                key = f"/load/{i:06}"
                try:
                    written[key] = (await writing.txn([absent(key)], [Put(key, b"")])).revision
                except AmbiguousError:
                    written[key] = None

            victim = await leader_of(cluster)
            number = 0
            while not killed or number < 400:
                await asyncio.gather(*(write(number + i) for i in range(8)))
                number += 8
                if killed and not back and written[f"/load/{number - 1:06}"] is not None:
                    back = time.monotonic()
                if number >= 200 and not killed:
                    victim.kill()
                    killed = time.monotonic()
            await writing.put("/load/end", b"")
            assert time.monotonic() - killed < FAILOVER
            await asyncio.wait_for(following, FAILOVER)
            kept = {kv.key: kv.mod_revision for kv in (await writing.list("/load/")).items}
            assert {key: revision for revision, key in told} == kept
            assert [revision for revision, _ in told] == sorted(kept.values())
            sure = {key: revision for key, revision in written.items() if revision is not None}
            assert sure.items() <= kept.items()
            waits = ((back or time.monotonic()) - killed) / CALL  # of those that no leader answered, eight at a time
            assert len(written) - len(sure) <= 40 + 8 * waits

    run(body(), seconds=240)


@pytest.mark.slow
def test_a_member_that_hangs_costs_one_short_wait(cluster: Cluster) -> None:
    async def body() -> None:
        async with opened(
            *cluster.endpoints, credentials=cluster.certificates.credentials(), deadline=FAILOVER
        ) as store:
            await store.check(timeout=FAILOVER)
            leader = await leader_of(cluster)
            follower = next(member for member in cluster.members if member is not leader)
            await store.put("/hang/a", b"0")
            lease = await store.grant(30)
            follower.freeze()
            for i in range(6):
                await store.put("/hang/a", b"%d" % i)
                assert await store.keep_alive(lease, timeout=20.0) == 30
            follower.thaw()

    run(body(), seconds=180)


@pytest.mark.slow
def test_password_over_tls(cluster: Cluster) -> None:
    certificates = cluster.certificates

    async def body() -> None:
        options = {"deadline": FAILOVER}
        async with opened(*cluster.endpoints, credentials=certificates.credentials(), **options) as store:
            await store.check(timeout=FAILOVER)
            await asyncio.to_thread(enable_auth, cluster)
            with pytest.raises(EtcdRefusedError, match="refused"):
                await store.put("/elaunch/a/b", b"")
        async with opened(*cluster.endpoints, credentials=certificates.credentials("job", "wrong"), **options) as store:
            with pytest.raises(EndpointUnreachableError, match="authentication failed"):
                await store.check()
        async with opened(
            *cluster.endpoints, credentials=certificates.credentials("job", "secret"), **options
        ) as store:
            await store.check()
            assert (await store.txn([absent("/elaunch/a/b")], [Put("/elaunch/a/b", b"1")])).succeeded
            with pytest.raises(EtcdRefusedError, match="permission denied"):
                await store.put("/elsewhere", b"")
            changes = store.watch("/elaunch/a/", start_revision=1)
            assert (await anext(changes))[1][0].kv.value == b"1"
            await changes.aclose()
            store._transport._token = "a token that no member knows"
            await store.put("/elaunch/a/b", b"2")
            store._transport._token = "a token that no member knows"
            assert (await store.txn([], [Put("/elaunch/a/b", b"3")])).succeeded
            store._transport._token = "a token that no member knows"
            changes = store.watch("/elaunch/a/", start_revision=1)
            assert (await anext(changes))[1][0].kv.value == b"1"
            await changes.aclose()
            with pytest.raises(EtcdRefusedError, match="permission denied"):
                await anext(store.watch("/elsewhere/", start_revision=1))

    run(body(), seconds=180)


def enable_auth(cluster: Cluster) -> None:
    """A user "job" that may use /elaunch/ and nothing else."""
    for words in (
        ("user", "add", "root:root"),
        ("user", "grant-role", "root", "root"),
        ("role", "add", "elaunch"),
        ("role", "grant-permission", "elaunch", "--prefix=true", "readwrite", "/elaunch/"),
        ("user", "add", "job:secret"),
        ("user", "grant-role", "job", "elaunch"),
        ("auth", "enable"),
    ):
        cluster.ctl(*words)


@pytest.mark.slow
def test_a_stranger_is_not_let_in(cluster: Cluster) -> None:
    async def body() -> None:
        for credentials in (None, Credentials(ca=cluster.certificates.ca)):
            async with opened(*cluster.endpoints, credentials=credentials, deadline=0.5) as store:
                with pytest.raises(EndpointUnreachableError, match=cluster.endpoints[0]):
                    await store.check()
                with pytest.raises(EtcdLostError, match=r"within \d\.\d s"):
                    await store.get("/a")

    run(body())
