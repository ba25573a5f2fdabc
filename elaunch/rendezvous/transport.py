"""Calls to an etcd cluster over gRPC: which endpoint, how long, how often, as whom.

Endpoints are tried in turn and none is ever given up. Each call has a short time of its own inside an overall
deadline, so that one member that neither answers nor refuses costs no more than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import randrange
from typing import Any, TypeVar

import grpc
import tenacity
from grpc import ChannelConnectivity, StatusCode
from grpc.aio import AioRpcError, Channel, StreamStreamCall, insecure_channel, secure_channel

from elaunch.clock import Clock
from elaunch.errors import AmbiguousError, EtcdLostError, EtcdRefusedError, LeaseLostError
from elaunch.proto.etcd.v3 import rpc_pb2 as pb
from elaunch.rendezvous.causes import plain
from elaunch.rendezvous.endpoints import Credentials, Endpoint
from elaunch.rendezvous.methods import AUTHENTICATE, Method
from elaunch.rendezvous.verdict import Verdict, judge
from elaunch.rendezvous.waiting import within

Q = TypeVar("Q")
A = TypeVar("A")
Metadata = tuple[tuple[str, str], ...]

_OPTIONS = [
    ("grpc.keepalive_time_ms", 10_000),  # etcd refuses pings more often than every 5 s
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_500),  # also how long a connection may take to open
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),  # a cluster's web proxy is no way to its etcd
    ("grpc.http2.bdp_probe", 0),  # a ping for nearly every answer, to fit windows to a bulk that there is not
]
_AUTHENTICATE_TIMEOUT = 5.0  # bcrypt on a loaded member takes its time


class TryAgainError(Exception):
    """This attempt failed and the call may be sent again."""


@dataclass
class Transport:
    """Channels to all endpoints of one cluster. Made lazily in the running loop, so after any fork."""

    endpoints: tuple[Endpoint, ...]
    credentials: Credentials
    call_timeout: float
    deadline: float
    clock: Clock
    _channels: dict[Endpoint, Channel] = field(default_factory=dict)
    _turn: int = 0
    _token: str | None = None
    _last_error: str = "no answer"
    _auth_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint whose turn it is."""
        return self.endpoints[self._turn % len(self.endpoints)]

    def use(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Take these for the cluster's endpoints. The one whose turn it is keeps it, if it is among them.

        What runs on one that is none of them any more goes on there until it breaks off: the channel stays, and an
        idle one costs nothing.
        """
        current = self.endpoint
        self.endpoints = endpoints
        self._turn = endpoints.index(current) if current in endpoints else randrange(len(endpoints))

    async def ask(self, endpoint: Endpoint, method: Method[Q, A], request: Q, timeout: float) -> A | None:
        """Ask one endpoint, in its turn or not, over a connection of its own; None where no answer comes."""
        try:
            metadata = await within(timeout, self.metadata(endpoint))
        except (AioRpcError, asyncio.TimeoutError):
            return None
        channel = self._open(endpoint)
        try:
            call = channel.unary_unary(method.path, **method.codec())
            return await within(timeout, _answer(call(request, timeout=timeout, metadata=metadata)))
        except (AioRpcError, asyncio.TimeoutError):
            return None
        finally:
            await channel.close(None)

    def channel(self, endpoint: Endpoint) -> Channel:
        if endpoint not in self._channels:
            self._channels[endpoint] = self._open(endpoint)
        return self._channels[endpoint]

    def _open(self, endpoint: Endpoint) -> Channel:
        if self.credentials.tls:
            options = [*_OPTIONS, *self.credentials.channel_options()]
            return secure_channel(endpoint.target, self.credentials.channel_credentials(), options)
        return insecure_channel(endpoint.target, _OPTIONS)

    def rotate(self, away_from: Endpoint, why: str) -> None:
        """The next endpoint's turn, unless another call has already seen to that."""
        self._last_error = f"{away_from.text}: {why}"
        if self.endpoint == away_from:
            self._turn += 1

    async def metadata(self, endpoint: Endpoint) -> Metadata:
        """What identifies us, fetched where it is not at hand."""
        if not self.credentials.user:
            return ()
        async with self._auth_lock:
            if self._token is None:
                self._token = await self._authenticate(endpoint)
            return (("token", self._token),) if self._token else ()

    async def _authenticate(self, endpoint: Endpoint) -> str:
        request = pb.AuthenticateRequest(name=self.credentials.user, password=self.credentials.password)
        try:
            answer = await self._send(endpoint, AUTHENTICATE, request, (), _AUTHENTICATE_TIMEOUT)
        except AioRpcError as error:
            if "authentication is not enabled" in (error.details() or ""):
                return ""
            raise
        return str(answer.token)

    def forget_token(self, used: Metadata) -> None:
        """The token in ``used`` was refused; the next call fetches another."""
        if self._token is not None and used in ((), (("token", self._token),)):
            self._token = None

    async def _send(
        self, endpoint: Endpoint, method: Method[Q, A], request: Q, metadata: Metadata, timeout: float
    ) -> A:
        call = self.channel(endpoint).unary_unary(method.path, **method.codec())
        # Not awaited directly: a cancellation in the turn of the loop that brings the answer would be lost.
        return await within(None, _answer(call(request, timeout=timeout, metadata=metadata)))

    def stream(
        self, endpoint: Endpoint, method: Method[Q, A], metadata: Metadata, timeout: float | None = None
    ) -> StreamStreamCall[Q, A]:
        """Open a stream both ways, to be cancelled by the caller."""
        open_stream: Any = self.channel(endpoint).stream_stream(method.path, **method.codec())
        call: StreamStreamCall[Q, A] = open_stream(timeout=timeout, metadata=metadata)
        return call

    async def call(self, method: Method[Q, A], request: Q, *, deadline: float | None = None) -> A:
        """Send what is idempotent, again until ``deadline`` seconds (default: the transport's) passed."""
        return await self.persist(
            lambda endpoint: self.attempt(endpoint, method, request), method.path, deadline or self.deadline
        )

    async def call_once(self, method: Method[Q, A], request: Q) -> A:
        """Send what must not be applied twice.

        It is sent again only where it was provably not applied: there was no connection, or etcd refused it.
        Raises AmbiguousError where the outcome is unknown.
        """
        return await self.persist(
            lambda endpoint: self._attempt_connected(endpoint, method, request),
            method.path,
            self.deadline,
            interrupt=False,  # once it is sent, only its own short time may end it: as ambiguous
        )

    async def _attempt_connected(self, endpoint: Endpoint, method: Method[Q, A], request: Q) -> A:
        await self._connect(endpoint)
        metadata = await self.metadata_or_again(endpoint)
        try:
            return await self._send(endpoint, method, request, metadata, self.call_timeout)
        except AioRpcError as error:
            if judge(error.code(), error.details() or "") is Verdict.RETRY:
                self.rotate(endpoint, describe(error))
                raise AmbiguousError(
                    f"etcd at {endpoint.text} was lost after {method.path} was sent: {describe(error)}"
                ) from error
            raise self.failure(endpoint, method.path, error, metadata) from error

    async def _connect(self, endpoint: Endpoint) -> None:
        """Raises TryAgainError unless the channel is connected."""
        channel = self.channel(endpoint)
        state = channel.get_state(try_to_connect=True)
        until = self.clock.monotonic() + self.call_timeout
        while state is not ChannelConnectivity.READY:
            left = until - self.clock.monotonic()
            if state is ChannelConnectivity.TRANSIENT_FAILURE or left <= 0:
                self.rotate(endpoint, "cannot connect")
                raise TryAgainError
            try:
                await within(left, channel.wait_for_state_change(state))
            except asyncio.TimeoutError:
                continue
            finally:
                state = channel.get_state(try_to_connect=True)

    async def attempt(self, endpoint: Endpoint, method: Method[Q, A], request: Q, *, timeout: float | None = None) -> A:
        """One try at one endpoint. Raises TryAgainError where it may be sent again."""
        metadata = await self.metadata_or_again(endpoint)
        try:
            return await self._send(endpoint, method, request, metadata, timeout or self.call_timeout)
        except AioRpcError as error:
            raise self.failure(endpoint, method.path, error, metadata) from error

    async def metadata_or_again(self, endpoint: Endpoint) -> Metadata:
        """As :meth:`metadata`, with failures told as those of a call."""
        try:
            return await self.metadata(endpoint)
        except AioRpcError as error:
            raise self.failure(endpoint, AUTHENTICATE.path, error, ()) from error

    def failure(self, endpoint: Endpoint, path: str, error: AioRpcError, used: Metadata) -> Exception:
        """The exception that ``error`` means; as a side effect, who is asked next and as whom."""
        verdict = judge(error.code(), error.details() or "")
        if verdict is Verdict.LEASE_GONE:
            return LeaseLostError("etcd no longer knows the lease")
        if verdict is Verdict.REFUSED or (verdict is Verdict.AUTHENTICATE and not self.credentials.user):
            return EtcdRefusedError(f"etcd at {endpoint.text} refused {path}: {describe(error)}")
        if verdict is Verdict.AUTHENTICATE:
            self._last_error = f"{endpoint.text}: {describe(error)}"
            self.forget_token(used)
        else:
            self.rotate(endpoint, describe(error))
        return TryAgainError()

    async def persist(
        self, once: Callable[[Endpoint], Awaitable[A]], what: str, deadline: float, *, interrupt: bool = True
    ) -> A:
        """``once`` on one endpoint after the other until it succeeds; EtcdLostError at the deadline."""
        began = self.clock.monotonic()

        async def attempt() -> A:
            return await once(self.endpoint)

        try:
            return await attempt()  # nearly always the only one: the machinery of retries costs more than the call
        except TryAgainError:
            pass
        left = deadline - (self.clock.monotonic() - began)
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(TryAgainError),
            wait=tenacity.wait_random_exponential(multiplier=0.02, max=0.5),
            stop=lambda _: self.clock.monotonic() - began >= deadline,
            sleep=asyncio.sleep,
        )
        try:
            return await within(max(0.0, left) if interrupt else None, retrying(attempt))
        except (tenacity.RetryError, asyncio.TimeoutError):
            raise EtcdLostError(self.lost(what, self.clock.monotonic() - began)) from None

    def lost(self, what: str, seconds: float) -> str:
        """One line: whom we asked, for how long, what came of it."""
        names = ", ".join(endpoint.text for endpoint in self.endpoints)
        call = what.rpartition("/")[2]
        return f"etcd at {names} did not answer within {seconds:.1f} s ({call}); last error: {self._last_error}"

    @property
    def cause(self) -> str:
        """Why the last call that failed did, in plain words, and at which endpoint, where there are several."""
        cause = plain(self._last_error)
        one_of_many = len(self.endpoints) > 1 and cause != self._last_error
        return f"{self._last_error.partition(': ')[0]}: {cause}" if one_of_many else cause

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close(None)


async def _answer(call: Awaitable[A]) -> A:
    return await call


def describe(error: grpc.RpcError | Any) -> str:
    """The status of a failed call in one line."""
    code: StatusCode = error.code()
    details = " ".join((error.details() or "").split())
    return f"{code.name}: {details[:300]}" if details else code.name
