"""Channels to the endpoints of an etcd cluster: whose turn it is, and as whom we speak to it.

Endpoints are tried in turn and none is ever given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from random import randrange
from typing import Any, TypeVar

import grpc
from grpc import StatusCode
from grpc.aio import AioRpcError, Channel, insecure_channel, secure_channel

from elaunch.clock import Clock
from elaunch.proto.etcd.v3 import rpc_pb2 as pb
from elaunch.rendezvous.causes import plain
from elaunch.rendezvous.endpoints import Credentials, Endpoint
from elaunch.rendezvous.methods import AUTHENTICATE, Method
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


@dataclass
class Channels:
    """One for each endpoint, made lazily in the running loop, so after any fork."""

    endpoints: tuple[Endpoint, ...]
    credentials: Credentials
    call_timeout: float
    deadline: float
    clock: Clock
    _channels: dict[Endpoint, Channel] = field(default_factory=dict)
    _turn: int = 0
    _turned: asyncio.Event = field(default_factory=asyncio.Event)
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
            self._turned.set()
            self._turned = asyncio.Event()

    @property
    def turn(self) -> int:
        """Changes when a call leaves the endpoint whose turn it was, which may have fallen silent."""
        return self._turn

    async def turned(self, since: int) -> None:
        """Returns once ``turn`` is not ``since`` any more."""
        while self._turn == since:
            await self._turned.wait()

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
            answer = await self.send(endpoint, AUTHENTICATE, request, (), _AUTHENTICATE_TIMEOUT)
        except AioRpcError as error:
            if "authentication is not enabled" in (error.details() or ""):
                return ""
            raise
        return str(answer.token)

    def forget_token(self, used: Metadata) -> None:
        """The token in ``used`` was refused; the next call fetches another."""
        if self._token is not None and used in ((), (("token", self._token),)):
            self._token = None

    async def send(self, endpoint: Endpoint, method: Method[Q, A], request: Q, metadata: Metadata, timeout: float) -> A:
        call = self.channel(endpoint).unary_unary(method.path, **method.codec())
        # Not awaited directly: a cancellation in the turn of the loop that brings the answer would be lost.
        return await within(None, _answer(call(request, timeout=timeout, metadata=metadata)))

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
