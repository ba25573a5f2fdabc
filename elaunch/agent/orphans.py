"""A job of Slurm whose batch script died with its host, and which Slurm keeps (``--no-kill``): its last agents end it.

Nobody else hears what the step ended with: the nodes would be held to the time limit, and nothing started again.
"""

from __future__ import annotations

import socket

import structlog

from elaunch.agent.options import Scheduled
from elaunch.agent.slurm_commands import ask
from elaunch.schedulers.slurm_states import orphaned

_TRIES = 3
_SECONDS = 2.0  # for the host to say at least that nobody listens at the port


def leave_no_orphan(scheduled: Scheduled | None, code: int) -> None:
    """At the end of an agent with exit code ``code``: ask Slurm what the batch script would have, if its host is dead.

    All agents that are left do: what has been done once Slurm refuses.
    """
    if scheduled is None or not scheduled.port or scheduled.place < 1 or _alive(scheduled.nodes[0], scheduled.port):
        return
    told = ask(["scontrol", "show", "job", "-o", scheduled.scheduler_job])
    words, why = orphaned(told.text, scheduled.nodes[0], code, scheduled.starts) if told.done else ([], "")
    if not words:
        return
    said = ask(words)
    log = structlog.get_logger()
    text = f"the batch script of job {scheduled.scheduler_job} died with {scheduled.nodes[0]}: {' '.join(words)}"
    if said.done:
        log.warning("batch_host_lost", text=text, reason=why)
    else:
        log.info("batch_host_lost", text=text, reason=said.text)


def _alive(host: str, port: int) -> bool:
    """Whether a host answers at all: the job's nodes have met there, so nothing but its death keeps it silent."""
    for _ in range(_TRIES):
        try:
            socket.create_connection((host, port), timeout=_SECONDS).close()
        except (ConnectionError, socket.gaierror):
            return True  # it says that nobody listens; or nothing is known of it
        except OSError:
            continue
        else:
            return True
    return False
