"""The store on etcd's v3 API: see docs/decisions/0001-etcd-client.md for why it is our own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from grpc.aio import AioRpcError

from elaunch.clock import Clock, SystemClock
from elaunch.errors import EndpointUnreachableError, EtcdLostError, EtcdRefusedError, LeaseLostError
from elaunch.proto.etcd.v3 import rpc_pb2 as pb
from elaunch.rendezvous import wire
from elaunch.rendezvous.endpoints import Credentials, Endpoint, parse_endpoints
from elaunch.rendezvous.keys import ROOT
from elaunch.rendezvous.methods import (
    DELETE_RANGE,
    LEASE_GRANT,
    LEASE_KEEP_ALIVE,
    LEASE_REVOKE,
    MEMBER_ADD,
    MEMBER_LIST,
    MEMBER_PROMOTE,
    MEMBER_REMOVE,
    MEMBER_UPDATE,
    MOVE_LEADER,
    PUT,
    RANGE,
    STATUS,
    TXN,
)
from elaunch.rendezvous.store import (
    Change,
    ClusterMember,
    Compare,
    Delete,
    Health,
    KeyValue,
    Left,
    Op,
    Snapshot,
    Txn,
    TxnResult,
    always,
)
from elaunch.rendezvous.transport import Transport, TryAgainError
from elaunch.rendezvous.waiting import within
from elaunch.rendezvous.watch import prefix_range, watch, write


class EtcdStore:
    """A :class:`elaunch.rendezvous.store.Store` and :class:`~elaunch.rendezvous.store.Cluster` on etcd.

    ``endpoints`` are ``host:port``, ``[v6]:port`` or ``unix:/path``. A call tries one endpoint after the
    other, ``call_timeout`` seconds each, until ``deadline`` seconds have passed. Nothing is connected before
    the first call; all calls must come from one event loop.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        credentials: Credentials | None = None,
        call_timeout: float = 1.5,
        deadline: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        """Raises UsageError on an endpoint that cannot be parsed."""
        self._clock = clock or SystemClock()
        self._transport = Transport(
            parse_endpoints(endpoints), credentials or Credentials(), call_timeout, deadline, self._clock
        )

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where etcd is looked for now."""
        return tuple(endpoint.text for endpoint in self._transport.endpoints)

    def use(self, endpoints: Sequence[str]) -> None:
        """Look for etcd at these endpoints from now on. What runs on another one stays there until it breaks off.

        Raises UsageError on an endpoint that cannot be parsed.
        """
        self._transport.use(parse_endpoints(endpoints))

    async def check(self, *, timeout: float | None = None) -> str:
        """The version of the etcd that answers and takes our credentials.

        Raises EndpointUnreachableError where none does within ``timeout`` seconds (default: the deadline).
        """
        transport, deadline = self._transport, timeout or self._transport.deadline
        try:
            status = await transport.call(STATUS, pb.StatusRequest(), deadline=deadline)
            await transport.call(RANGE, pb.RangeRequest(key=ROOT.encode(), keys_only=True), deadline=deadline)
        except EtcdLostError:
            names = ", ".join(endpoint.text for endpoint in transport.endpoints)
            text = f"rendezvous: etcd at {names} did not answer within {deadline:.0f} s: {transport.cause}"
            raise EndpointUnreachableError(text, transport.cause) from None
        except EtcdRefusedError as error:
            # A role may be confined to one job's keys: whoever is told so has been let in.
            if "permission denied" not in str(error):
                raise EndpointUnreachableError(f"rendezvous: {error}") from None
        return str(status.version)

    async def get(self, key: str) -> KeyValue | None:
        answer = await self._transport.call(RANGE, pb.RangeRequest(key=key.encode()))
        return wire.key_value(answer.kvs[0]) if answer.kvs else None

    async def list(self, prefix: str, *, keys_only: bool = False) -> Snapshot:
        key, end = prefix_range(prefix)
        answer = await self._transport.call(RANGE, pb.RangeRequest(key=key, range_end=end, keys_only=keys_only))
        return Snapshot(answer.header.revision, tuple(wire.key_value(kv) for kv in answer.kvs))

    async def children(self, prefix: str) -> tuple[str, ...]:
        """One request for each name, whatever lies below it."""
        names: dict[str, None] = {}
        cursor, end = prefix_range(prefix)
        while True:
            request = pb.RangeRequest(key=cursor, range_end=end, limit=1, keys_only=True)
            answer = await self._transport.call(RANGE, request)
            if not answer.kvs:
                return tuple(names)
            key = answer.kvs[0].key.decode()
            name, below, _ = key.removeprefix(prefix).partition("/")
            names[name] = None
            cursor = prefix_range(f"{prefix}{name}/")[1] if below else f"{key}\0".encode()

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        answer = await self._transport.call(PUT, pb.PutRequest(key=key.encode(), value=value, lease=lease))
        return int(answer.header.revision)

    async def delete(self, key: str, *, prefix: bool = False) -> None:
        await self._transport.call(DELETE_RANGE, wire.delete(Delete(key, prefix)))

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, otherwise: Txn | None = None) -> TxnResult:
        request = wire.transaction(compares, ops)
        if otherwise is not None:
            request.failure.add(request_txn=wire.transaction(otherwise.compares, otherwise.ops))
        answer = await self._transport.call_once(TXN, request)
        second = otherwise is not None and not answer.succeeded and answer.responses[0].response_txn.succeeded
        return TxnResult(answer.succeeded, answer.header.revision, second)

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[tuple[int, tuple[Change, ...]], None]:
        async with aclosing(watch(self._transport, prefix, start_revision)) as batches:
            async for events in batches:
                yield events[-1].kv.mod_revision, tuple(wire.change(event) for event in events)

    async def grant(self, ttl: int) -> int:
        # An answer that was lost leaves a lease that nobody renews: it ends by itself.
        answer = await self._transport.call(LEASE_GRANT, pb.LeaseGrantRequest(TTL=ttl))
        return int(answer.ID)

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        share = max(timeout / len(self._transport.endpoints), 0.25)
        limit = min(self._transport.call_timeout, share)
        try:
            return await self._transport.persist(
                lambda endpoint: self._renew(endpoint, lease, limit), LEASE_KEEP_ALIVE.path, timeout
            )
        except LeaseLostError:
            return 0

    async def _renew(self, endpoint: Endpoint, lease: int, timeout: float) -> int:
        transport = self._transport
        metadata = await transport.metadata_or_again(endpoint)
        stream = transport.stream(endpoint, LEASE_KEEP_ALIVE, metadata, timeout)
        try:
            await write(stream, pb.LeaseKeepAliveRequest(ID=lease), timeout)
            answer = await within(timeout, stream.read())
        except AioRpcError as error:
            raise transport.failure(endpoint, LEASE_KEEP_ALIVE.path, error, metadata) from error
        except (TryAgainError, asyncio.TimeoutError) as error:
            transport.rotate(endpoint, str(error) or "lease stream does not answer")
            raise TryAgainError from error
        finally:
            stream.cancel()
        if not isinstance(answer, pb.LeaseKeepAliveResponse):
            transport.rotate(endpoint, "lease stream ended")
            raise TryAgainError
        return int(answer.TTL)

    async def revoke(self, lease: int) -> None:
        try:
            await self._transport.call(LEASE_REVOKE, pb.LeaseRevokeRequest(ID=lease))
        except LeaseLostError:
            return

    async def members(self) -> tuple[ClusterMember, ...]:
        answer = await self._transport.call(MEMBER_LIST, pb.MemberListRequest(linearizable=True))
        return tuple(map(wire.member, answer.members))

    async def add_learner(self, peer: str, *, left: Left = always) -> None:
        await self._transport.call_once(MEMBER_ADD, pb.MemberAddRequest(peerURLs=[peer], isLearner=True), left)

    async def promote(self, member: int, *, left: Left = always) -> None:
        await self._transport.call_once(MEMBER_PROMOTE, pb.MemberPromoteRequest(ID=member), left)

    async def remove(self, member: int, *, left: Left = always) -> None:
        await self._transport.call_once(MEMBER_REMOVE, pb.MemberRemoveRequest(ID=member), left)

    async def hand_over(self, endpoint: str, member: int, *, timeout: float) -> bool:
        (parsed,) = parse_endpoints([endpoint])
        request = pb.MoveLeaderRequest(targetID=member)
        return await self._transport.ask(parsed, MOVE_LEADER, request, timeout) is not None

    async def move_peer(self, member: int, peer: str) -> None:
        await self._transport.call_once(MEMBER_UPDATE, pb.MemberUpdateRequest(ID=member, peerURLs=[peer]))

    async def health(self, endpoint: str, *, timeout: float) -> Health | None:
        (parsed,) = parse_endpoints([endpoint])
        answer = await self._transport.ask(parsed, STATUS, pb.StatusRequest(), timeout)
        if answer is None:
            return None
        header = answer.header
        return Health(header.cluster_id, header.member_id, answer.leader, str(answer.version))

    async def close(self) -> None:
        await self._transport.close()
