"""A lease, and until when it can be relied on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from elaunch.clock import Clock
from elaunch.errors import EtcdLostError, EtcdRefusedError, LeaseLostError
from elaunch.rendezvous.store import Store

_LOOK = 0.5  # seconds after which a suspension of the machine is seen at the latest
_RETRY = 0.2  # seconds between two tries when a renewal failed


def margin_of(ttl: int) -> float:
    """For how many seconds a lease of ``ttl`` seconds is not relied on: enough for its holder to stop."""
    return max(0.5, ttl * 0.1)


@dataclass
class Lease:
    """One lease of this process.

    ``deadline`` (seconds of CLOCK_BOOTTIME) is until when etcd surely holds it: the time before the last renewal was
    sent, plus the granted time. etcd counts from when it received it, which is later.
    """

    id: int
    ttl: int
    deadline: float
    store: Store
    clock: Clock
    on_deadline: Callable[[float], None]

    @classmethod
    async def open(cls, store: Store, ttl: int, *, clock: Clock, on_deadline: Callable[[float], None]) -> Lease:
        """Grant a lease of ``ttl`` seconds. ``on_deadline`` is told every deadline, the first included."""
        sent = clock.boottime()
        lease = cls(await store.grant(ttl), ttl, sent + ttl, store, clock, on_deadline)
        on_deadline(lease.deadline)
        return lease

    @property
    def margin(self) -> float:
        """Seconds before the deadline at which the lease is given up."""
        return margin_of(self.ttl)

    @property
    def left(self) -> float:
        """Seconds until the lease is given up."""
        return self.deadline - self.margin - self.clock.boottime()

    async def keep(self) -> NoReturn:
        """Renew every third of the time. Raises LeaseLostError when the lease ended, or can at any moment."""
        renewed, last_error = True, ""  # by the grant
        while True:
            pause = self.ttl / 3 - (self.clock.boottime() - (self.deadline - self.ttl)) if renewed else _RETRY
            await self._pause(min(pause, self.left))
            renewed, last_error = await self._renew(last_error)

    async def _pause(self, seconds: float) -> None:
        """In short sleeps: they stand still while the machine is suspended, and the lease does not."""
        while seconds > 0:
            await asyncio.sleep(min(seconds, _LOOK))
            seconds = min(seconds - _LOOK, self.left)

    async def _renew(self, last_error: str) -> tuple[bool, str]:
        left = self.left
        if left <= 0:
            raise LeaseLostError(
                f"etcd did not renew the lease of {self.ttl} s in time; last error: {last_error or 'none'}"
            )
        sent = self.clock.boottime()
        try:
            # A try may not last until the deadline: a hanging one must leave time for another.
            granted = await self.store.keep_alive(self.id, timeout=min(left, max(1.0, self.ttl / 6)))
        except (EtcdLostError, EtcdRefusedError) as error:
            return False, str(error)
        if granted <= 0:
            raise LeaseLostError(f"etcd ended the lease of {self.ttl} s: it was not renewed in time, or revoked")
        self.deadline = sent + granted
        self.on_deadline(self.deadline)
        return True, ""

    async def close(self) -> None:
        """End the lease; its keys go at once."""
        await self.store.revoke(self.id)
