"""Everything that an agent needs, opened in the order in which it takes time, closed in the reverse."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from elaunch.agent import trees
from elaunch.agent.events import EventLog
from elaunch.agent.group import Group
from elaunch.agent.health import health_port
from elaunch.agent.links import LinkWatch
from elaunch.agent.local_jobs import registered
from elaunch.agent.log_watch import watching
from elaunch.agent.logs_specs import arguments
from elaunch.agent.mailbox import Mailbox
from elaunch.agent.options import LaunchOptions
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
from elaunch.rendezvous import addresses
from elaunch.rendezvous.keys import JobKeys

if TYPE_CHECKING:
    from elaunch.agent.binding import Binder
    from elaunch.agent.reachability import Reachability


@dataclass(frozen=True, slots=True)
class Parts:
    """What an agent is made of. ``address`` is this node's, ``control`` where its control server is reached.

    ``topology`` is the digest of the machine. ``deadline_passed`` is set when the dead-man's switch has killed the
    ranks. ``farewell`` is the file from which a farewell process reads what to do, should the agent be killed.
    """

    backend: Backend
    server: ControlServer
    address: str
    control: str
    group: Group
    pulse: Pulse
    board: StatusBoard
    page: DeadlinePage
    deadline_passed: asyncio.Event
    farewell: Path
    events: EventLog
    witnesses: Callable[[], list[Witness]]
    mailbox: Mailbox
    topology: str
    reachability: Reachability | None
    links: LinkWatch


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
    farewell = runtime / "farewell.json"
    # Not ours to stop: what this process had for children before it became an agent (exec'd from a shell script),
    # and the keeper of an embedded etcd, which may have to outlive it.
    spared = trees.children(os.getpid())
    dog = watchdog(os.environ)
    board = StatusBoard()
    preparation = LaunchPreparation(options, os.environ, runtime, watchdog=dog, board=board, deadline=page.path)
    if preparation.warning:
        structlog.get_logger().warning("omp_num_threads", text=preparation.warning)
    stack.callback(preparation.folder.remove_unused)
    stack.callback(preparation.pages.close)
    await stack.enter_async_context(watching(preparation.folder))
    await stack.enter_async_context(health_port(os.environ))
    if dog is not None:
        stack.enter_context(dog.listening())
    passed = asyncio.Event()
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
    backend = await open_backend(options, spared.append)
    register = stack.enter_context(registered(options.job, lambda: backend.endpoints, etcd_access(options)))
    if backend.steading is not None:
        backend.steading.listeners.append(register)
    stack.push_async_callback(backend.release, JobKeys(options.job).nodes, options.conf.close_timeout)
    address = binder.address = local_address(options)
    topology = await binder.look()
    listening = functools.partial(addresses.listen, address)
    group = Group(
        spawner,
        open_spawner,
        board,
        preparation,
        listening,
        options.shutdown_timeout,
        options.notice_signal,
        options.max_restarts,
        options.scheduled,
    )
    group.ranks.spared = preparation.pages.spared
    stack.push_async_callback(group.close)
    server = ControlServer(options.security, options.max_nodes)
    port = await server.start(addresses.listening_host(address) or "::")
    stack.push_async_callback(server.stop)
    control = addresses.join(address, port)
    reachability = _reachability(options, board, address)
    if reachability is not None:
        stack.push_async_callback(reachability.close)
    links = _links(binder, group)
    pulse = Pulse(
        board, group.ranks, lambda: preparation.pages.read(time.monotonic()), interval_for, SystemClock(), links
    )
    witnesses = functools.partial(_witnesses, preparation)
    return Parts(
        backend,
        server,
        address,
        control,
        group,
        pulse,
        board,
        page,
        passed,
        farewell,
        preparation.events,
        witnesses,
        preparation.mailbox,
        topology,
        reachability,
        links,
    )


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
    return preparation.witnesses(time.monotonic())


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
