"""Whether a generation that ended is worth another one: how it ended and what came before in, a decision out.

Three things bound restarts. The *budget* is ``--max-restarts``, torchrun's option with torchrun's meaning; with
``--restart-window`` it refills: a restart that is older than the window, with progress since, does not count. A *crash
loop* is a row of generations that got nowhere, whatever ended them, so that neither a new node nor an early end of the
budget's window lets a broken program restart for ever; it stops with exit code 93, which schedulers can be told not to
requeue. A *code error* is the same exception at the same line on all ranks: the program's, not a machine's; or that of
the checkpoint that both generations went on from, which is then tried without. A directory of checkpoints that another
job has taken is nobody's fault that a restart could mend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from elaunch.controller.places import common_place, directory_in_use
from elaunch.controller.suspects import reckoned, suspected
from elaunch.errors import DirectoryInUseError
from elaunch.rendezvous.memory import History
from elaunch.rendezvous.records import Reason
from elaunch.rendezvous.state import RankExit

EXIT_CRASH_LOOP = 93  # "do not requeue": the number that other fault-tolerant launchers use for it
MOST_KEPT = 1000  # restarts that a history remembers


class Cause(str, Enum):
    """Why a generation ended. The values are the codes of reasons."""

    CODE_ERROR = "code_error"
    RANK_FAULT = "rank_fault"
    NODE_FAULT = "node_fault"
    PREEMPTION = "preemption"
    HANG = "hang"
    CRASH_LOOP = "crash_loop"
    DIRECTORY_IN_USE = "directory_in_use"
    MEMBERSHIP = "membership"
    OPERATOR = "operator"

    @property
    def charged(self) -> bool:
        """A restart for it costs one of ``--max-restarts``; nodes that go cost none, as with torchrun."""
        return self in (Cause.CODE_ERROR, Cause.RANK_FAULT, Cause.HANG)

    @property
    def fault(self) -> bool:
        """Something went wrong, so it counts towards a crash loop. A preemption or an operator's wish does not."""
        return self.charged or self is Cause.NODE_FAULT


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """``window`` is in seconds, None for a budget that never refills.

    ``crash_loop`` is the number of restarts in a row after which a generation that gets nowhere is the last (0: never);
    where no steps are told, a generation that ran for ``progress_seconds`` got somewhere. ``suspect_after`` failures in
    a row make the checkpoint before them suspect (0: never).
    """

    max_restarts: int
    window: float | None = None
    on_failure: str = "restart"
    crash_loop: int = 5
    progress_seconds: float = 300.0
    suspect_after: int = 3


@dataclass(frozen=True, slots=True)
class Ending:
    """How a generation ended: ``text`` for a person, ``exits`` of the ranks that failed, ``seconds`` that it ran.

    ``step`` and ``checkpoint`` are the highest that it reached or committed, -1 for none, ``restored`` is the step from
    which it went on, negative for none; ``exit_code`` is the job's if it ends here.
    """

    cause: Cause
    text: str
    exits: tuple[RankExit, ...] = ()
    world_size: int = 1
    seconds: float = 0.0
    step: int = -1
    checkpoint: int = -1
    exit_code: int = 1
    restored: int = -1


@dataclass(frozen=True, slots=True)
class Decision:
    """``restart`` or end with ``exit_code``, and why. ``history`` is what is to be remembered if it is done."""

    restart: bool
    charged: bool
    reason: Reason
    exit_code: int
    history: History


def decide(policy: RestartPolicy, history: History, ending: Ending, now: float) -> Decision:
    """What follows on ``ending`` at ``now`` (the leader's wall clock, in seconds)."""
    advanced = _advanced(policy, history, ending)
    after = _remember(history, ending, advanced, now)
    if advanced or ending.cause.fault:
        after = reckoned(after, ending.restored, advanced=advanced, after=policy.suspect_after)
    cause, text, hopeless = _cause(history, ending, advanced)
    if hopeless and policy.suspect_after and 0 <= ending.restored == history.returned_to:
        after, hopeless = suspected(after, ending.restored), False
    if told := directory_in_use(ending.exits):
        return _stop(after, Cause.DIRECTORY_IN_USE, told, DirectoryInUseError.exit_code)
    if hopeless:
        return _stop(after, cause, text, ending.exit_code)
    if not cause.fault:
        return _restart(after, cause, text)
    if policy.on_failure == "stop":
        return _stop(after, cause, f"{text}; --on-failure=stop", ending.exit_code)
    if cause.charged and remaining(policy, after, now) <= 0:
        spent = f"; no restart left of {policy.max_restarts}" if policy.max_restarts else ""
        return _stop(after, cause, text + spent, ending.exit_code)
    if policy.crash_loop and after.fruitless > policy.crash_loop:
        loop = f"{policy.crash_loop} restarts in a row led nowhere ({_nowhere(after)}); the last: {text}"
        return _stop(after, Cause.CRASH_LOOP, loop, EXIT_CRASH_LOOP)
    if cause.charged:
        after = replace(after, charged=(*after.charged, now)[-MOST_KEPT:])
    return _restart(after, cause, text)


def noted(policy: RestartPolicy, history: History, ending: Ending, now: float) -> History:
    """What is remembered of a generation that no fault has ended: what it reached is nobody else's progress."""
    if not _advanced(policy, history, ending):
        return history
    return reckoned(_remember(history, ending, True, now), ending.restored, advanced=True, after=policy.suspect_after)


def remaining(policy: RestartPolicy, history: History, now: float) -> int:
    """Restarts that are left of the budget at ``now``."""
    return policy.max_restarts - sum(1 for time in history.charged if _counts(policy, history, time, now))


def _counts(policy: RestartPolicy, history: History, time: float, now: float) -> bool:
    if policy.window is None or now - time <= policy.window:
        return True
    return history.progressed is None or history.progressed <= time


def _advanced(policy: RestartPolicy, history: History, ending: Ending) -> bool:
    """A checkpoint or a step that no generation had reached before; without either, time that it ran.

    Steps done again after a restart are none: a program that dies at the same step each time gets nowhere.
    """
    if ending.checkpoint > history.checkpoint or ending.step > history.step:
        return True
    return ending.step < 0 and ending.checkpoint < 0 and ending.seconds >= policy.progress_seconds


def _remember(history: History, ending: Ending, advanced: bool, now: float) -> History:
    found = None if advanced or ending.cause is not Cause.RANK_FAULT else common_place(ending.exits)
    return replace(
        history,
        progressed=now if advanced else history.progressed,
        step=max(history.step, ending.step),
        checkpoint=max(history.checkpoint, ending.checkpoint),
        fruitless=0 if advanced else history.fruitless + ending.cause.fault,
        place=str(found[0]) if found else "",
        ranks=found[1] if found else (),
    )


def _cause(history: History, ending: Ending, advanced: bool) -> tuple[Cause, str, bool]:
    """The cause by its name, with its sentence, and whether another attempt is without hope.

    The same line twice in a row, on all ranks or on different ones, is the program's. Once is enough for what no second
    attempt can mend (``NameError``) while the job has got nowhere at all. A lone rank's other errors are not told from
    a fault of its machine: the budget is for them.
    """
    found = common_place(ending.exits) if ending.cause is Cause.RANK_FAULT else None
    if found is None:
        return ending.cause, ending.text, False
    place, ranks = found
    everywhere = len(ranks) == ending.world_size > 1
    again = not advanced and history.place == str(place) and (everywhere or place.hopeless or ranks != history.ranks)
    never = not advanced and history.progressed is None and place.hopeless and len(ranks) == ending.world_size
    if not (everywhere or again or never):
        return ending.cause, ending.text, False
    text = f"{place}{', twice in a row' if again else ''} ({_who(ranks, ending)}): {ending.text}"
    return Cause.CODE_ERROR, text, again or never


def _who(ranks: tuple[int, ...], ending: Ending) -> str:
    if len(ranks) == ending.world_size:
        return "the only rank" if len(ranks) == 1 else f"all {len(ranks)} ranks"
    return f"now rank {', '.join(map(str, ranks[:8]))}"


def _nowhere(history: History) -> str:
    if history.checkpoint >= 0:
        return f"no checkpoint after that of step {history.checkpoint}"
    return f"no step after {history.step}" if history.step >= 0 else "no step was done"


def _restart(history: History, cause: Cause, text: str) -> Decision:
    return Decision(True, cause.charged, Reason(cause.value, text), 0, history)


def _stop(history: History, cause: Cause, text: str, exit_code: int) -> Decision:
    return Decision(False, False, Reason(cause.value, text), exit_code, history)
