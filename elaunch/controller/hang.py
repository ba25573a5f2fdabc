"""Whether a generation hangs, and who is to blame: the ranks' views in, one verdict out. No clock in here.

A job hangs when ranks wait and those that they wait for do nothing. So time alone decides nothing: somebody must have
waited for longer than it is allowed to, and whoever it waits for must have been idle for longer than *it* is allowed
to, by its own open section if it has one. A rank whose innermost line keeps changing is at work (an evaluation, a
shard read line by line): it gets ``busy`` times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from elaunch.controller.blame import Hang, culprit, from_rank, others, place, spread, unattached
from elaunch.controller.limits import Limits, any_sign, overdue
from elaunch.controller.sightings import RankView
from elaunch.controller.signs import HUNG, SECTION_OVERRUN, cause, frozen, idle, overrun, stuck
from elaunch.controller.waits import Wait, circle, operation, waits

COLLECTIVE_MISMATCH = "collective_mismatch"
ALL_WAITING = "all_waiting"

# Operations that the ranks of a group may honestly call with sizes of their own.
UNEVEN = ("alltoall", "gather", "scatter", "send", "recv")


def diagnose(ranks: Sequence[RankView], limits: Limits) -> Hang | None:
    """What hangs, or None. ``ranks`` are all of the generation that live.

    Certain signs come first: a stopped process, then a held lock, then the collectives that ranks wait in, then a
    section or a step that takes too long with nobody waiting.
    """
    if not any_sign(ranks, limits):
        return None
    live = [view for view in ranks if not view.ended]
    found = frozen(live, limits) or stuck(live, limits)
    if found:
        return found
    if any(view.waiting for view in live):
        return _waiting(live, limits) or overrun(live)
    return overrun(live) or idle(live, limits)


def _waiting(views: Sequence[RankView], limits: Limits) -> Hang | None:
    everyone = {view.rank: view for view in views}
    found = waits(views)
    late = [wait for wait in found if any(overdue(view, limits) for view in wait.inside)]
    for wait in late:
        if mismatch := _mismatch(wait):
            return mismatch
    missing = Counter[int]()
    for wait in late:
        blocking = (rank for rank in wait.absent if rank not in everyone or not everyone[rank].waiting)
        missing.update({rank: len(wait.inside) for rank in blocking})
    if missing:
        return _missing(missing, late, everyone, limits)
    for wait in found if late else ():
        if not wait.absent and all(overdue(view, limits) for view in wait.inside):
            return cause(wait.inside, limits) or (_left_behind(wait) if wait.left else _all_waiting(wait))
    ring = circle(late)
    return _crossed(ring) if ring else None


def _missing(
    missing: Mapping[int, int], late: Sequence[Wait], everyone: Mapping[int, RankView], limits: Limits
) -> Hang | None:
    """Somebody is waited for and waits for nobody. Guilty is who has also used up its own time."""
    guilty = [rank for rank in missing if rank not in everyone or overdue(everyone[rank], limits)]
    if not guilty:
        return None
    guilty.sort(key=lambda rank: (rank not in everyone, -missing[rank], rank))
    wait = next(wait for wait in late if guilty[0] in wait.absent)
    views = [everyone.get(rank) or RankView.unseen(rank) for rank in guilty]
    if known := cause(views, limits):
        return known
    text = (
        f"{from_rank(views[0])} has not entered {wait.what}, which {spread(len(wait.inside))} since "
        f"{wait.since:.0f} s{place(views[0]) or unattached(views[0])}{others(views)}"
    )
    section = views[0].progress.section_left
    code = SECTION_OVERRUN if section is not None and section < 0 else HUNG
    return _of(wait, code, text, views)


def _left_behind(wait: Wait) -> Hang:
    text = f"{from_rank(wait.inside[0])} is still in {wait.what} since {wait.since:.0f} s, which {wait.left} others "
    text += f"have left{place(wait.inside[0])}{others(wait.inside)}"
    return _of(wait, HUNG, text, wait.inside)


def _all_waiting(wait: Wait) -> Hang:
    first = wait.inside[0]
    text = f"all {wait.size} ranks of group {wait.group} wait in {wait.what} since {wait.since:.0f} s and nobody is "
    text += f"missing: the transport does not deliver{place(first, f'rank {first.rank} is')}"
    return _of(wait, ALL_WAITING, text, ())


def _mismatch(wait: Wait) -> Hang | None:
    """Different calls under one number. The fewer ranks made a call, the likelier it is the wrong one."""
    inside = [view for view in wait.inside if wait.calls.get(view.rank)]
    calls = Counter(_comparable(wait.calls[view.rank]) for view in inside)
    if len(calls) < 2:
        return None
    inside.sort(key=lambda view: (calls[_comparable(wait.calls[view.rank])], view.rank))
    odd, usual = inside[0], inside[-1]
    common = _comparable(wait.calls[usual.rank])
    blamed = [view for view in inside if _comparable(wait.calls[view.rank]) != common]
    text = (
        f"{from_rank(odd)} is in {wait.calls[odd.rank]}{place(odd, '')}, {from_rank(usual)} in "
        f"{wait.calls[usual.rank]}{place(usual, '')}: both are collective {wait.sequence} of group {wait.group}"
        f"{others(blamed)}"
    )
    return _of(wait, COLLECTIVE_MISMATCH, text, [*blamed, usual])


def _comparable(call: str) -> str:
    name = operation(call)
    return name if name.replace("_", "").lower().startswith(UNEVEN) else call


def _crossed(ring: Sequence[tuple[RankView, Wait]]) -> Hang:
    """Each waits in another group for one that waits elsewhere: they call their collectives in different orders."""
    (view, wait), (peer, other) = ring[0], ring[-1]
    text = (
        f"{from_rank(view)} waits in {wait.what}{place(view, '')}, {from_rank(peer)} in {other.what}"
        f"{place(peer, '')}: each waits for the other, they call their collectives in different orders"
    )
    return _of(wait, COLLECTIVE_MISMATCH, text, [view for view, _ in ring])


def _of(wait: Wait, code: str, text: str, blamed: Sequence[RankView]) -> Hang:
    culprits = tuple(culprit(view, wait.group) for view in blamed)
    return Hang(code, text, culprits, wait.group, wait.sequence, len(wait.inside), wait.since)
