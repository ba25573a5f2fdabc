"""The members of an embedded etcd and the nodes that keep them, or would: what is known of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from elaunch.rendezvous.store import ClusterMember

SIZE = 3
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
    """A member, and for how many seconds it has not answered: 0 if it answers and follows a leader, or leads."""

    member: ClusterMember
    silent: float
    leads: bool = False

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


def ours(members: tuple[ClusterMember, ...]) -> bool:
    """Whether this is an etcd that agents of ours have started; a user's own is none of our business."""
    names = [member.name for member in members if member.name]
    return bool(names) and all(name.startswith(NAME) for name in names)


def address_of(peer: str) -> str:
    """The host in a peer URL, as it was written, without brackets."""
    return urlsplit(peer).netloc.rpartition(":")[0].strip("[]")


def whole(view: View) -> bool:
    """Whether every one of three voters answers and has its node."""
    kept = [seen for seen in voters_in(view) if has_node(view, seen) and seen.healthy]
    return len(kept) >= SIZE and len(kept) == len(view.members)


def hosted(view: View) -> int:
    """How many voters have a living node."""
    return sum(has_node(view, seen) for seen in voters_in(view))


def voters_in(view: View) -> list[Seen]:
    return [seen for seen in view.members if not seen.member.learner]


def has_node(view: View, seen: Seen) -> bool:
    return any(berth.peer in seen.member.peers for berth in view.berths if not berth.refusal)


def offered(view: View) -> list[Berth]:
    """The places that nodes offer for members which are not taken in yet."""
    taken = {peer for seen in view.members for peer in seen.member.peers}
    return [berth for berth in view.berths if not berth.refusal and berth.peer not in taken]
