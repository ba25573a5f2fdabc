"""Which cells there are, by mode. Values only: the ranks' programs make the same matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from elaunch.inject.fault import Fault
from elaunch.inject.kinds import KINDS
from elaunch.qualify.cells import Cell, Job
from elaunch.qualify.collectives import collectives
from elaunch.qualify.phases import ON_HOSTS, PHASES, lab_faults

MODES = ("quick", "full")
ONCE = ("rendezvous", "ddp", "restore")  # points that come but once in a generation
SAVES = ("save", "write", "commit", "restore")  # points of checkpoints: they need a directory
HANG = 8.0  # --hang-timeout of the job with faults, seconds

_LAUNCHES = {
    "launch/fixed": "so many ranks as asked for start, each with its place in the world, and the job ends with 0",
    "launch/elastic": "a second agent joins a job that runs, and the next generation has its ranks too",
    "launch/restart": "a rank that exits is told with its code, and all are started again",
    "launch/budget": "with no restart left the job ends with the code of the rank that failed first",
}
_STARTS = {
    "init/first": "init_process_group makes the group of all ranks",
    "init/repeated": "destroy and init again, three times, each time with a working group",
}
_GROUPS = {
    "groups/concurrent": "collectives of two groups at once come out right",
    "groups/interleaved": "two groups of all ranks, calls interleaved and awaited in reverse, come out right",
    "groups/parts": "each half of the ranks has a group of its own and sees no other's values",
}
_TRAINING = {
    "ddp/plain": "DistributedDataParallel: loss, reduced gradients, updated parameters",
    "ddp/bucketing": "many small buckets: the same, and all ranks reduce them in one order",
    "ddp/no_sync": "gradients of two batches, reduced once",
    "ddp/hooks": "a communication hook reduces, hooks of parameters see their gradients",
    "ddp/unused": "ranks use different parts of the model (find_unused_parameters)",
    "ddp/static-graph": "static_graph=True",
    "ddp/join": "ranks have different numbers of batches (join)",
    "ddp/mixed-precision": "autocast to bfloat16",
    "ddp/checkpointed": "activations are computed again in the backward pass",
    "fsdp2/plain": "fully_shard: loss, gradients, updated parameters",
    "fsdp2/mixed-precision": "fully_shard with parameters in bfloat16 while computing",
    "tp/mlp": "a layer by columns, the next by rows: loss, gradients, updated parameters",
}
_COMPILED = {"ddp/compiled": "torch.compile over DistributedDataParallel"}
_MESHES = {
    "dtensor/redistribute": "from each placement to each other: what each rank holds, and the whole",
    "mesh/1d": "init_device_mesh with one dimension: collectives along it",
    "mesh/2d": "with two dimensions: collectives along each, and a slice",
    "mesh/3d": "with three dimensions: collectives along each",
}
_STEPS = {"steps/exposed": "how long a step takes with and without its communication"}
_PROGRESS = {
    "checkpoint/identical": "steps that are done again after a restore have the very losses that they had",
    "checkpoint/undisturbed": "the losses at the end are those of a run that nothing disturbed",
}
_RAILS = {
    "rails/symmetric": "two rails: both carry the traffic",
    "rails/asymmetric": "one host's second port is down: it is told, and the job trains over what both have",
    "rails/missing-port": "a port that is up and leads nowhere: it is found, and left out",
    "rails/slow-rail": "one slow rail: the job goes on, and the rail's share is seen",
    "rails/failed-rail": "one rail fails: it is told, and the job comes back when the rail does",
}

_POINTS = ("rendezvous", "ddp", "forward", "backward", "optimizer", "save", "write", "commit", "restore")


def cells(mode: str, only: Sequence[str] = (), *, several: bool = False) -> tuple[Cell, ...]:
    """The matrix; with ``only``, the cells whose names match one of these patterns (``ddp/*``, or a part of a name).

    On ``several`` hosts some faults of a laboratory are the job's own.
    """
    found = (cell for cell in _all(mode) if not only or any(_matches(cell.name, pattern) for pattern in only))
    return tuple(_of_job(cell) if several else cell for cell in found)


def _of_job(cell: Cell) -> Cell:
    own = cell.fault is not None and (cell.fault.kind, cell.phase) == ON_HOSTS
    return replace(cell, job=Job.FAULTS) if own else cell


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or (not any(c in pattern for c in "*?[") and pattern in name)


def _all(mode: str) -> Iterator[Cell]:
    yield from _made(_LAUNCHES, Job.LAUNCH)
    yield from _made(_STARTS, Job.TORCH)
    for one in collectives(mode):
        yield Cell(one.name, _layout_text(one.layout), Job.TORCH)
    for texts in (_GROUPS, _TRAINING, _COMPILED if mode == "full" else {}, _MESHES, _STEPS):
        yield from _made(texts, Job.TORCH)
    for fault in faults(mode):
        yield Cell(f"faults/{_fault_name(fault)}", fault.what.text, Job.FAULTS, fault)
    yield from _made(_PROGRESS, Job.FAULTS)
    for fault, phase in lab_faults(mode):
        yield Cell(f"faults/{fault.kind}/{phase}", f"{fault.what.text}, {PHASES[phase]}", Job.LAB, fault, phase)
    yield from _made(_RAILS, Job.RAILS)


def _made(texts: dict[str, str], job: Job) -> Iterator[Cell]:
    for name, text in texts.items():
        yield Cell(name, text, job)


def _layout_text(layout: str) -> str:
    if layout == "contiguous":
        return "each rank has what it computes itself, at every size"
    return "a transposed tensor: the right values, or a refusal, and nothing in between"


def _fault_name(fault: Fault) -> str:
    signal = f"-{fault.signal}" if fault.kind == "kill" and fault.signal != 9 else ""
    return f"{fault.kind}{signal}/{fault.at or 'at-once'}" + (f"/{fault.seconds:g}s" if fault.seconds else "")


def faults(mode: str) -> tuple[Fault, ...]:
    """What is injected into ranks, in this order. Of rank 1, or of rank 0 where there is no other."""
    first = [
        Fault("kill", rank=1),
        Fault("slow-cpu", rank=1, seconds=1.0),
        Fault("raise", rank=1, at="forward"),
        Fault("kill", rank=1, at="backward"),
        Fault("exit", rank=1, at="optimizer", code=7),
        Fault("kill", rank=1, at="save"),
        Fault("kill", rank=1, at="commit"),
        Fault("kill", rank=1, at="rendezvous"),
        Fault("kill", rank=1, at="ddp"),
        Fault("kill", rank=1, at="restore"),
        Fault("stop", rank=1),
        Fault("sleep", rank=1, at="backward"),
    ]
    every = first if mode == "quick" else [*first, *_many()]
    named = {_fault_name(fault): fault for fault in reversed(every)}  # of two of one name the earlier one
    return tuple(reversed(named.values()))


def _many() -> Iterator[Fault]:
    """Every kind that a job can bring about by itself, at every point where it can be."""
    for signal in (15, 11, 6):
        yield Fault("kill", rank=1, signal=signal)
    for kind in KINDS.values():
        if kind.target != "rank" or "job" not in kind.carriers:
            continue
        lasting = kind.name in ("slow-cpu", "slow-step")
        seconds = 2.0 if lasting else 0.0
        if kind.now:
            yield Fault(kind.name, rank=1, seconds=seconds)
        for point in _POINTS if kind.inside and not lasting else ():
            if kind.name == "raise" and point in ("write", "commit"):
                continue  # it ends that save alone, in a thread of its own
            if kind.name == "mismatch" and point not in ("forward", "backward", "optimizer"):
                continue  # its peers have to be in a collective
            if kind.name in ("exit", "device-reset", "memory") and point not in ("forward", "backward", "optimizer"):
                continue  # elsewhere they are a raise like any other
            yield Fault(kind.name, rank=1, at=point)
        if lasting and kind.inside:
            yield Fault(kind.name, rank=1, at="forward", seconds=seconds)
    yield Fault("sleep", rank=1, at="backward", seconds=1.0)
    yield Fault("stop", rank=1, seconds=1.0)
