"""Whether a generation hangs, and who is to blame: the ranks' views in, one verdict out. No clock in here.

A job hangs when ranks wait and those that they wait for do nothing. So time alone decides nothing: somebody must have
waited for longer than it is allowed to, and whoever it waits for must have been idle for longer than *it* is allowed
to, by its own open section if it has one. A rank whose innermost line keeps changing is at work (an evaluation, a
shard read line by line): it gets ``busy`` times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from elaunch.controller.blame import Hang, culprit, from_rank, others, place, spread
from elaunch.controller.sightings import RankView
from elaunch.controller.waits import Wait, circle, operation, waits

FROZEN = "frozen"
INTERPRETER_STUCK = "interpreter_stuck"
HUNG = "hung"
COLLECTIVE_MISMATCH = "collective_mismatch"
SECTION_OVERRUN = "section_overrun"
ALL_WAITING = "all_waiting"

# Operations that the ranks of a group may honestly call with sizes of their own.
UNEVEN = ("alltoall", "gather", "scatter", "send", "recv")


@dataclass(frozen=True, slots=True)
class Limits:
    """For how many seconds a rank may make no progress.

    ``hang`` holds outside of sections (None: nothing is called a hang, but a section's own timeout still holds),
    ``section`` in a section without a timeout, ``sections`` for such ones by name where more is known of them.
    ``stopped`` is for a rank in state T, ``busy`` the factor for one that is at work or is being debugged.
    """

    hang: float | None = 60.0
    section: float = 600.0
    sections: Mapping[str, float] = field(default_factory=dict)
    stopped: float = 5.0
    busy: float = 10.0


def diagnose(ranks: Sequence[RankView], limits: Limits) -> Hang | None:
    """What hangs, or None. ``ranks`` are all of the generation that live.

    Certain signs come first: a stopped process, then a held lock, then the collectives that ranks wait in, then a
    section or a step that takes too long with nobody waiting.
    """
    if not _any_sign(ranks, limits):
        return None
    live = [view for view in ranks if not view.ended]
    found = _frozen(live, limits) or _stuck(live, limits)
    if found:
        return found
    if any(view.waiting for view in live):
        return _waiting(live, limits) or _overrun(live)
    return _overrun(live) or _idle(live, limits)


def allowance(view: RankView, limits: Limits) -> float:
    """Seconds without progress that ``view``'s rank has: its section's if one is open, else the job's."""
    rank = view.progress
    if not rank.section:
        return inf if limits.hang is None else limits.hang
    if rank.section_left is not None:
        return inf if rank.section_left >= 0 else 0.0
    return inf if limits.hang is None else limits.sections.get(rank.section, limits.section)


def overdue(view: RankView, limits: Limits) -> bool:
    """Whether the rank has made no progress for longer than it may."""
    rank = view.progress
    allowed = allowance(view, limits)
    at_work = not view.waiting and rank.where and limits.hang is not None and rank.where_age < limits.hang
    return rank.progress_age >= (allowed * limits.busy if at_work or rank.state == "t" else allowed)


def _any_sign(ranks: Sequence[RankView], limits: Limits) -> bool:
    """Cheap, as it is all that happens at almost every look, and there may be tens of thousands of ranks."""
    shortest = inf if limits.hang is None else min(limits.hang, limits.section, *limits.sections.values())
    for view in ranks:
        rank = view.progress
        if rank.progress_age >= shortest or rank.state in "Tt":
            return True
        if rank.state == "D" and view.state_age >= shortest:
            return True
        if rank.section_left is not None and rank.section_left < 0:
            return True
    return False


# --- signs of one rank --------------------------------------------------------------------------------------------


def _frozen(views: Sequence[RankView], limits: Limits) -> Hang | None:
    if limits.hang is None:
        return None
    found = [view for view in views if _is_frozen(view, limits)]
    if not found:
        return None
    found.sort(key=lambda view: (view.progress.state != "T", -view.state_age, view.rank))
    first = found[0]
    how = {"T": "is stopped (SIGSTOP)", "t": "is held by a debugger"}.get(
        first.progress.state, "is stuck in the kernel (state D)"
    )
    text = f"{from_rank(first)} {how} since {first.state_age:.0f} s{place(first)}{others(found)}"
    return Hang(FROZEN, text, tuple(map(culprit, found)), seconds=first.state_age)


def _is_frozen(view: RankView, limits: Limits) -> bool:
    state = view.progress.state
    if state == "T":
        return view.state_age >= limits.stopped
    if state == "t":
        return view.progress.attached and overdue(view, limits) and view.state_age >= limits.stopped * limits.busy
    return state == "D" and view.progress.attached and view.state_age >= allowance(view, limits)


def _stuck(views: Sequence[RankView], limits: Limits) -> Hang | None:
    """Threads that want the interpreter lock do not get it. In a collective it may well be held: see who is missing."""
    found = [
        view
        for view in views
        if view.progress.attached
        and view.progress.state in ("R", "S")
        and not view.waiting
        and min(view.progress.beat_age, view.progress.progress_age) >= max(allowance(view, limits), 1.0)
    ]
    if not found:
        return None
    found.sort(key=lambda view: (-view.progress.beat_age, view.rank))
    first = found[0]
    doing = "it is in native code that keeps the lock"
    if first.cpu_share is not None:
        doing = "it computes without end" if first.cpu_share > 0.5 else "it waits for something with the lock held"
    text = (
        f"{from_rank(first)} has not let go of the interpreter lock for {first.progress.beat_age:.0f} s: "
        f"{doing}{place(first)}{others(found)}"
    )
    return Hang(INTERPRETER_STUCK, text, tuple(map(culprit, found)), seconds=first.progress.beat_age)


def _overrun(views: Sequence[RankView]) -> Hang | None:
    found = [view for view in views if view.progress.section_left is not None and view.progress.section_left < 0]
    if not found:
        return None
    found.sort(key=lambda view: (view.waiting, view.progress.section_left, view.rank))
    first = found[0].progress
    over = -(first.section_left or 0.0)
    text = f"{from_rank(found[0])} is {over:.0f} s over the timeout of section {first.section!r}"
    text += f"{place(found[0])}{others(found)}"
    return Hang(SECTION_OVERRUN, text, tuple(map(culprit, found)), seconds=first.progress_age)


def _idle(views: Sequence[RankView], limits: Limits) -> Hang | None:
    """Nobody waits for anybody. Who reported a step owes the next one; with collectives alone, all must be idle long.

    A program that uses neither owes nothing.
    """
    working = [view for view in views if view.progress.attached and _owes(view)]
    late = [view for view in working if overdue(view, limits) and _is_idle(view, limits)]
    grouped = any(view.progress.groups for view in working)
    if not late or (grouped and len(late) < len(working)):
        return None
    late.sort(key=lambda view: (-view.progress.progress_age, view.rank))
    first = late[0].progress
    last = f"step {first.step}" if first.step >= 0 else "its last collective"
    text = f"{from_rank(late[0])} has made no progress since {last}, {first.progress_age:.0f} s ago"
    text += f"{place(late[0])}{others(late)}"
    return Hang(HUNG, text, tuple(map(culprit, late)), seconds=first.progress_age)


def _owes(view: RankView) -> bool:
    return view.progress.step >= 0 or any(group.started for group in view.progress.groups)


def _is_idle(view: RankView, limits: Limits) -> bool:
    reports = view.progress.step >= 0 or bool(view.progress.section)
    return reports or view.progress.progress_age >= allowance(view, limits) * limits.busy


# --- signs of many ranks ------------------------------------------------------------------------------------------


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
            return _left_behind(wait) if wait.left else _all_waiting(wait)
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
    text = (
        f"{from_rank(views[0])} has not entered {wait.what}, which {spread(len(wait.inside))} since "
        f"{wait.since:.0f} s{place(views[0])}{others(views)}"
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
