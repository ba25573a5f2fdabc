"""How an operator's command stands in the job, once it has had its effect, or was refused. Values only."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.job import Job
from elaunch.errors import CommandRefusedError, JobFinishedError, NoSuchJobError
from elaunch.rendezvous.journal import Operation, Standing

NOT_FOUND = NoSuchJobError.exit_code
FINISHED = JobFinishedError.exit_code
REFUSED = CommandRefusedError.exit_code


def accepted(job: Job, operation: Operation, text: str, nodes: tuple[str, ...] = ()) -> Job:
    """The command has taken effect, and something is still to come of it."""
    return _settled(job, operation, Standing.ACCEPTED, text, 0, nodes)


def done(job: Job, operation: Operation, text: str) -> Job:
    return _settled(job, operation, Standing.DONE, text, 0)


def failed(job: Job, operation: Operation, text: str, exit_code: int) -> Job:
    """It was begun, and did not come about."""
    return _settled(job, operation, Standing.FAILED, text, exit_code)


def refused(job: Job, operation: Operation, text: str, exit_code: int) -> Job:
    return _settled(job, operation, Standing.REFUSED, text, exit_code)


def _settled(
    job: Job, operation: Operation, standing: Standing, text: str, exit_code: int, nodes: tuple[str, ...] = ()
) -> Job:
    after = replace(operation, standing=standing, answer=text, exit_code=exit_code, nodes=nodes or operation.nodes)
    if not after.generation:
        after = replace(after, generation=job.generation)
    others = tuple(known for known in job.operations if known.id != operation.id)
    return replace(job, operations=(*others, after))
