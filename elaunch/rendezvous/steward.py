"""Whoever leads a job looks after its embedded etcd: the shell around :mod:`elaunch.rendezvous.trio`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NoReturn, Protocol, TypeVar

import structlog

from elaunch.clock import Clock
from elaunch.errors import AmbiguousError, DeposedError, ElaunchError, EtcdRefusedError
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Node, decode, encode
from elaunch.rendezvous.store import Cluster, ClusterMember, Compare, Health, KeyValue, Left, Put, Store, always
from elaunch.rendezvous.trio import LOST, Action, Add, Invite, Promote, Remove, Rest, decide, heir
from elaunch.rendezvous.trio_view import SIZE, Berth, Candidate, MemberList, Seen, View, hosted, offered, ours, whole

R = TypeVar("R")

BUSY = 0.5  # seconds between two looks while something is under way
IDLE = 3.0  # seconds between two looks at a trio that is whole
_ANSWER = 1.0  # seconds for a member to say how it is
_HANDOVER = 2.0  # seconds for another one to lead the members; it takes a heartbeat
_LASTING = 20.0  # seconds until a person hears that there are too few hosts
_REPLY = 15.0  # seconds for an invited node to offer a berth
_ASLEEP = 10.0  # seconds between two looks after which this process, or etcd, was not there: silence counts anew


class MemberStore(Store, Cluster, Protocol):
    """A store that knows its own members."""


class Steward:
    """One leader's care for the members of the job's etcd. ``guard`` holds for as long as it leads.

    ``left`` says for how many seconds it surely still does: a leader that was frozen finds that nothing is.
    """

    def __init__(self, store: MemberStore, keys: JobKeys, guard: Compare, clock: Clock, left: Left = always) -> None:
        self._left = left
        self._store = store
        self._keys = keys
        self._guard = guard
        self._clock = clock
        self._looked = clock.monotonic()
        self._heard: dict[int, float] = {}  # when a member last answered
        self._invited = ""
        self._asked_at = 0.0
        self._declined: set[str] = set()
        self._written: MemberList | None = None
        self._said: Action | None = None
        self._since = 0.0
        self._told = False
        self._log = structlog.get_logger().bind(job=keys.job)

    async def run(self) -> NoReturn:
        """Until cancelled: what goes wrong is tried again, with newer eyes."""
        while True:
            pause = BUSY
            try:
                pause = await self._turn()
            except (EtcdRefusedError, AmbiguousError) as error:  # "not now" is etcd's most frequent word here
                self._log.debug("etcd_members_unchanged", reason=str(error))
            except ElaunchError as error:
                self._log.debug("etcd_members_unknown", reason=str(error))
            await asyncio.sleep(pause)

    async def _turn(self) -> float:
        """Look, decide, act, tell; the seconds until the next look."""
        members = await self._store.members()
        if not ours(members):
            return IDLE
        view = await self._look(members)
        action = decide(view)
        self._say(action, view)
        await self._act(action, view)
        if isinstance(action, Add | Promote | Remove):
            members = await self._store.members()
        await self._tell(members)
        under_way = self._invited or any(seen.member.learner or not seen.healthy for seen in view.members)
        return IDLE if isinstance(action, Rest) and not under_way else BUSY

    async def _look(self, members: tuple[ClusterMember, ...]) -> View:
        healths = await asyncio.gather(*(self._health(member) for member in members))
        now = self._clock.monotonic()
        if now - self._looked > _ASLEEP:
            self._heard.clear()
        self._looked = now
        for member, health in zip(members, healths, strict=True):
            if member.id not in self._heard or (health is not None and health.leader):
                self._heard[member.id] = now
        seen = tuple(
            Seen(member, 0.0, leads=health.leader == member.id)
            if health is not None and health.leader
            else Seen(member, max(now - self._heard[member.id], 0.001))
            for member, health in zip(members, healths, strict=True)
        )
        snapshot = await self._store.list(self._keys.berths)
        berths = tuple(_of_kind(Berth, snapshot.items))
        view = View(seen, berths, ())
        if hosted(view) >= SIZE:  # the only case in which a large job need not be listed
            self._invited = ""
            return view
        self._take_over(view)
        return View(seen, berths, await self._candidates(berths))

    async def _health(self, member: ClusterMember) -> Health | None:
        if not member.endpoints:
            return None
        health = await self._store.health(member.endpoints[0], timeout=_ANSWER)
        return health if health is not None and health.member == member.id else None

    def _take_over(self, view: View) -> None:
        """Stand by the invitation of a leader before: who follows it must not take its offer back."""
        offers = offered(view)
        if offers and not self._invited:
            self._invited, self._asked_at = offers[0].node_id, self._clock.monotonic()

    async def _candidates(self, berths: tuple[Berth, ...]) -> tuple[Candidate, ...]:
        offering = {berth.node_id for berth in berths}
        if self._invited and self._invited not in offering and self._clock.monotonic() - self._asked_at > _REPLY:
            self._declined.add(self._invited)
        snapshot = await self._store.list(self._keys.nodes)
        nodes = list(_of_kind(Node, sorted(snapshot.items, key=lambda kv: kv.create_revision)))
        living = {node.node_id for node in nodes}
        self._declined &= living
        refusing = {berth.node_id for berth in berths if berth.refusal}
        if self._invited in self._declined | refusing or self._invited not in living:
            self._invited = ""
        return tuple(
            Candidate(node.node_id, node.address) for node in nodes if node.node_id not in offering | self._declined
        )

    async def _act(self, action: Action, view: View) -> None:
        if isinstance(action, Add | Promote | Remove):
            await self._check_leading()
        if isinstance(action, Invite):
            if self._invited != action.node_id:
                self._invited, self._asked_at = action.node_id, self._clock.monotonic()
        elif isinstance(action, Add):
            await self._store.add_learner(action.peer, left=self._left)
            self._invited = ""
        elif isinstance(action, Promote):
            await self._store.promote(action.member, left=self._left)
        elif isinstance(action, Remove):
            await self._hand_over(action.member, view)
            await self._store.remove(action.member, left=self._left)

    async def _hand_over(self, member: int, view: View) -> None:
        """Let another one lead the members before ``member`` goes; if none does, its going costs an election."""
        to = heir(view, member)
        if to is None:
            return
        # Who leads has answered, so it has an endpoint.
        (endpoint,) = [seen.member.endpoints[0] for seen in view.members if seen.member.id == member]
        done = await self._store.hand_over(endpoint, to.member.id, timeout=_HANDOVER)
        self._log.debug("etcd_leadership", reason="its holder is let go", to=to.where, done=done)

    async def _check_leading(self) -> None:
        """A change of members cannot be fenced: so this is asked just before, and the lease once more as it is sent."""
        if not (await self._store.txn([self._guard], [])).succeeded:
            raise DeposedError("another one leads: the members are its business")

    async def _tell(self, members: tuple[ClusterMember, ...]) -> None:
        """Let all nodes know, if there is news."""
        now = self._clock.monotonic()
        started = [member for member in members if member.endpoints and not member.learner]
        alive = [member for member in started if now - self._heard.get(member.id, now) < LOST] or started
        listed = MemberList(
            tuple(sorted(endpoint for member in alive for endpoint in member.endpoints[:1])),
            tuple(sorted(peer for member in members for peer in member.peers)),
            self._invited,
        )
        if listed != self._written:
            result = await self._store.txn([self._guard], [Put(self._keys.members, encode(listed))])
            if result.succeeded:
                self._written = listed

    def _say(self, action: Action, view: View) -> None:
        """Once for each thing that is done or stands in the way; what may pass by itself only once it lasts."""
        now = self._clock.monotonic()
        if action != self._said:
            self._said, self._since, self._told = action, now, False
        passing = isinstance(action, Rest) and action.tell
        if self._told or (passing and now - self._since < _LASTING):
            return
        self._told = True
        log = self._log.info if passing or isinstance(action, Add | Remove) else self._log.debug
        log("etcd_members", step=type(action).__name__.lower(), reason=action.reason)
        if whole(view):
            self._log.info("etcd_trio", text="the job's etcd has a member on three hosts: the loss of one is survived")


def _of_kind(kind: type[R], items: Iterable[KeyValue]) -> Iterator[R]:
    for kv in items:
        with suppress(ValueError):  # of a node that this release does not understand
            yield decode(kind, kv.value)
