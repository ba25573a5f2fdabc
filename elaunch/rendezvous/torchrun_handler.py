"""torch's RendezvousHandler on our rendezvous: a synchronous face, with the work in a thread's event loop."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

from torch.distributed import DistError, TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

from elaunch import __version__
from elaunch.clock import SystemClock
from elaunch.errors import (
    AmbiguousError,
    ElaunchError,
    EndpointUnreachableError,
    EtcdLostError,
    EtcdRefusedError,
    JoinTimeoutError,
)
from elaunch.rendezvous.addresses import listen
from elaunch.rendezvous.attendance import Attendance, RunClosedError
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.loopthread import LoopThread
from elaunch.rendezvous.plan import Plan
from elaunch.rendezvous.presence import Site
from elaunch.rendezvous.records import Spec
from elaunch.rendezvous.rounds import ROLE, Participant
from elaunch.rendezvous.torchrun_conf import Settings

GENERATION_VARIABLE = "ELAUNCH_GENERATION"
_SHARE_VARIABLE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # torch's own switch for use_agent_store
_CONNECT_TRY = 5.0  # seconds for one try to reach a round's store
_LEAVE_TIMEOUT = 3.0  # seconds for letting go of the node's key when the process ends

T = TypeVar("T")
log = logging.getLogger(__name__)


class TorchrunHandler(RendezvousHandler):  # type: ignore[misc]
    """One torchrun agent at the rendezvous. Rank and world size are those of agents, as torch wants them.

    A round is a generation, and has a TCPStore of its own, which the agent of rank 0 hosts.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pid = os.getpid()
        self._loop: LoopThread | None = None
        self._etcd: EtcdStore | None = None
        self._attendance: Attendance | None = None
        self._round_store: TCPStore | None = None

    def get_backend(self) -> str:
        return "elaunch"

    def get_run_id(self) -> str:
        return self._settings.job

    @property
    def use_agent_store(self) -> bool:
        return os.getenv(_SHARE_VARIABLE, "0") != "1"

    def next_rendezvous(self) -> RendezvousInfo:
        """See base class. Whoever calls it runs no worker of an earlier round any more."""
        while True:
            with _as_torch_errors():
                attendance = self._connected()
                plan, listener = self._next_plan(attendance)
            store = self._open_store(attendance, plan, listener)
            if store is not None:
                break
        # The store of the last round lives until here: the workers' last words may still be under way.
        self._round_store = store
        # Inherited by the workers: what a program may stamp its checkpoints with.
        os.environ[GENERATION_VARIABLE] = str(plan.generation)
        place = plan.member(attendance.node_id)
        if place is None:
            raise RendezvousError("rendezvous: this node was lost while its round began")
        where = RendezvousStoreInfo(plan.store_address, plan.store_port)
        if not self.use_agent_store:  # then the worker of rank 0 hosts one more store, on another port
            where = RendezvousStoreInfo.build(place.group_rank, store, local_addr=self._settings.address)
        return RendezvousInfo(store, place.group_rank, plan.world_size, where)

    def num_nodes_waiting(self) -> int:
        """See base class. Members of the round that came back or whose lease has ended are counted as well.

        torchrun acts on a number above 0 only, and then stops its workers and calls next_rendezvous.
        """
        return 0 if self._attendance is None else self._attendance.news()

    def is_closed(self) -> bool:
        return self._attendance is not None and self._attendance.closed

    def set_closed(self) -> None:
        with _as_torch_errors():
            attendance = self._connected()
            self._call(attendance.close_run(), self._settings.close_timeout)

    def shutdown(self) -> bool:
        """Close the run, where this node was ever a part of it, and leave. False where etcd could not be told."""
        attendance = self._attendance
        if attendance is None:
            return True
        try:
            if attendance.took_part:
                self.set_closed()
        except RendezvousError as error:
            log.warning("the run %r could not be closed: %s", self._settings.job, error)
            return False
        finally:
            self._leave()
        return True

    # --- the loop's side ----------------------------------------------------------------------------------------

    def _connected(self) -> Attendance:
        """Raises EndpointUnreachableError."""
        if self._attendance is not None:
            return self._attendance
        settings = self._settings
        if self._loop is None:
            self._loop = LoopThread("elaunch-rendezvous")
            self._etcd = EtcdStore(settings.endpoints, credentials=settings.credentials, deadline=settings.etcd_timeout)
            # A signal ends torchrun without shutdown(): the others should not have to wait for the lease then.
            atexit.register(self._leave)
        etcd = self._etcd
        assert etcd is not None
        self._call(etcd.check(timeout=settings.etcd_timeout))
        limits = settings.limits
        spec = Spec(limits.min_nodes, limits.max_nodes, -1, {ROLE: {}})
        site = Site(etcd, JobKeys(settings.job), spec, limits, settings.lease_ttl, SystemClock())
        self._attendance = Attendance(site, self._participant())
        return self._attendance

    def _participant(self) -> Participant:
        return Participant(
            node_id="",
            host=socket.gethostname(),
            address=self._settings.address,
            slots=1,
            store_port=0,
            control="",
            pid=os.getpid(),
            role=ROLE,
            version=__version__,
        )

    def _call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        assert self._loop is not None
        return self._loop.call(work, timeout)

    def _next_plan(self, attendance: Attendance) -> tuple[Plan, socket.socket]:
        """The plan, and the socket that has been listening for its store since before it was made."""
        listener = listen(self._settings.address)
        try:
            port: int = listener.getsockname()[1]
            return self._call(attendance.next_round(port, self._settings.join_timeout)), listener
        except BaseException:
            listener.close()
            raise

    def _open_store(self, attendance: Attendance, plan: Plan, listener: socket.socket) -> TCPStore | None:
        """The round's store, or None where its host is lost."""
        read_timeout = timedelta(seconds=self._settings.read_timeout)
        if plan.store_node == attendance.node_id:
            return TCPStore(
                plan.store_address,
                plan.store_port,
                is_master=True,
                wait_for_workers=False,
                multi_tenant=True,
                timeout=read_timeout,
                master_listen_fd=listener.detach(),
            )
        listener.close()
        deadline = time.monotonic() + self._settings.read_timeout
        while attendance.lives(plan.store_node):
            try:
                once = timedelta(seconds=min(_CONNECT_TRY, self._settings.read_timeout))
                store = TCPStore(plan.store_address, plan.store_port, is_master=False, timeout=once)
            except DistError as error:
                if time.monotonic() >= deadline:
                    raise RendezvousConnectionError(
                        f"rendezvous: no way to the store of generation {plan.generation} at "
                        f"{plan.store_address}:{plan.store_port}: {error}"
                    ) from error
            else:
                store.set_timeout(read_timeout)
                return store
        log.warning("the host of generation %d's store is lost before it began", plan.generation)
        return None

    def _leave(self) -> None:
        """Let the node's key go and end the thread. Nothing of it may hold up the end of the process."""
        loop, attendance, etcd = self._loop, self._attendance, self._etcd
        if loop is None or os.getpid() != self._pid:
            return
        self._loop = self._attendance = self._etcd = None
        atexit.unregister(self._leave)
        with suppress(TimeoutError, ElaunchError):
            if attendance is not None:
                loop.call(attendance.leave(), _LEAVE_TIMEOUT)
        with suppress(TimeoutError):
            if etcd is not None:
                loop.call(etcd.close(), _LEAVE_TIMEOUT)
        loop.stop()


@contextmanager
def _as_torch_errors() -> Iterator[None]:
    try:
        yield
    except RunClosedError as error:
        raise RendezvousClosedError(str(error)) from error
    except JoinTimeoutError as error:
        raise RendezvousTimeoutError(str(error)) from error
    except (EndpointUnreachableError, EtcdLostError, EtcdRefusedError, AmbiguousError, TimeoutError) as error:
        raise RendezvousConnectionError(str(error)) from error
    except ElaunchError as error:
        raise RendezvousError(str(error)) from error
