"""A program for a test: ranks of which one falls out of the rounds of a checkpointer, in many ways.

Started with a file for its store, its rank, the number of ranks and a directory. Prints one line of JSON: what came of
each scene on this rank, in seconds and in words. A round lasts a minute at most: whoever waits for it is late.
"""

import contextlib
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.planner import SavePlan

from elaunch.checkpoint import Checkpointer
from elaunch.checkpoint.collective import planning, plans
from elaunch.checkpoint.collective.committing import Save
from elaunch.checkpoint.collective.restoring import Restore
from elaunch.checkpoint.encoding import image
from elaunch.errors import CheckpointError

RANK, WORLD = map(int, sys.argv[2:4])
ROOT = Path(sys.argv[4])
BAD = 1  # the rank that falls out
told: dict[str, Any] = {}


class Sick:
    """An object whose methods fail on one rank."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def state_dict(self) -> dict[str, int]:
        if self.error is not None and RANK == BAD:
            raise self.error
        return {"n": 1}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.state_dict()


def scene(act: Callable[[], object]) -> None:
    began = time.monotonic()
    try:
        said = str(act())
    except BaseException as error:  # noqa: BLE001
        said = f"{type(error).__name__}: {error}"
    told[act.__name__] = [time.monotonic() - began, said]


@contextlib.contextmanager
def broken(where: Any, name: str, error: BaseException, at: int = BAD) -> Iterator[None]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    real = getattr(where, name)
    if at == RANK:
        setattr(where, name, fail)
    try:
        yield
    finally:
        setattr(where, name, real)


def made(name: str, sick: Sick | None = None) -> Checkpointer:
    state = {"w": torch.ones(5), **({"sick": sick} if sick else {})}
    return Checkpointer(ROOT / name, state, timeout=60.0)


def outcome(checkpointer: Checkpointer, step: int) -> str:
    checkpointer.save(step)
    return checkpointer.wait().error or "committed"


def a_state_that_cannot_be_had() -> str:
    """Told to all, and the next save goes well."""
    sick = Sick()
    with made("state", sick) as checkpointer:
        sick.error = KeyError("gone")
        with contextlib.suppress(CheckpointError):
            checkpointer.save(1)
            return "nothing was raised"
        sick.error = None
        return outcome(checkpointer, 2)


def what_is_said_of_it() -> str:
    sick = Sick()
    with made("said", sick) as checkpointer:
        sick.error = KeyError("gone")
        return outcome(checkpointer, 1)


def an_interrupt_in_a_state() -> str:
    sick = Sick()
    with made("interrupt", sick) as checkpointer:
        sick.error = KeyboardInterrupt()
        return outcome(checkpointer, 1)


def an_interrupted_restore() -> str:
    sick = Sick()
    with made("restore", sick) as checkpointer:
        if outcome(checkpointer, 1) != "committed":
            return "not saved"
        sick.error = KeyboardInterrupt()
        return str(checkpointer.restore())


def a_copy_that_fails() -> str:
    with made("copy") as checkpointer, broken(image.Image, "fill", TypeError("no such cast")):
        return outcome(checkpointer, 1)


def a_plan_that_fails() -> str:
    with made("plan") as checkpointer, broken(planning.Described, "plan", AttributeError("no plan")):
        return outcome(checkpointer, 1)


def a_state_that_is_refused_at_once() -> str:
    state: dict[str, object] = {"elaunch.mine" if RANK == BAD else "mine": {"n": 1}}
    with Checkpointer(ROOT / "refused", state, timeout=60.0):
        return "made"


def a_thread_that_fails() -> str:
    """Behind the training: the save is lost, and the next one is not."""
    with made("thread") as checkpointer:
        with broken(Save, "_write", KeyError("nobody foresaw")):
            first = outcome(checkpointer, 1)
        return f"{first}; then {outcome(checkpointer, 2)}; then {outcome(checkpointer, 3)}"


def a_thread_that_fails_on_rank_0() -> str:
    with made("first") as checkpointer:
        with broken(Save, "_end", KeyError("nobody foresaw"), at=0):
            first = outcome(checkpointer, 1)
        return f"{first}; then {outcome(checkpointer, 1)}"


def a_planner_that_takes_items_out_of_what_it_is_given() -> str:
    """As torch 2.6 has it."""
    real = DefaultSavePlanner.create_global_plan

    def plan(self: DefaultSavePlanner, given: list[SavePlan]) -> Any:
        shares, metadata = real(self, given)
        for one, share in zip(given, shares, strict=True):
            object.__setattr__(one, "items", share.items)
        return shares, metadata

    DefaultSavePlanner.create_global_plan = plan
    try:
        with made("takes") as checkpointer:
            return f"{outcome(checkpointer, 1)} {checkpointer.restore()}"
    finally:
        DefaultSavePlanner.create_global_plan = real


def a_plan_that_leaves_something_out() -> str:
    """What could not be restored is not committed."""
    real, plans.encode_share = plans.encode_share, lambda mine, share: b"[]"
    try:
        with made("leaves") as checkpointer:
            return outcome(checkpointer, 1).partition(": ")[2]
    finally:
        plans.encode_share = real


def a_host_that_sees_another_directory() -> str:
    with made("here") as checkpointer:
        if outcome(checkpointer, 1) != "committed":
            return "not saved"
    with made("here" if RANK != BAD else "there") as checkpointer:
        return str(checkpointer.restore())


def a_checkpoint_that_goes_while_it_is_chosen() -> str:
    """As ``elaunch ckpt rm`` takes it."""
    with made("goes") as checkpointer:
        if [outcome(checkpointer, step) for step in (1, 2)] != ["committed"] * 2:
            return "not saved"
        real = Restore._try

        def gone(self: Restore, chosen: dict[str, Any]) -> dict[str, str]:
            if RANK == 0:
                shutil.rmtree(ROOT / "goes" / "step-00000002", ignore_errors=True)
            dist.barrier()
            return real(self, chosen)

        Restore._try = gone  # type: ignore[method-assign]
        try:
            return str(checkpointer.restore())
        finally:
            Restore._try = real  # type: ignore[method-assign]


def closed() -> str:
    checkpointer = made("closed")
    checkpointer.close()
    return outcome(checkpointer, 1)


logging.disable()
torch.set_num_threads(1)
store = dist.FileStore(sys.argv[1], WORLD)
store.set_timeout(timedelta(seconds=60))
dist.init_process_group("gloo", store=store, rank=RANK, world_size=WORLD)
for one in (
    a_state_that_cannot_be_had,
    what_is_said_of_it,
    an_interrupt_in_a_state,
    an_interrupted_restore,
    a_copy_that_fails,
    a_plan_that_fails,
    a_state_that_is_refused_at_once,
    a_thread_that_fails,
    a_thread_that_fails_on_rank_0,
    a_planner_that_takes_items_out_of_what_it_is_given,
    a_plan_that_leaves_something_out,
    a_host_that_sees_another_directory,
    a_checkpoint_that_goes_while_it_is_chosen,
    closed,
):
    scene(one)
    dist.barrier()
print(json.dumps(told), flush=True)
