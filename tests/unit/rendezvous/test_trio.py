"""What is done to the members of an embedded etcd, against a world in which anything may be lost at any time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from elaunch.rendezvous.store import ClusterMember
from elaunch.rendezvous.trio import CATCH_UP, DEAD, LOST, Action, Add, Invite, Promote, Remove, Rest, decide, heir
from elaunch.rendezvous.trio_view import NAME, Berth, Candidate, Seen, View, address_of, ours, whole

MOST = 6  # hosts


@dataclass
class Host:
    """A machine: with power, maybe a node (an agent), maybe the process of a member."""

    address: str
    power: bool = True
    node: str = ""
    peer: str = ""  # of the member that runs here, or of the place that its node offers
    runs: bool = False
    stuck: bool = False

    @property
    def answers(self) -> bool:
        return self.power and self.runs and not self.stuck


@dataclass
class World:
    """Hosts, the members as etcd knows them, and a clock."""

    hosts: list[Host] = field(default_factory=list)
    members: list[ClusterMember] = field(default_factory=list)
    now: float = 0.0
    heard: dict[int, float] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def boot(self) -> Host:
        number = next(self.numbers)
        host = Host(f"10.0.0.{number}", node=f"n{number}")
        self.hosts.append(host)
        return host

    def found(self) -> None:
        """The first host's etcd, alone."""
        host = self.boot()
        host.peer, host.runs = f"http://{host.address}:1", True
        self.members.append(member(next(self.numbers), host.peer, learner=False))

    def host_of(self, peer: str) -> Host | None:
        return next((host for host in self.hosts if host.peer == peer), None)

    def answers(self, one: ClusterMember) -> bool:
        host = self.host_of(one.peers[0])
        return host is not None and host.answers

    def majority(self, members: list[ClusterMember]) -> bool:
        voters = [one for one in members if not one.learner]
        return sum(map(self.answers, voters)) > len(voters) // 2

    def view(self) -> View:
        for one in self.members:
            if self.answers(one) or one.id not in self.heard:
                self.heard[one.id] = self.now
        seen = tuple(
            Seen(one, 0.0 if self.answers(one) else self.now - self.heard[one.id] + 0.01) for one in self.members
        )
        alive = [host for host in self.hosts if host.power and host.node]
        berths = tuple(Berth(host.node, host.address, host.peer, "x:1") for host in alive if host.peer)
        candidates = tuple(Candidate(host.node, host.address) for host in alive if not host.peer)
        return View(seen, berths, candidates)

    def turn(self) -> Action:
        """One look and what follows, checked."""
        action = decide(self.view())
        if isinstance(action, Invite):
            host = next(host for host in self.hosts if host.node == action.node_id)
            assert host.power
            assert not host.peer
            host.peer = f"http://{host.address}:{next(self.numbers)}"
        elif isinstance(action, Add):
            assert not any(one.learner for one in self.members)
            assert all(self.answers(one) for one in self.members)
            assert address_of(action.peer) not in {address_of(one.peers[0]) for one in self.members}
            self.members.append(member(next(self.numbers), action.peer, learner=True))
            host = self.host_of(action.peer)
            assert host is not None
            host.runs = host.power
        elif isinstance(action, Promote):
            (one,) = [one for one in self.members if one.id == action.member]
            assert one.learner
            assert all(self.answers(other) for other in self.members)
            self.members[self.members.index(one)] = member(one.id, one.peers[0], learner=False)
        elif isinstance(action, Remove):
            (one,) = [one for one in self.members if one.id == action.member]
            self.members.remove(one)
            host = self.host_of(one.peers[0])
            if host is not None:
                host.peer, host.runs = "", False
        return action


def member(number: int, peer: str, *, learner: bool) -> ClusterMember:
    return ClusterMember(number, f"{NAME}{number}", (peer,), ("x:1",), learner)


class Losses(RuleBasedStateMachine):
    """Hosts come and go, agents die and return, members hang; looks come in between."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.found()
        self.world.boot()
        self.world.boot()

    @property
    def governed(self) -> bool:
        return self.world.majority(self.world.members)

    @precondition(lambda self: sum(host.power for host in self.world.hosts) < MOST)
    @rule()
    def boot(self) -> None:
        self.world.boot()

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        host = data.draw(st.sampled_from(self.world.hosts))
        host.power, host.runs = False, False

    @rule(data=st.data())
    def lose_or_restart_agent(self, data: st.DataObject) -> None:
        host = data.draw(st.sampled_from(self.world.hosts))
        if host.node or not host.power:
            host.node = ""
        else:
            host.node = f"n{next(self.world.numbers)}"
            host.peer = host.peer if host.runs else ""

    @rule(data=st.data())
    def hang_or_wake(self, data: st.DataObject) -> None:
        host = data.draw(st.sampled_from(self.world.hosts))
        host.stuck = not host.stuck

    @precondition(lambda self: self.governed)
    @rule(pauses=st.lists(st.sampled_from((0.5, LOST, DEAD)), min_size=1, max_size=4))
    def look(self, pauses: list[float]) -> None:
        """No look may cost the majority, and none may leave two members on one host."""
        for seconds in pauses:
            self.world.turn()
            assert self.governed
            self.world.now += seconds

    @invariant()
    def few(self) -> None:
        assert len([one for one in self.world.members if one.learner]) <= 1
        assert len(self.world.members) <= 4

    def teardown(self) -> None:
        """Left in peace, an etcd that has its majority becomes whole as soon as there are three hosts."""
        world = self.world
        for host in world.hosts:
            host.stuck = False
        if not self.governed:
            return
        for _ in range(40):
            world.turn()
            assert self.governed
            world.now += LOST
        last = world.turn()
        alive = [host for host in world.hosts if host.power and host.node]
        if len(alive) >= 3:
            assert whole(world.view()), (last, world)
        assert isinstance(last, Rest), (last, world)


TestLosses = Losses.TestCase
TestLosses.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


def berth(number: int) -> Berth:
    return Berth(f"n{number}", f"10.0.0.{number}", f"http://10.0.0.{number}:1", f"10.0.0.{number}:2379")


def voter(number: int, silent: float = 0.0) -> Seen:
    return Seen(member(number, f"http://10.0.0.{number}:1", learner=False), silent)


def learner(number: int, silent: float = 0.0) -> Seen:
    return Seen(member(number, f"http://10.0.0.{number}:1", learner=True), silent)


def candidate(number: int) -> Candidate:
    return Candidate(f"n{number}", f"10.0.0.{number}")


@pytest.mark.parametrize(
    ("members", "hosting", "candidates", "expected"),
    [
        ((voter(1),), (1,), (), Rest),
        ((voter(1),), (1,), (candidate(2),), Rest),  # two hosts are worse than one
        ((voter(1),), (1,), (candidate(1), candidate(1)), Rest),  # as are three nodes of one host
        ((voter(1),), (1,), (candidate(2), candidate(3)), Invite),
        ((voter(1),), (1, 2), (candidate(3),), Add),
        ((voter(1), learner(2, 1.0)), (1, 2), (candidate(3),), Rest),
        ((voter(1), learner(2, CATCH_UP)), (1, 2), (candidate(3),), Remove),
        ((voter(1), learner(2)), (1,), (candidate(3),), Remove),
        ((voter(1), learner(2)), (1, 2), (candidate(3),), Promote),
        ((voter(1), voter(2), voter(3, 1.0), learner(4)), (1, 2, 3, 4), (), Rest),  # not while a member is silent
        ((voter(1), voter(2)), (1, 2, 3), (), Add),
        ((voter(1), voter(2), voter(3)), (1, 2, 3), (candidate(4),), Rest),
        ((voter(1), voter(2), voter(3, 1.0)), (1, 2), (candidate(4),), Rest),
        ((voter(1), voter(2), voter(3, LOST)), (1, 2), (candidate(4),), Remove),
        ((voter(1), voter(2), voter(3, LOST)), (1, 2, 3), (candidate(4),), Rest),  # its node lives: it may come back
        ((voter(1), voter(2), voter(3, DEAD)), (1, 2, 3), (candidate(4),), Remove),
        ((voter(1), voter(2, DEAD), voter(3, DEAD)), (1,), (candidate(4),), Rest),  # nothing can be agreed on
        ((voter(1), voter(2), voter(3)), (1, 2), (candidate(4),), Invite),  # the other comes first
        ((voter(1), voter(2), voter(3), voter(4)), (1, 2, 4), (), Remove),
        ((voter(1), voter(2), voter(3), voter(4)), (1, 4), (candidate(5),), Remove),  # four lose no more than three may
        ((voter(1), voter(2), voter(3), voter(4)), (1, 2, 3, 4), (), Remove),  # its node came back
        ((voter(1), voter(2), voter(3)), (1, 2), (), Rest),  # better than none
        ((voter(1), voter(2)), (1,), (), Remove),  # one that may go at any time is worse than none
    ],
)
def test_what_is_next(
    members: tuple[Seen, ...], hosting: tuple[int, ...], candidates: tuple[Candidate, ...], expected: type[Action]
) -> None:
    action = decide(View(members, tuple(map(berth, hosting)), candidates))
    assert isinstance(action, expected), action


LEADING = replace(voter(1), leads=True)


@pytest.mark.parametrize(
    ("members", "hosting", "expected"),
    [
        ((LEADING, voter(2), voter(3)), (1, 2, 3), 2),
        ((LEADING, voter(2), voter(3)), (3,), 3),  # one that is not to go next
        ((LEADING, voter(2, 0.1), voter(3)), (2,), 3),  # of no use otherwise
        ((LEADING, voter(2, 0.1), learner(3)), (2, 3), None),
        ((voter(1), replace(voter(2), leads=True), voter(3)), (1, 2, 3), None),
    ],
)
def test_who_is_to_lead_before_the_first_one_goes(
    members: tuple[Seen, ...], hosting: tuple[int, ...], expected: int | None
) -> None:
    found = heir(View(members, tuple(map(berth, hosting)), ()), 1)
    assert (None if found is None else found.member.id) == expected


def test_a_node_that_refuses_keeps_nothing() -> None:
    refusing = Berth("n2", "10.0.0.2", "http://10.0.0.2:1", "10.0.0.2:2379", "no space")
    action = decide(View((voter(1), learner(2, 1.0)), (berth(1), refusing), (candidate(3),)))
    assert isinstance(action, Remove)
    assert action.member == 2


def test_an_etcd_of_somebody_else_is_left_alone() -> None:
    assert ours((voter(1).member, ClusterMember(2, "", ("http://10.0.0.2:1",), (), True)))
    assert not ours((ClusterMember(1, "default", ("http://10.0.0.1:2380",), ("10.0.0.1:2379",), False),))
    assert not ours(())
