"""A job that an operator had go on from an older step: which of its checkpoints count from then on. Values only.

Newer checkpoints of earlier generations may still lie on the disk, and are not what the operator wanted: without a
word of it, the next restart would take the newest of them. So once a generation has gone on from the step that was
asked for, what earlier generations committed above that step is abandoned; see :class:`Rewind`. Before that, nothing
is: a step that cannot be restored costs no checkpoint.
"""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.job import Job
from elaunch.rendezvous.plan import Rewind
from elaunch.rendezvous.records import Checkpoint
from elaunch.rendezvous.state import UNTOLD

MOST = 16  # that are remembered


def restored(job: Job, step: int) -> Job:
    """``job`` after a rank of the present generation told from which step it goes on."""
    job = replace(job, restored=step)
    if job.plan is None or step < 0 or step != job.plan.from_step:
        return job
    rewind = Rewind(job.generation, step)
    if rewind in job.rewinds:
        return job  # another rank has told it
    older = tuple(known for known in job.rewinds if known.step < step)  # what the others abandon this one does
    history = job.history  # what was reached beyond is not there any more
    history = replace(history, step=min(history.step, step), checkpoint=min(history.checkpoint, step))
    return replace(job, rewinds=(*older, rewind)[-MOST:], history=history)


def recorded_step(job: Job) -> int:
    """The last committed step that counts, -1 for none."""
    last = job.checkpoint
    return -1 if last is None or is_abandoned(job.rewinds, last) else last.step


def is_abandoned(rewinds: tuple[Rewind, ...], checkpoint: Checkpoint) -> bool:
    return any(checkpoint.generation < rewind.generation and checkpoint.step > rewind.step for rewind in rewinds)


def unmet(job: Job) -> Job:
    """``job``, whose generation is over: an operator's wish stands if none of its ranks can have begun to fulfil it."""
    plan = job.plan
    if plan is None or plan.from_step < 0 or job.from_step >= 0 or job.ran_since is not None or job.restored != UNTOLD:
        return job
    return replace(job, from_step=plan.from_step)
