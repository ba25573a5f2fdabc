"""A batch script from a few wishes. Values only: wishes in, text out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_DAYS = re.compile(r"[0-9]+(-[0-9]+(:[0-9]+(:[0-9]+)?)?|(:[0-9]+){1,2})?")
_PLAIN = re.compile(r"[\w.,:/%@=+\[\]-]+")
_WHOLE = {"nodes": 1, "spares": 0, "min_nodes": 1, "gpus": 1, "cpus": 1, "warning": 0, "requeues": 0}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a job is to be. ``program`` is what stands behind ``elaunch``, its own options before it in ``options``.

    ``nodes`` train, ``spares`` more wait. With fewer than ``min_nodes`` of them the job waits for others. ``time`` is
    the limit in Slurm's form; so many seconds before it as ``warning`` says the ranks get notice. The job is started
    again at most ``requeues`` times. ``array`` is a job array of groups, each of ``nodes``, that make one job, and meet
    at the ``etcd`` given, else that in ELAUNCH_ENDPOINT. Without a ``program`` it is what the batch script is given.
    ``sbatch`` are further options of sbatch, ``setup`` lines of shell.
    """

    program: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    name: str = "elaunch"
    nodes: int = 1
    spares: int = 0
    min_nodes: int | None = None
    gpus: int | None = None
    cpus: int | None = None
    time: str = ""
    warning: int = 120
    requeues: int = 20
    partition: str = ""
    account: str = ""
    qos: str = ""
    array: str = ""
    etcd: str = ""
    output: str = ""
    sbatch: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()


NAMES = tuple(field.name for field in fields(Wishes))
LISTS = ("program", "options", "sbatch", "setup")


def wishes_of(values: Mapping[str, Any]) -> Wishes:
    """``values`` by the names of Wishes, checked. Raises ValueError that names the one that is wrong."""
    for name, value in values.items():
        if name in LISTS:
            if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
                raise ValueError(f"{name}={value!r}: expected a list of texts")
            if any("\n" in item or "\0" in item for item in value):
                raise ValueError(f"{name}={value!r}: expected texts of one line")
        elif name in _WHOLE:
            if not isinstance(value, int) or isinstance(value, bool) or not _WHOLE[name] <= value <= 100_000:
                raise ValueError(f"{name}={value!r}: expected a whole number, {_WHOLE[name]} or more")
        elif name not in NAMES:
            raise ValueError(f"{name}: there is no such setting; there are {', '.join(NAMES)}")
        elif not isinstance(value, str) or (value and not _PLAIN.fullmatch(value)):
            raise ValueError(f"{name}={value!r}: expected a text without spaces and quotes")
    known: dict[str, Any] = {name: tuple(value) if name in LISTS else value for name, value in values.items()}
    wishes = Wishes(**known)
    if wishes.time and not _DAYS.fullmatch(wishes.time):
        raise ValueError(f"time={wishes.time}: expected minutes, HH:MM:SS or DAYS-HH:MM:SS")
    if (wishes.min_nodes or 1) > wishes.nodes:
        raise ValueError(f"min_nodes={wishes.min_nodes}: expected {wishes.nodes} at most, the number of nodes")
    if wishes.array and (wishes.spares or wishes.min_nodes):
        raise ValueError("array: groups are replaced as a whole; leave out spares and min_nodes")
    return wishes


def script_of(wishes: Wishes) -> str:
    """The batch script."""
    elastic = bool(wishes.spares or (wishes.min_nodes or wishes.nodes) < wishes.nodes)
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in _directives(wishes, elastic=elastic)), ""]
    lines += [*wishes.setup, ""] if wishes.setup else []
    lines += [
        "trap : TERM USR1  # Slurm stops this shell as well; it lives on to ask for another start",
        "# Slurm before 23.02 does not say when the job ends.",
        'export SLURM_JOB_END_TIME=${SLURM_JOB_END_TIME:-$(date +%s -d "$(squeue -h -j "$SLURM_JOB_ID" -o %e)")}',
        "",
        _srun(wishes, elastic=elastic),
        f"elaunch slurm requeue $? --at-most={wishes.requeues}",
    ]
    return "\n".join(lines) + "\n"


def _directives(wishes: Wishes, *, elastic: bool) -> list[str]:
    output = wishes.output or ("%x-%A_%a.out" if wishes.array else "%x-%j.out")
    pairs = {
        "job-name": wishes.name,
        "array": wishes.array,
        "partition": wishes.partition,
        "account": wishes.account,
        "qos": wishes.qos,
        "nodes": wishes.nodes + wishes.spares,
        "ntasks-per-node": 1,
        "gpus-per-node": wishes.gpus,
        "cpus-per-task": wishes.cpus,
        "time": wishes.time,
        "signal": f"USR1@{wishes.warning}" if wishes.warning else "",
        "output": output,
    }
    more = ["--requeue", "--open-mode=append", *(["--no-kill"] if elastic else []), *wishes.sbatch]
    return [*(f"--{name}={value}" for name, value in pairs.items() if value not in ("", None)), *more]


def _srun(wishes: Wishes, *, elastic: bool) -> str:
    words = ["srun", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0"]
    words += ["--no-kill"] if elastic else []
    words += [f"--cpus-per-task={wishes.cpus}"] if wishes.cpus else []
    words += ["elaunch"]
    words += [f"--spares={wishes.spares}"] if wishes.spares else []
    words += [f"--min-nodes={wishes.min_nodes}"] if wishes.min_nodes else []
    line = shlex.join(words)
    if wishes.array:
        etcd = wishes.etcd or '"${ELAUNCH_ENDPOINT:?is not set: HOST:PORT,... of your etcd}"'
        line += f' --rdzv-backend=etcd --rdzv-endpoint={etcd} --rdzv-id="$SLURM_JOB_NAME-$SLURM_ARRAY_JOB_ID"'
        line += ' --nnodes="$SLURM_JOB_NUM_NODES:$((SLURM_JOB_NUM_NODES * SLURM_ARRAY_TASK_COUNT))"'
    rest = [*([shlex.join(wishes.options)] if wishes.options else []), shlex.join(wishes.program) or '"$@"']
    return " ".join([line, *rest])
