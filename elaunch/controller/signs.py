"""What one rank's view alone gives away: it is stopped, holds the interpreter lock, or takes too long in a section."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.controller.blame import Hang, culprit, from_rank, others, place
from elaunch.controller.limits import Limits, allowance, overdue
from elaunch.controller.sightings import RankView

FROZEN = "frozen"
INTERPRETER_STUCK = "interpreter_stuck"
HUNG = "hung"
SECTION_OVERRUN = "section_overrun"


def frozen(views: Sequence[RankView], limits: Limits) -> Hang | None:
    if limits.hang is None:
        return None
    found = [view for view in views if _is_frozen(view, limits)]
    return frozen_of(found) if found else None


def frozen_of(found: list[RankView]) -> Hang:
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


def stuck(views: Sequence[RankView], limits: Limits) -> Hang | None:
    """Threads that want the interpreter lock do not get it. In a collective it may well be held: see who is missing."""
    found = [
        view
        for view in views
        if view.progress.attached
        and view.progress.state in ("R", "S")
        and not view.waiting
        and min(view.progress.beat_age, view.progress.progress_age) >= max(allowance(view, limits), 1.0)
    ]
    return stuck_of(found) if found else None


def stuck_of(found: list[RankView]) -> Hang:
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


def overrun(views: Sequence[RankView]) -> Hang | None:
    found = [view for view in views if view.progress.section_left is not None and view.progress.section_left < 0]
    if not found:
        return None
    found.sort(key=lambda view: (view.waiting, view.progress.section_left, view.rank))
    first = found[0].progress
    over = -(first.section_left or 0.0)
    text = f"{from_rank(found[0])} is {over:.1f} s over the timeout of section {first.section!r}"
    text += f"{place(found[0])}{others(found)}"
    return Hang(SECTION_OVERRUN, text, tuple(map(culprit, found)), seconds=first.progress_age)


def idle(views: Sequence[RankView], limits: Limits) -> Hang | None:
    """Nobody waits for anybody. Who reported a step owes the next one; with collectives alone, all must be idle long.

    A program that uses neither owes nothing.
    """
    working = [view for view in views if view.progress.attached and _owes(view)]
    late = [view for view in working if overdue(view, limits) and _is_idle(view, limits)]
    if limits.ending:  # what comes after the last step (an upload, an evaluation) is nobody's next step
        late = [view for view in late if view.progress.progress_age >= allowance(view, limits) * limits.busy]
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


def cause(views: Sequence[RankView], limits: Limits) -> Hang | None:
    """Why ranks do not come that others have waited for long enough, where it is more than that.

    One that is stopped, or that beats no more, has told nothing since: its page shows where it was before.
    """
    stopped = [view for view in views if view.progress.state in ("T", "t")]
    if stopped:
        return frozen_of(stopped)
    silent = [v for v in views if v.progress.attached and v.progress.state in ("R", "S") and _beats_no_more(v, limits)]
    return stuck_of(silent) if silent else None


def _beats_no_more(view: RankView, limits: Limits) -> bool:
    return view.progress.beat_age >= max(1.0, min(allowance(view, limits), limits.stopped))
