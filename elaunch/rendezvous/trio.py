"""An embedded etcd of three members: what is to be done next so that no node's loss is the job's. Pure.

One change at a time, each safe by itself: a member that is lost goes before another comes in its place, one that only
lost its node goes after; a newcomer is a learner first and votes once it has caught up. etcd checks each change again.
"""

from __future__ import annotations

from dataclasses import dataclass

from elaunch.rendezvous.trio_view import SIZE, Candidate, Seen, View, address_of, has_node, hosted, offered, voters_in

LOST = 3.0  # seconds of silence after which a member whose node is gone is lost
DEAD = 30.0  # seconds of silence after which a member is lost though its node lives
CATCH_UP = 60.0  # seconds that a newcomer gets until it answers


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


def decide(view: View) -> Action:
    """What to do next."""
    return _lost(view) or _newcomer(view) or _surplus(view) or _grow(view)


def can_go(voters: list[Seen], one: Seen) -> bool:
    """Whether the voters can agree on letting ``one`` go, and on anything after."""
    rest = [seen for seen in voters if seen is not one]
    return _majority(voters) and _majority(rest)


def heir(view: View, member: int) -> Seen | None:
    """Who is to lead the members before ``member`` is let go; None if it leads nobody, or nobody else can.

    etcd lets a leader go without a successor: until the others have elected one, no lease can be renewed.
    """
    if not any(seen.leads for seen in view.members if seen.member.id == member):
        return None
    rest = [seen for seen in voters_in(view) if seen.healthy and seen.member.id != member]
    return max(rest, key=lambda seen: has_node(view, seen), default=None)


def _majority(voters: list[Seen]) -> bool:
    return sum(seen.healthy for seen in voters) > len(voters) // 2


def _lost(view: View) -> Remove | None:
    voters = voters_in(view)
    for seen in sorted(voters, key=lambda seen: -seen.silent):
        kept = has_node(view, seen)
        if seen.silent >= (DEAD if kept else LOST) and can_go(voters, seen):
            why = f"silent for {seen.silent:.0f} s" if kept else "lost with its node"
            return Remove(seen.member.id, f"the member at {seen.where} is {why}")
    return None


def _newcomer(view: View) -> Action | None:
    for seen in view.members:
        if not seen.member.learner:
            continue
        if not has_node(view, seen):
            return Remove(seen.member.id, f"the newcomer at {seen.where} is lost with its node")
        if seen.silent >= CATCH_UP:
            return Remove(seen.member.id, f"the newcomer at {seen.where} did not come within {CATCH_UP:.0f} s")
        if not seen.healthy:
            return Rest(f"the newcomer at {seen.where} does not answer yet")
        if not all(voter.healthy for voter in voters_in(view)):
            return Rest("a member does not answer: the newcomer waits for its vote")
        return Promote(seen.member.id, f"the newcomer at {seen.where} answers")
    return None


def _surplus(view: View) -> Remove | None:
    """A member that lives though its node is gone: of use while there is no better one, but never one of two."""
    voters = voters_in(view)
    pair = len(voters) == 2 and hosted(view) == 1 and not offered(view) and not _candidates(view)
    if len(voters) <= SIZE and not pair:
        return None
    for seen in sorted(voters, key=lambda seen: has_node(view, seen)):
        if can_go(voters, seen):
            why = f"is one of {len(voters)}" if has_node(view, seen) else "has no node any more"
            return Remove(seen.member.id, f"the member at {seen.where} {why}")
    return None


def _grow(view: View) -> Action:
    voters, offers, candidates = voters_in(view), offered(view), _candidates(view)
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


def _candidates(view: View) -> list[Candidate]:
    """Those on hosts that have no part in the cluster yet: two members of one host would be lost together."""
    busy = {address_of(peer) for seen in view.members for peer in seen.member.peers}
    busy |= {berth.address for berth in view.berths}
    able = [one for one in view.candidates if one.address not in busy]
    return list({one.address: one for one in reversed(able)}.values())[::-1]
