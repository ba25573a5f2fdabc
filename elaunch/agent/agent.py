"""The agent of one node: puts the parts together, and lives from the command line to the exit code."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import structlog

from elaunch import __version__
from elaunch.agent import failures, trees
from elaunch.agent.deadman import DeadlinePage
from elaunch.agent.events import EventLog
from elaunch.agent.farewell import write_farewell
from elaunch.agent.group import Group
from elaunch.agent.health import health_port
from elaunch.agent.logs_specs import arguments
from elaunch.agent.membership import Membership, Site, new_node_id
from elaunch.agent.options import LaunchOptions
from elaunch.agent.outcome import Outcome, RankFailure
from elaunch.agent.preparation import LaunchPreparation
from elaunch.agent.signals import SignalWatch, stopped_by
from elaunch.agent.spawner import Spawner
from elaunch.agent.status import StatusBoard
from elaunch.agent.store import Backend, local_address, open_backend
from elaunch.agent.stuck import timeout_of, watch_stuck
from elaunch.agent.torchside import torch_side
from elaunch.agent.watchdog import watchdog
from elaunch.clock import SystemClock
from elaunch.controller.commands import End
from elaunch.controller.job import Failure, Policy, RunPhase
from elaunch.controller.server import ControlServer
from elaunch.errors import EndpointUnreachableError, EtcdLostError, EtcdRefusedError, LeaseLostError
from elaunch.rendezvous import addresses
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.lease import margin_of
from elaunch.rendezvous.records import Node, Spec


async def run_agent(options: LaunchOptions) -> Outcome:
    """Run this node's part of the job until it ends. Raises ElaunchError where it could not be begun or went on."""
    signals = SignalWatch(options.signals)
    with signals:
        try:
            async with AsyncExitStack() as stack:
                agent = await stack.enter_async_context(_agent(options, signals))
                end = await agent.run()
                agent.events.finished(end)
        except asyncio.CancelledError:
            if signals.first is None:
                raise
            end = stopped_by(signals.first)
    _pass_on(end)
    outcome = end.outcome if end.outcome in ("succeeded", "failed", "stopped", "left") else "failed"
    return Outcome(end.exit_code, end.code, end.reason, outcome, tuple(map(_failure, end.failures)))  # type: ignore[arg-type]


class Agent:
    """One node's agent with everything open; ``run`` joins, and joins again when the lease was lost."""

    def __init__(
        self,
        options: LaunchOptions,
        backend: Backend,
        server: ControlServer,
        address: str,
        control: str,
        group: Group,
        board: StatusBoard,
        page: DeadlinePage,
        signals: SignalWatch,
        farewell: Path,
        events: EventLog,
    ) -> None:
        self.events = events
        self._options = options
        self._backend = backend
        self._control = control
        self._group = group
        self._board = board
        self._page = page
        self._signals = signals
        self._farewell = farewell
        self._lease = 0
        self._address = address
        conf = options.conf
        self._site = Site(
            store=backend.store,
            keys=JobKeys(options.job),
            spec=spec_of(options),
            policy=Policy(
                options.min_nodes,
                options.max_nodes,
                options.max_restarts,
                conf.join_timeout,
                conf.last_call_timeout,
            ),
            clock=SystemClock(),
            status=board,
            server=server,
            lease_ttl=conf.lease_ttl,
            close_timeout=conf.close_timeout,
            on_deadline=self._on_deadline,
            on_lease=self._on_lease,
            on_command=group.want,
            stop_ranks=self._stop_ranks,
        )

    async def run(self) -> End:
        """The job's end, as the leader told it. Raises EtcdLostError when etcd does not come back."""
        running = asyncio.create_task(self._group.run())
        patience = timeout_of(os.environ)
        stuck = watch_stuck(patience, lambda: self._group.pids, self._group.give_up)
        watching = asyncio.create_task(stuck)
        try:
            while True:
                try:
                    return await self._beside(running, self._join())
                except LeaseLostError as error:
                    structlog.get_logger().warning("lease_lost", reason=str(error))
                self._signals.detach()
                if self._signals.first is not None:
                    return stopped_by(self._signals.first)
                await self._await_etcd()
        finally:
            for task in (running, watching):
                task.cancel()
            await asyncio.gather(running, watching, return_exceptions=True)

    async def _beside(self, running: asyncio.Task[None], joining: asyncio.Task[End]) -> End:
        try:
            await asyncio.wait([running, joining], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            return await joining
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)

    def _join(self) -> asyncio.Task[End]:
        options = self._options
        node = Node(
            node_id=new_node_id(),
            host=socket.gethostname(),
            address=self._address,
            slots=options.slots,
            store_port=self._group.store_port,
            control=self._control,
            pid=os.getpid(),
            role=options.role,
            node_rank=options.node_rank,
            version=__version__,
        )
        self._board.update(node_id=node.node_id, generation=0, phase=RunPhase.NONE, exits=(), start_error="")
        membership = Membership(self._site, node)
        self._signals.attach(membership, self._board, self._group, self._options.shutdown_timeout)
        return asyncio.create_task(membership.run())

    async def _stop_ranks(self, grace: float | None) -> None:
        await self._group.leave(grace=grace)
        if grace == 0.0:
            self._page.clear()

    def _on_deadline(self, deadline: float) -> None:
        self._page.set(deadline - margin_of(self._options.conf.lease_ttl))

    def _on_lease(self, lease: int) -> None:
        self._lease = lease
        try:
            write_farewell(self._farewell, self._backend.endpoints, self._options.conf.access, lease)
        except OSError as error:  # only costs the others the rest of the lease, should this agent be killed
            structlog.get_logger().warning("farewell_not_written", reason=str(error))

    async def _await_etcd(self) -> None:
        """After a lost lease: the ranks are gone; join again if etcd answers in time.

        An etcd that was away has given the lease its full time again: it is given back, so that nobody waits for it.
        """
        timeout = self._options.conf.etcd_timeout
        try:
            await self._backend.store.check(timeout=timeout)
            with suppress(EtcdLostError, EtcdRefusedError):
                await self._backend.store.revoke(self._lease)
        except EndpointUnreachableError as error:
            raise EtcdLostError(f"{error}; its lease is lost and its ranks were stopped{self._advice()}") from None

    def _advice(self) -> str:
        if self._options.backend == "etcd":
            return ""
        return (
            "; this job's etcd ran embedded on the node that owns the rendezvous endpoint, and was lost with it:"
            " use an etcd of your own (--rdzv-backend=etcd --rdzv-endpoint=HOST:2379) to survive the loss of that node"
        )


def spec_of(options: LaunchOptions) -> Spec:
    """What other nodes of the job must agree with."""
    target = options.program.target
    program = Path(target).name if options.program.kind != "module" else f"-m {target}"
    return Spec(
        min_nodes=options.min_nodes,
        max_nodes=options.max_nodes,
        max_restarts=options.max_restarts,
        roles={options.role: {"nproc": options.slots, "program": program}},
    )


@asynccontextmanager
async def _agent(options: LaunchOptions, signals: SignalWatch) -> AsyncIterator[Agent]:
    """Everything that an agent needs, opened in the order in which it takes time, closed in the reverse."""
    runtime = Path(tempfile.mkdtemp(prefix="elaunch-"))
    page = DeadlinePage.create()
    farewell = runtime / "farewell.json"
    # Not ours to stop: what this process had for children before it became an agent (exec'd from a shell script),
    # and the keeper of an embedded etcd, which may have to outlive it.
    spared = trees.children(os.getpid())
    dog = watchdog(os.environ)
    preparation = LaunchPreparation(options, os.environ, runtime, watchdog=dog)
    if preparation.warning:
        structlog.get_logger().warning("omp_num_threads", text=preparation.warning)
    try:
        async with AsyncExitStack() as stack:
            stack.callback(preparation.folder.remove_unused)
            await stack.enter_async_context(health_port(os.environ))
            if dog is not None:
                stack.enter_context(dog.listening())
            open_spawner = functools.partial(
                Spawner.open,
                start=options.start,
                preload=options.preload,
                env=preparation.env,
                deadline=page,
                farewell=[sys.executable, "-m", "elaunch.agent.farewell", str(farewell)],
                farewell_env=dict(os.environ),
                note=lambda text: structlog.get_logger().info("exec_start", text=text),
                spare=lambda: spared,
            )
            spawner = await open_spawner()
            stack.push_async_callback(spawner.close)
            await _ask_torch(options, preparation, spared, stack)
            backend = await open_backend(options)
            if backend.embedded is not None:
                spared.append(backend.embedded.keeper)
            stack.push_async_callback(backend.release, JobKeys(options.job).nodes, options.conf.close_timeout)
            address = local_address(options)
            board = StatusBoard()
            listening = functools.partial(addresses.listen, address)
            group = Group(spawner, open_spawner, board, preparation, listening, options.shutdown_timeout)
            stack.push_async_callback(group.close)
            server = ControlServer(options.job)
            port = await server.start(addresses.listening_host(address) or "::")
            stack.push_async_callback(server.stop)
            control = addresses.join(address, port)
            events = preparation.events
            yield Agent(options, backend, server, address, control, group, board, page, signals, farewell, events)
    finally:
        shutil.rmtree(runtime, ignore_errors=True)
        page.close()


async def _ask_torch(
    options: LaunchOptions, preparation: LaunchPreparation, spare: list[int], stack: AsyncExitStack
) -> None:
    """What needs torch's own code, while the spawner process imports it as well. Raises UsageError."""
    if options.logs.specs is not None:
        side = await stack.enter_async_context(torch_side("logs_specs", *arguments(options.logs), spare=spare))
        await side.answer()
        preparation.logs_specs = side
    if options.numa_binding is not None:
        async with torch_side("numa", options.numa_binding, str(options.slots), spare=spare) as side:
            preparation.cpus = [tuple(cpus) for cpus in await side.answer()]


def _pass_on(end: End) -> None:
    """Copy the root cause to where whoever started this agent looks for it."""
    destination = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not destination or not end.failures:
        return
    root = end.failures[0]
    here = root.host == socket.gethostname()
    told = failures.Failure(
        rank=root.exit.rank,
        local_rank=root.exit.local_rank,
        host=root.host,
        pid=root.exit.pid,
        exit_code=root.exit.exit_code,
        time=root.exit.time,
        message=root.exit.message,
        traceback=root.exit.traceback,
        error_file=root.exit.error_file if here else "",
    )
    try:
        failures.copy_root_cause(told, destination)
    except OSError as error:
        structlog.get_logger().warning("error_file_not_written", path=destination, reason=str(error))


def _failure(failure: Failure) -> RankFailure:
    """For the report: the path of an error file that went with this agent's temporary folder is of no use."""
    end = failure.exit
    gone = failure.host == socket.gethostname() and not os.path.exists(end.error_file)
    return RankFailure(
        failure.host,
        end.rank,
        end.local_rank,
        end.pid,
        end.exit_code,
        end.time,
        "" if gone else end.error_file,
        end.message,
        end.traceback,
    )
