"""What the ranks of this node are bound to in a generation: what the policy says, in the words of the libraries."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from elaunch.agent.aside import aside
from elaunch.agent.bound import Bound, Ports
from elaunch.agent.confinement import memory_refused
from elaunch.agent.machine import Machine
from elaunch.agent.options import LaunchOptions
from elaunch.agent.summary import not_allowed, summary
from elaunch.agent.weaker import free, weaker
from elaunch.errors import NoRouteError, StartError, UsageError
from elaunch.rendezvous.addresses import resolve
from elaunch.topology.binding import NodeBinding, Wishes
from elaunch.topology.cpus import CpuSet, cpu_set
from elaunch.topology.digest import digest
from elaunch.topology.drawing import svg
from elaunch.topology.machine import Port, Topology
from elaunch.topology.policy import bind
from elaunch.topology.render import nccl
from elaunch.topology.render.ground import TOLD, Ground, ports_of
from elaunch.topology.render.rendering import render
from elaunch.topology.render.visible import unlike, visible
from elaunch.topology.tree import tree

NAMES_SECONDS = 5.0  # for the name of --local-addr to be resolved


class Binder:
    """Binds the ranks of one node.

    ``environ`` is what the user set, ``address`` where other nodes reach this one. ``ports_in_use`` are those of the
    last generation that was bound, each with the local ranks that use it. ``picture`` is the machine as SVG.
    """

    def __init__(self, options: LaunchOptions, environ: Mapping[str, str]) -> None:
        self.address = ""
        self.picture = ""
        self.ports_in_use: tuple[tuple[Port, tuple[int, ...]], ...] = ()
        self.machine = Machine(options.binding.machine, environ)
        self._options = options
        self._wishes = options.binding.wishes
        self._user = {name: value for name, value in environ.items() if name not in TOLD}
        self._shown = ""
        self._refused: dict[int, str] = {}

    async def look(self) -> str:
        """The digest of the machine. Raises UsageError where the operator asks for what it has not."""
        topology = await self.machine.now()
        if topology is None:
            return ""
        seen = self._seen(topology)
        node = bind(seen, self._options.slots, replace(self._wishes, network=False))
        if self._wishes.device_map and not self._options.virtual_local_rank:
            _demand_distinct(node)
        self.picture = svg(tree(topology), node, "Topology of this kind of machine")
        return digest(topology)

    def ahead(self) -> None:
        """Look at the machine already: a generation is about to be asked for."""
        self.machine.begin()

    async def bind(self, generation: int, nodes: int, avoid: Ports = (), unreachable: Ports = ()) -> list[Bound]:
        """The ranks of a generation of so many nodes.

        ``avoid`` are ports that a degraded link took out, those to be used again first last; ``unreachable`` those that
        a probe found to lead nowhere. Both are left out as long as others are left. Raises NoRouteError, StartError.
        """
        self.ports_in_use = ()
        topology = await self.machine.now()
        if topology is None:
            return [Bound({}) for _ in range(self._options.slots)]
        own = await self._addresses()
        alone = bool(own) and all(ipaddress.ip_address(address).is_loopback for address in own)
        wishes = replace(
            self._wishes, network=nodes > 1 and not alone, avoid=tuple(avoid), unreachable=tuple(unreachable)
        )
        far = [address for address in own if not ipaddress.ip_address(address).is_loopback]
        names = [name for address in far if (name := await self.machine.interface_of(address))]
        node = self._bind(self._seen(topology), wishes, names)
        ground = replace(await self._ground(topology, names), ports=ports_of(node))
        rendering = render(node, ground)
        self.ports_in_use = _users(node, ground)
        for text in (*node.warnings, *rendering.conflicts, *unlike(topology.devices, ground)):
            self.machine.warn("binding_remark", text)
        self._tell(generation, node)
        allowed = cpu_set(os.sched_getaffinity(0))
        for text in not_allowed(node.ranks, allowed):
            self.machine.warn("binding_remark", text)
        return [
            Bound(env, _both(rank.cpus, allowed), await self._memory(rank.memory))
            for rank, env in zip(node.ranks, rendering.ranks, strict=True)
        ]

    def _bind(self, topology: Topology, wishes: Wishes, own: Sequence[str]) -> NodeBinding:
        """Raises NoRouteError where no way is left, be it one of which something ill was told."""
        try:
            return self._bind_by(topology, wishes)
        except NoRouteError as error:
            for less, sentence in weaker(topology, wishes, own, self._user):
                with suppress(NoRouteError):
                    node = self._bind_by(topology, less)
                    self.machine.warn("binding_remark", f"{error}; {sentence}")
                    return node
            raise

    def _bind_by(self, topology: Topology, wishes: Wishes) -> NodeBinding:
        try:
            return bind(topology, self._options.slots, wishes)
        except UsageError as error:  # it was there when the agent began
            raise StartError(str(error)) from error

    def _seen(self, topology: Topology) -> Topology:
        """With the devices that the ranks will see, counted as they count them, and the ports that they will use."""
        if free(self._wishes) and not self._wishes.exclude:  # these name ports that must be there
            topology = nccl.by_sockets(topology, self._user)
        try:
            devices = visible(self._user, topology.devices)
        except ValueError as error:
            if topology.devices:
                self.machine.warn("binding_remark", f"{error}: ranks are bound as if there were no devices")
            devices = ()
        if devices is None:
            return topology
        return replace(topology, devices=tuple(replace(device, index=n) for n, device in enumerate(devices)))

    async def _ground(self, topology: Topology, own: Sequence[str]) -> Ground:
        options = self._options
        return Ground(
            user=self._user,
            own=next((name for name in own if self.machine.is_hardware(name)), ""),
            topology_file=options.binding.nccl_file,
            every_interface=self._wishes.nic_policy == "all",
            virtual=options.virtual_local_rank,
            mapped=bool(self._wishes.device_map),
            host=socket.gethostname(),
            digest=digest(topology),
        )

    async def _addresses(self) -> list[str]:
        try:
            found = await aside(lambda: resolve(self.address), NAMES_SECONDS)
        except asyncio.TimeoutError:
            found = ()
        return [str(address) for address in found]

    async def _memory(self, node: int | None) -> int | None:
        """``node`` where its memory may be preferred: a container may be refused that."""
        if node is None:
            return None
        if node not in self._refused:
            self._refused[node] = memory_refused(node)
        if why := self._refused[node]:
            hint = " (a container needs CAP_SYS_NICE for that)" if "not permitted" in why else ""
            self.machine.warn("binding_remark", why + hint)
            return None
        return node

    def _tell(self, generation: int, node: NodeBinding) -> None:
        """One line for each generation: for a person where something is bound that was not so before."""
        text = summary(node)
        log = structlog.get_logger()
        (log.info if text and text != self._shown else log.debug)("binding", generation=generation, text=text)
        self._shown = text


def _users(node: NodeBinding, ground: Ground) -> tuple[tuple[Port, tuple[int, ...]], ...]:
    users: dict[Port, list[int]] = {}
    for rank in node.ranks:
        for port in nccl.effective(node, rank, ground):
            users.setdefault(port, []).append(rank.local_rank)
    return tuple((port, tuple(ranks)) for port, ranks in users.items())


def _demand_distinct(node: NodeBinding) -> None:
    devices = [rank.device.id for rank in node.ranks if rank.device is not None]
    if twice := [device for n, device in enumerate(devices) if device in devices[:n]]:
        raise UsageError(f"--device-map: {twice[0]} is there twice; ranks share one with --virtual-local-rank only")


def _both(cpus: CpuSet | None, allowed: CpuSet) -> CpuSet | None:
    """Those of ``cpus`` that this agent may use; None where that is none: all that it may use."""
    return tuple(cpu for cpu in cpus or () if cpu in allowed) or None
