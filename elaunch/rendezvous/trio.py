"""An embedded etcd of three members: what is to be done next so that no node's loss is the job's. Pure.

One change at a time, each safe by itself: a member that is lost goes before another comes in its place, one that only
lost its node goes after; a newcomer is a learner first and votes once it has caught up. etcd checks each change again.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from elaunch.rendezvous.store import ClusterMember

SIZE = 3
LOST = 3.0  # seconds of silence after which a member whose node is gone is lost
DEAD = 30.0  # seconds of silence after which a member is lost though its node lives
CATCH_UP = 60.0  # seconds that a newcomer gets until it answers
NAME = "elaunch-"  # how the names of our members begin: no other cluster is touched


@dataclass(frozen=True, slots=True)
class Berth:
    """A node's word that it keeps a member, or would: the key is on its lease.

    ``peer`` is the URL for the other members, ``endpoint`` where clients connect. ``refusal`` is why it cannot.
    """

    node_id: str
    address: str
    peer: str
    endpoint: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class MemberList:
    """The members as the job's leader knows them, for all nodes to learn.

    ``endpoints`` are where clients connect, ``peers`` the URLs of all members, learners too; ``invited`` is the node
    that is asked to keep one more, "" if none.
    """

    endpoints: tuple[str, ...]
    peers: tuple[str, ...]
    invited: str = ""

    def __post_init__(self) -> None:
        for name in ("endpoints", "peers"):  # JSON has lists only
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Seen:
    """A member, and for how many seconds it has not answered: 0 if it answers and follows a leader."""

    member: ClusterMember
    silent: float

    @property
    def healthy(self) -> bool:
        return self.silent == 0

    @property
    def where(self) -> str:
        return ", ".join(self.member.peers)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A living node that keeps no member and was not found unable to."""

    node_id: str
    address: str


@dataclass(frozen=True, slots=True)
class View:
    """All that a decision is taken from. ``candidates`` are in the order in which they are asked."""

    members: tuple[Seen, ...]
    berths: tuple[Berth, ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Invite:
    """Ask a node to offer a berth."""

    node_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Add:
    """Take in a learner."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Promote:
    """Give a learner its vote."""

    member: int
    reason: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Let a member go."""

    member: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing can or need be done now. ``tell`` where a person should know why."""

    reason: str
    tell: bool = False


Action = Invite | Add | Promote | Remove | Rest


def ours(members: tuple[ClusterMember, ...]) -> bool:
    """Whether this is an etcd that agents of ours have started; a user's own is none of our business."""
    names = [member.name for member in members if member.name]
    return bool(names) and all(name.startswith(NAME) for name in names)


def address_of(peer: str) -> str:
    """The host in a peer URL, as it was written, without brackets."""
    return urlsplit(peer).netloc.rpartition(":")[0].strip("[]")


def decide(view: View) -> Action:
    """What to do next."""
    return _lost(view) or _newcomer(view) or _surplus(view) or _grow(view)


def whole(view: View) -> bool:
    """Whether every one of three voters answers and has its node."""
    kept = [seen for seen in _voters(view) if _kept(view, seen) and seen.healthy]
    return len(kept) >= SIZE and len(kept) == len(view.members)


def hosted(view: View) -> int:
    """How many voters have a living node."""
    return sum(_kept(view, seen) for seen in _voters(view))


def _voters(view: View) -> list[Seen]:
    return [seen for seen in view.members if not seen.member.learner]


def _kept(view: View, seen: Seen) -> bool:
    return any(berth.peer in seen.member.peers for berth in view.berths if not berth.refusal)


def can_go(voters: list[Seen], one: Seen) -> bool:
    """Whether the voters can agree on letting ``one`` go, and on anything after."""
    rest = [seen for seen in voters if seen is not one]
    return _majority(voters) and _majority(rest)


def _majority(voters: list[Seen]) -> bool:
    return sum(seen.healthy for seen in voters) > len(voters) // 2


def _lost(view: View) -> Remove | None:
    voters = _voters(view)
    for seen in sorted(voters, key=lambda seen: -seen.silent):
        kept = _kept(view, seen)
        if seen.silent >= (DEAD if kept else LOST) and can_go(voters, seen):
            why = f"silent for {seen.silent:.0f} s" if kept else "lost with its node"
            return Remove(seen.member.id, f"the member at {seen.where} is {why}")
    return None


def _newcomer(view: View) -> Action | None:
    for seen in view.members:
        if not seen.member.learner:
            continue
        if not _kept(view, seen):
            return Remove(seen.member.id, f"the newcomer at {seen.where} is lost with its node")
        if seen.silent >= CATCH_UP:
            return Remove(seen.member.id, f"the newcomer at {seen.where} did not come within {CATCH_UP:.0f} s")
        if not seen.healthy:
            return Rest(f"the newcomer at {seen.where} does not answer yet")
        if not all(voter.healthy for voter in _voters(view)):
            return Rest("a member does not answer: the newcomer waits for its vote")
        return Promote(seen.member.id, f"the newcomer at {seen.where} answers")
    return None


def _surplus(view: View) -> Remove | None:
    """A member that lives though its node is gone: of use while there is no better one, but never one of two."""
    voters = _voters(view)
    pair = len(voters) == 2 and hosted(view) == 1 and not offered(view) and not _candidates(view)
    if len(voters) <= SIZE and not pair:
        return None
    for seen in sorted(voters, key=lambda seen: _kept(view, seen)):
        if can_go(voters, seen):
            why = f"is one of {len(voters)}" if _kept(view, seen) else "has no node any more"
            return Remove(seen.member.id, f"the member at {seen.where} {why}")
    return None


def _grow(view: View) -> Action:
    voters, offers, candidates = _voters(view), offered(view), _candidates(view)
    if hosted(view) >= SIZE:
        return Rest("the trio is whole")
    if not all(seen.healthy for seen in voters):
        return Rest("a member does not answer")
    hosts = len(voters) + len({berth.address for berth in offers} | {one.address for one in candidates})
    if hosts < SIZE:
        return Rest(f"with {hosts} of {SIZE} hosts the job's etcd cannot survive the loss of its own", tell=True)
    if offers:
        return Add(offers[0].peer, f"node {offers[0].node_id} offers a place at {offers[0].endpoint}")
    if candidates:
        return Invite(candidates[0].node_id, f"{hosted(view)} of {SIZE} members have a node")
    return Rest("no other host can keep a member")


def offered(view: View) -> list[Berth]:
    """The places that nodes offer for members which are not taken in yet."""
    taken = {peer for seen in view.members for peer in seen.member.peers}
    return [berth for berth in view.berths if not berth.refusal and berth.peer not in taken]


def _candidates(view: View) -> list[Candidate]:
    """Those on hosts that have no part in the cluster yet: two members of one host would be lost together."""
    busy = {address_of(peer) for seen in view.members for peer in seen.member.peers}
    busy |= {berth.address for berth in view.berths}
    able = [one for one in view.candidates if one.address not in busy]
    return list({one.address: one for one in reversed(able)}.values())[::-1]
