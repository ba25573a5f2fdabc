"""What ranks tell of checkpoints, under one leader: taken into the job, noted in its history, answered once written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from elaunch.controller.commits import committed_step, is_current, ruled
from elaunch.controller.history import Entry
from elaunch.controller.job import Job
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.restarting import RANK_FAILED
from elaunch.controller.restarts import Cause
from elaunch.controller.rewinding import restored
from elaunch.controller.transitions import abort
from elaunch.rendezvous.records import Phase, Reason
from elaunch.reports import INJECTION, MISSING, RESTORED, RESTORING, Ask, Line, Receipts, Reply

STEP_MISSING = "from_step_missing"
BURST = 20  # lines of one kind that a job's ranks may add to its history at once,
REFILL = 60.0  # and the seconds after which there may be one more
_OF_RANKS = (RANK_FAILED, Cause.CODE_ERROR.value, Cause.CRASH_LOOP.value)


_MOST_KINDS = 100


@dataclass(slots=True)
class _Rate:
    """A history is bounded: what thousands of ranks say of one thing must not push all else out of it."""

    at: float
    left: float = BURST
    dropped: int = 0

    def take(self, text: str, now: float) -> str | None:
        self.left = min(BURST, self.left + (now - self.at) / REFILL)
        self.at = now
        if self.left < 1:
            self.dropped += 1
            return None
        self.left -= 1
        more, self.dropped = self.dropped, 0
        return f"{text} ({more} more before it were not noted)" if more else text


class Answers(Protocol):
    """Where a node's answers go."""

    def answer(self, node_id: str, receipts: Receipts) -> None: ...


class Registrar:
    """``refuse`` counts what is stale. What is owed is in memory: whoever gets no answer asks the next leader."""

    def __init__(self, refuse: Callable[..., None]) -> None:
        self._refuse = refuse
        self._replies: dict[str, dict[tuple[int, int], Reply]] = {}
        self._noted: dict[str, int] = {}
        self._unacknowledged: set[str] = set()
        self._restores: tuple[int, set[int]] = (0, set())
        self._refusals: tuple[int, set[tuple[int, int]]] = (0, set())
        self._rates: dict[str, _Rate] = {}

    def hear(self, job: Job, status: NodeStatus, now: float) -> tuple[Job, list[Entry]]:
        """``job`` after what a node's status asks and tells, and what of it is worth a line of history."""
        entries: list[Entry] = []
        node_id = status.node_id
        if node_id not in job.nodes:
            return job, entries
        if status.lines:
            self._unacknowledged.add(node_id)  # of old ones too: what it was told may have gone with its stream
        for line in status.lines:
            if line.number > self._noted.get(node_id, 0):
                self._noted[node_id] = line.number
                job = self._line(job, node_id, line, entries, now)
        for ask in status.asks:
            before = committed_step(job)
            job, reply = ruled(job, node_id, ask, now + job.wall_offset)
            self._replies.setdefault(node_id, {})[ask.generation, ask.rank] = reply
            if not reply.accepted:
                self._refuse("stale commit", node=node_id, generation=ask.generation, step=ask.commit.step)
                entries += self._refused(job, ask, reply)
            elif before < 0 and (last := job.checkpoint) is not None:
                # Each commit would push all else out of a history that is bounded: the record tells of the last.
                text = f"generation {last.generation} has committed its first checkpoint: step {last.step}, {last.path}"
                entries.append(Entry("checkpoint_committed", text, last.generation))
        return job, entries

    def tell(self, to: Answers, *, recorded: bool, noted: bool) -> None:
        """Answer what can be: ``recorded``: the job's checkpoint stands in etcd, ``noted``: all of its history does."""
        heard = {node_id: self._noted[node_id] for node_id in self._unacknowledged} if noted else {}
        for node_id in self._replies.keys() | heard.keys():
            owed = self._replies.pop(node_id, {})
            ready = tuple(reply for reply in owed.values() if recorded or not reply.accepted)
            if left := {whose: reply for whose, reply in owed.items() if reply not in ready}:
                self._replies[node_id] = left
            if ready or node_id in heard:
                to.answer(node_id, Receipts(heard.get(node_id, 0), ready))
        self._unacknowledged -= heard.keys()

    def forget(self, node_id: str) -> None:
        """The node is gone."""
        self._replies.pop(node_id, None)
        self._noted.pop(node_id, None)
        self._unacknowledged.discard(node_id)

    def _line(self, job: Job, node_id: str, line: Line, entries: list[Entry], now: float) -> Job:
        current = is_current(job, node_id, line.generation, line.rank)
        host = job.nodes[node_id].node.host
        if line.kind in (RESTORING, RESTORED):
            if not current:
                return job
            if line.kind == RESTORED:
                entries += self._restored(line, host)
                return restored(job, line.step)
            return replace(job, restored=line.step)
        said = f"rank {line.rank} ({host}): {line.text}" if line.rank >= 0 else f"{host}: {line.text}"
        # Of injections none is left out: an operator asked for each, and whoever judges the job goes by them.
        if (text := said if line.kind.startswith(INJECTION) else self._room_for(line.kind, said, now)) is not None:
            entries.append(Entry(line.kind, text, line.generation))
        if line.kind == MISSING and current and job.plan is not None and job.plan.from_step >= 0:
            return _without_step(job, line, now)
        return job

    def _refused(self, job: Job, ask: Ask, reply: Reply) -> list[Entry]:
        """Of a rank that goes on to ask once a generation is enough: the rest is counted."""
        if self._refusals[0] != job.generation:
            self._refusals = (job.generation, set())
        if (ask.generation, ask.rank) in self._refusals[1]:
            return []
        self._refusals[1].add((ask.generation, ask.rank))
        text = f"rank {ask.rank}: a checkpoint of step {ask.commit.step} was refused: {reply.text}"
        return [Entry("checkpoint_refused", text, ask.generation)]

    def _room_for(self, kind: str, text: str, now: float) -> str | None:
        """The line's text; None where so many of its kind have come that the history has no room for one more."""
        rate = self._rates.setdefault(kind if kind in self._rates or len(self._rates) < _MOST_KINDS else "", _Rate(now))
        return rate.take(text, now)

    def _restored(self, line: Line, host: str) -> list[Entry]:
        """Every rank may tell it, and one line is enough; but that they differ must not be missed."""
        if self._restores[0] != line.generation:
            self._restores = (line.generation, set())
        known = self._restores[1]
        if line.step in known:
            return []
        others = sorted(known)
        known.add(line.step)
        generation, at = line.generation, f" ({line.text})" if line.text else ""
        if not others:
            return [Entry(RESTORED, f"generation {generation} {_goes_on(line.step)}{at}", generation)]
        text = f"rank {line.rank} ({host}) {_goes_on(line.step)}, and another of generation {generation} "
        text += _goes_on(others[0])
        return [Entry("checkpoint_restores_differ", text, line.generation)]


def _goes_on(step: int) -> str:
    return f"goes on from step {step}" if step >= 0 else "begins from scratch"


def _without_step(job: Job, line: Line, now: float) -> Job:
    """The step that an operator asked for is none: that is no rank's fault, and costs no restart.

    The ranks end of it; another node's may have been heard of first.
    """
    text = f"step {line.step} cannot be restored ({line.text}); the next generation goes on from the newest"
    reason = Reason(STEP_MISSING, text)
    if job.phase is Phase.ABORTING and job.reason.code in _OF_RANKS:
        return replace(job, reason=reason, charged=False, verdict=None, exit_code=0, blamed="")
    return abort(job, now, reason) if job.phase in (Phase.STARTING, Phase.RUNNING) else job
