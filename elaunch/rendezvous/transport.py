"""Calls to an etcd cluster over gRPC: how long, how often, and what a failure means.

Each call has a short time of its own inside an overall deadline, so that one member that neither answers nor refuses
costs no more than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import tenacity
from grpc import ChannelConnectivity
from grpc.aio import AioRpcError, StreamStreamCall

from elaunch.errors import AmbiguousError, DeposedError, EtcdLostError, EtcdRefusedError, LeaseLostError
from elaunch.rendezvous.channels import A, Channels, Metadata, Q, describe
from elaunch.rendezvous.endpoints import Endpoint
from elaunch.rendezvous.methods import AUTHENTICATE, Method
from elaunch.rendezvous.store import Left, always
from elaunch.rendezvous.verdict import Verdict, judge
from elaunch.rendezvous.waiting import within


class TryAgainError(Exception):
    """This attempt failed and the call may be sent again."""


class Transport(Channels):
    """Calls to one cluster over its channels."""

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

    async def call_once(self, method: Method[Q, A], request: Q, left: Left = always) -> A:
        """Send what must not be applied twice, nor at all once nothing is ``left`` of the right to it.

        It is sent again only where it was provably not applied: there was no connection, or etcd refused it.
        Raises AmbiguousError where the outcome is unknown, DeposedError where the right is over.
        """
        return await self.persist(
            lambda endpoint: self._attempt_connected(endpoint, method, request, left),
            method.path,
            self.deadline,
            interrupt=False,  # once it is sent, only its own short time may end it: as ambiguous
        )

    async def _attempt_connected(self, endpoint: Endpoint, method: Method[Q, A], request: Q, left: Left) -> A:
        await self._connect(endpoint)
        metadata = await self.metadata_or_again(endpoint)
        rest = left()
        if rest <= 0:
            raise DeposedError(f"the right to {method.path} has ended: nothing was sent")
        try:
            return await self.send(endpoint, method, request, metadata, min(self.call_timeout, rest))
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
            return await self.send(endpoint, method, request, metadata, timeout or self.call_timeout)
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
