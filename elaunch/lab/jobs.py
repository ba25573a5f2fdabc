"""A job as whoever experiments with it needs it: faults injected over its operators' way, its state, its history."""

from __future__ import annotations

import asyncio
import concurrent.futures
import getpass
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, TypeVar

from elaunch.controller.access import Tokens
from elaunch.controller.chronicle import happenings
from elaunch.controller.operating import outcome, submit, verdict
from elaunch.controller.survey import Overview, overview
from elaunch.errors import EtcdLostError, NoSuchJobError, UnansweredError
from elaunch.inject.fault import Fault
from elaunch.rendezvous.endpoints import Credentials
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.journal import Happening, Operation
from elaunch.rendezvous.waiting import cancelled

T = TypeVar("T")
_LOOK = 0.05  # seconds between two looks at etcd


class Watched:
    """The job ``job`` at an etcd of these ``endpoints``; one connection, kept in a thread, until ``close``.

    Every method raises ElaunchError where etcd does not answer, or knows no such job.
    """

    def __init__(
        self,
        job: str,
        endpoints: Sequence[str],
        *,
        tokens: Tokens | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.job = job
        self._tokens = tokens
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="elaunch-lab", daemon=True)
        self._thread.start()
        self._store = self._do(self._open(endpoints, credentials), 10.0)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def inject(self, fault: Fault, *, reason: str = "", timeout: float = 20.0) -> Operation:
        """Have the job's agents bring ``fault`` about: it has begun then, or is armed.

        Raises CommandRefusedError where the job does not allow it (exit code 68), NoSuchJobError where nobody is there
        whom it could hit, UnansweredError where that is not known within ``timeout`` seconds.
        """
        return self.command("inject", reason=reason, timeout=timeout, fault=fault.values)

    def announce(self, fault: Fault, where: str, *, over: bool, timeout: float = 5.0) -> None:
        """Have it stand in the job's history that a fault from outside has begun, or is undone."""
        self.command("announce", timeout=timeout, fault=fault.values, where=where, over=over)

    def command(self, what: str, *, reason: str = "", timeout: float = 20.0, **values: Any) -> Operation:
        """Any operator's command, once it is done. Raises ElaunchError where it is not."""
        return self._do(self._command(what, reason, timeout, values), timeout + 15.0)

    def events(self, *codes: str) -> list[Happening]:
        """The job's history, oldest first: the lines of these codes, all where none is given."""
        found = self._do(happenings(self._store, self.job), 20.0)
        return [line for line in found if not codes or line.code in codes]

    def look(self) -> Overview:
        """The job as etcd has it: ``phase``, ``state`` (generation, reason, ...), ``plan``, ``nodes``, ``leader``."""
        return self._do(overview(self._store, self.job), 20.0)

    def until(self, what: str, condition: Callable[[Watched], T], seconds: float = 30.0) -> T:
        """What ``condition`` returns once that is true. Raises TimeoutError, with the last events.

        An etcd that does not answer yet, or not now, and a job that is not there yet are waited for.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                if found := condition(self):
                    return found
            except (NoSuchJobError, EtcdLostError):
                pass
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.job}: waited {seconds:.0f} s for {what}\n{self._last()}")
            time.sleep(_LOOK)

    def running(self, generation: int = 1, seconds: float = 60.0) -> Overview:
        """The job, once this generation or a later one runs."""

        def runs(job: Watched) -> Overview | None:
            seen = job.look()
            up = seen.state is not None and seen.state.generation >= generation and seen.phase == "running"
            return seen if up else None

        found = self.until(f"generation {generation}", runs, seconds)
        assert found is not None
        return found

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        """Let go of the connection."""
        if self.closed:
            return
        try:
            self._do(self._end(), 10.0)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10.0)
            self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        try:
            asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # closed by another thread
            work.close()
            raise UnansweredError(f"{self.job}: the connection is closed") from None
        try:
            return asked.result(seconds)
        except concurrent.futures.TimeoutError:
            raise UnansweredError(f"{self.job}: etcd has not answered within {seconds:.0f} s") from None
        finally:
            asked.cancel()  # where it is not done: whoever waited has been interrupted

    async def _open(self, endpoints: Sequence[str], credentials: Credentials | None) -> EtcdStore:
        return EtcdStore(endpoints, credentials=credentials)

    async def _end(self) -> None:
        await cancelled(*(asyncio.all_tasks() - {asyncio.current_task()}))  # of whoever has been interrupted
        await self._store.close()

    async def _command(self, what: str, reason: str, timeout: float, values: dict[str, Any]) -> Operation:
        asked = await submit(self._store, self.job, what, _who(), time.time(), reason, self._tokens, **values)
        after = await outcome(self._store, self.job, asked, timeout)
        if (error := verdict(self.job, after, timeout)) is not None:
            raise error
        return after

    def _last(self) -> str:
        try:
            return "\n".join(f"{line.code}: {line.text}" for line in self.events()[-8:])
        except NoSuchJobError:
            return "nothing is known of it"
        except EtcdLostError as error:
            return str(error)


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
