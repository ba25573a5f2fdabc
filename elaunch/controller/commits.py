"""Whether a checkpoint that a rank has committed becomes the job's last one. Values only.

A generation may commit until the next one is planned: while it is being stopped as well, for a program that was given
notice commits what it saves then, and a checkpoint that is whole is worth keeping whatever ended its generation. From
then on it may not.
"""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.job import Job
from elaunch.controller.suspects import cleared
from elaunch.rendezvous.records import Checkpoint, Phase
from elaunch.reports import Ask, Reply

_OPEN = (Phase.STARTING, Phase.RUNNING, Phase.ABORTING)


def is_current(job: Job, node_id: str, generation: int, rank: int) -> bool:
    """Whether ``rank`` of ``generation`` on this node may still act."""
    member = job.plan.member(node_id) if job.plan else None
    if member is None or job.uncommitted or generation != job.generation or job.phase not in _OPEN:
        return False
    return member.rank0 <= rank < member.rank0 + member.slots


def ruled(job: Job, node_id: str, ask: Ask, at: float) -> tuple[Job, Reply]:
    """``job`` after a rank of this node asked for a commit at ``at`` (the leader's wall clock), and the answer.

    The same asked again has the same answer, and changes nothing.
    """
    if not is_current(job, node_id, ask.generation, ask.rank):
        return job, _refused(ask, _over(job, ask))
    commit, last = ask.commit, job.checkpoint
    if last is not None and last.generation == ask.generation:
        if (commit.step, commit.digest) == (last.step, last.digest):
            return job, _accepted(ask)
        if commit.step < last.step:
            return job, _refused(ask, f"generation {last.generation} has committed step {last.step} already")
        if commit.step == last.step:
            text = f"generation {last.generation} has committed step {last.step} already, and it was another checkpoint"
            return job, _refused(ask, text)
    view = job.nodes.get(node_id)
    record = Checkpoint(
        step=commit.step,
        path=commit.path,
        generation=ask.generation,
        restart_count=job.restart_count,
        digest=commit.digest,
        bytes=commit.bytes,
        seconds=commit.seconds,
        time=at,
        rank=ask.rank,
        host=view.node.host if view else "",
        blocked=commit.blocked or None,
    )
    return replace(job, checkpoint=record, history=cleared(job.history, commit.step)), _accepted(ask)


def committed_step(job: Job) -> int:
    """The last step that the present generation has committed, -1 for none."""
    last = job.checkpoint
    return last.step if last is not None and last.generation == job.generation else -1


def _over(job: Job, ask: Ask) -> str:
    if ask.generation != job.generation:
        return f"generation {ask.generation} is over: the present one is {job.generation}"
    return f"generation {ask.generation} is over for rank {ask.rank}: nothing of it may be left on this node"


def _accepted(ask: Ask) -> Reply:
    return Reply(ask.generation, ask.rank, ask.number, True)


def _refused(ask: Ask, why: str) -> Reply:
    return Reply(ask.generation, ask.rank, ask.number, False, why)
