"""Everything that an agent needs, opened in the order in which it takes time, closed in the reverse."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from elaunch.agent import trees
from elaunch.agent.group import Group
from elaunch.agent.health import health_port
from elaunch.agent.links import LinkWatch
from elaunch.agent.local_jobs import registered
from elaunch.agent.log_watch import watching
from elaunch.agent.logs_specs import arguments
from elaunch.agent.options import LaunchOptions
from elaunch.agent.parts import Parts
from elaunch.agent.places import local_address
from elaunch.agent.preparation import LaunchPreparation
from elaunch.agent.pulse import Pulse
from elaunch.agent.spawner import Spawner
from elaunch.agent.status import StatusBoard
from elaunch.agent.store import Backend, etcd_access, open_backend
from elaunch.agent.torchside import torch_side
from elaunch.agent.watchdog import watchdog
from elaunch.agent.witness import Witness
from elaunch.clock import SystemClock
from elaunch.controller.liveness import interval_for
from elaunch.controller.server import ControlServer
from elaunch.deadline_page import DeadlinePage
from elaunch.progress import RankProgress
from elaunch.rendezvous import addresses
from elaunch.rendezvous.keys import JobKeys

if TYPE_CHECKING:
    from elaunch.agent.binding import Binder
    from elaunch.agent.reachability import Reachability


@asynccontextmanager
async def opened(options: LaunchOptions) -> AsyncIterator[Parts]:
    """The parts, open until the context is left. Raises ElaunchError."""
    runtime = Path(tempfile.mkdtemp(prefix="elaunch-"))
    page = DeadlinePage.create()
    try:
        async with AsyncExitStack() as stack:
            yield await _open(options, runtime, page, stack)
    finally:
        shutil.rmtree(runtime, ignore_errors=True)
        page.close()


async def _open(options: LaunchOptions, runtime: Path, page: DeadlinePage, stack: AsyncExitStack) -> Parts:
    farewell, passed, board = runtime / "farewell.json", asyncio.Event(), StatusBoard()
    # Not ours to stop: what this process had for children before it became an agent (exec'd from a shell script),
    # and the keeper of an embedded etcd, which may have to outlive it.
    spared = trees.children(os.getpid())
    preparation = await _prepared(options, runtime, page, board, spared, stack)
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
        deadline_passed=passed,
    )
    spawner = await open_spawner()
    binder = preparation.binder = _binder(options)
    binder.machine.begin()
    stack.push_async_callback(spawner.close)
    await _ask_torch(options, preparation, spared, stack)
    backend = await _joined(options, spared, stack)
    address = binder.address = local_address(options)
    topology = await binder.look()
    group = Group(
        spawner,
        open_spawner,
        board,
        preparation,
        functools.partial(addresses.listen, address),
        options.shutdown_timeout,
        options.notice_signal,
        options.max_restarts,
        options.scheduled,
    )
    group.ranks.spared = preparation.pages.spared
    stack.push_async_callback(group.close)
    server, port = await _serving(options, address, stack)
    reachability = _reachability(options, board, address)
    if reachability is not None:
        stack.push_async_callback(reachability.close)
    links = _links(binder, group)
    read = functools.partial(_progress, preparation)
    return Parts(
        backend,
        server,
        address,
        addresses.join(address, port),
        group,
        Pulse(board, group.ranks, read, interval_for, SystemClock(), links),
        board,
        page,
        passed,
        farewell,
        preparation.events,
        functools.partial(_witnesses, preparation),
        preparation.mailbox,
        topology,
        reachability,
        links,
        preparation.inject_pages,
        binder.picture,
    )


async def _prepared(
    options: LaunchOptions,
    runtime: Path,
    page: DeadlinePage,
    board: StatusBoard,
    spared: list[int],
    stack: AsyncExitStack,
) -> LaunchPreparation:
    """What ranks are started with, and the ports at which this process is asked how it is."""
    dog = watchdog(os.environ)
    preparation = LaunchPreparation(options, os.environ, runtime, watchdog=dog, board=board, deadline=page.path)
    if preparation.warning:
        structlog.get_logger().warning("omp_num_threads", text=preparation.warning)
    stack.callback(preparation.folder.remove_unused)
    stack.callback(preparation.pages.close)
    if preparation.inject_pages is not None:
        preparation.inject_pages.spare = spared.append
        stack.callback(preparation.inject_pages.close)
    await stack.enter_async_context(watching(preparation.folder))
    await stack.enter_async_context(preparation.running_time.ticking())
    await stack.enter_async_context(health_port(os.environ))
    if dog is not None:
        stack.enter_context(dog.listening())
    return preparation


async def _joined(options: LaunchOptions, spared: list[int], stack: AsyncExitStack) -> Backend:
    """The job's etcd, where operators on this host find it too."""
    backend = await open_backend(options, spared.append)
    register = stack.enter_context(registered(options.job, lambda: backend.endpoints, etcd_access(options)))
    if backend.steading is not None:
        backend.steading.listeners.append(register)
    stack.push_async_callback(backend.release, JobKeys(options.job).nodes, options.conf.close_timeout)
    return backend


async def _serving(options: LaunchOptions, address: str, stack: AsyncExitStack) -> tuple[ControlServer, int]:
    """The control server, should this node lead, and its port."""
    server = ControlServer(options.security, options.max_nodes)
    port = await server.start(addresses.listening_host(address) or "::")
    stack.push_async_callback(server.stop)
    if options.otel:
        from elaunch.metrics.traces import Traces

        traces = Traces(os.environ)
        server.recovered = traces.recovered
        stack.push_async_callback(asyncio.to_thread, traces.close)
    return server, port


def _binder(options: LaunchOptions) -> Binder:
    """Imported only here, when the spawner process is on its way: that has most to import, and is waited for."""
    from elaunch.agent.binding import Binder

    return Binder(options, os.environ)


def _links(binder: Binder, group: Group) -> LinkWatch:
    return LinkWatch(lambda: binder.ports_in_use, lambda: _left_out(group), binder.machine.root, SystemClock())


def _left_out(group: Group) -> tuple[str, ...]:
    """The ports that the present generation was to do without."""
    generation = group.ranks.generation
    return tuple(port for port, _ in generation.start.avoid_ports) if generation is not None else ()


def _reachability(options: LaunchOptions, board: StatusBoard, address: str) -> Reachability | None:
    """What answers the other nodes' questions to the interfaces here; None where there are no other nodes."""
    if options.max_nodes == 1 or options.probe == "off" or addresses.listening_host(address):
        return None
    from elaunch.agent.reachability import Reachability

    made = Reachability(board, options.binding.wishes.exclude)
    made.open(address)
    return made


def _witnesses(preparation: LaunchPreparation) -> list[Witness]:
    return preparation.witnesses()


def _progress(preparation: LaunchPreparation) -> tuple[RankProgress, ...]:
    return preparation.pages.read(preparation.running_time.now())


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
