"""What the processes of forge.py do: a tiny program that saves and restores, disturbed at a chosen instant."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from elaunch.checkpoint import Checkpointer, PerRank
from elaunch.checkpoint.collective.committing import Outcome
from elaunch.checkpoint.collective.launcher import NoLauncher
from elaunch.checkpoint.collective.ranks import Alone
from elaunch.checkpoint.collective.restoring import Restore, Wish
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.claims import Owner
from elaunch.checkpoint.state.states import States
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.posix import Posix
from elaunch.errors import CheckpointError
from tests.crashes import faulty, lossy

torch.set_num_threads(1)

BEFORE = (10, 20)
STEP = 30
AFTER = 40


class Told(NoLauncher):
    """A launcher that keeps what it is told; of a job and generation if given."""

    def __init__(self, generation: int = 0, on_commit: Callable[[int], None] = lambda step: None) -> None:
        self.generation = generation
        self.events: list[tuple[str, str]] = []
        self.steps: list[int] = []
        self._on_commit = on_commit

    def owner(self) -> Owner:
        job = "job" if self.generation else ""
        return Owner(job, "first", self.generation, socket.gethostname(), os.getpid(), 0.0)

    def committed(self, outcome: Outcome, path: str) -> None:
        self.steps.append(outcome.step)
        self._on_commit(outcome.step)

    def tell(self, kind: str, sentence: str) -> None:
        self.events.append((kind, sentence))


class Data:
    """An object with a state, of the program's own."""

    def __init__(self) -> None:
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "name": f"epoch {self.at}"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["name"] == f"epoch {state['at']}"
        self.at = state["at"]


class Training:
    """A model whose values are a function of the step."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(5, 3)
        self.data = Data()
        self.state = {"model": self.model, "data": self.data, "half": torch.zeros(7, dtype=torch.bfloat16)}
        self.go_to(0)

    def go_to(self, step: int) -> None:
        with torch.no_grad():
            for number, tensor in enumerate(self._tensors()):
                tensor.copy_(_values(tensor, number, step))
        self.data.at = step

    def is_at(self, step: int) -> bool:
        same = all(torch.equal(one, _values(one, number, step)) for number, one in enumerate(self._tensors()))
        return same and self.data.at == step

    def _tensors(self) -> list[torch.Tensor]:
        half = self.state["half"]
        assert isinstance(half, torch.Tensor)
        return [*self.model.parameters(), half]


def _values(like: torch.Tensor, number: int, step: int) -> torch.Tensor:
    return (torch.arange(like.numel()).view(like.shape) % 13 + number * 17 + step % 97).to(like.dtype)


def prepare(root: Path) -> None:
    """Two committed checkpoints."""
    training = Training()
    with Checkpointer(root, training.state) as ckpt:
        for step in BEFORE:
            training.go_to(step)
            ckpt.save(step)
        assert ckpt.wait().committed


def save_and_die(root: Path, number: int, said: Path) -> None:
    """Restore, save, remove what is older, and be killed at one operation of that."""
    training, ckpt = opened(root, Told(on_commit=lambda step: said.write_text(str(step))))
    training.go_to(STEP)
    with faulty.Disk(root, faulty.at(number, faulty.die)).watched():
        ckpt.save(STEP)
        ckpt.wait()
    ckpt.close()


def operations(root: Path) -> list[tuple[str, str]]:
    """All that is done to the disk by one save and what follows it."""
    training, ckpt = opened(root, Told())
    training.go_to(STEP)
    with faulty.Disk(root).watched() as disk:
        ckpt.save(STEP)
        assert ckpt.wait().committed
    ckpt.close()
    return disk.done


def look_after_kill(root: Path, said: Path) -> str:
    """What is wrong after ``save_and_die``; empty if all is well."""
    there = steps(root)
    promised = {20, *([STEP] if said.exists() else [])}
    if not promised <= there or (STEP not in there and 10 not in there):
        return f"lost: {sorted(there)} of {promised}"
    wrong = check(root, max(there))
    training, ckpt = opened(root, Told())
    training.go_to(AFTER)
    ckpt.save(AFTER)
    if not ckpt.wait().committed:
        wrong += f"; then {ckpt.wait().error}"
    ckpt.close()
    return wrong + "".join(f"; left {path}" for path in left_over(root)) + check(root, AFTER)


def save_in_trouble(template: Path, root: Path, number: int, code: int, lasting: bool) -> tuple[str, bool]:
    """Have one save go wrong at an operation; what is wrong with what became of it, and whether it was reached."""
    shutil.copytree(template, root)
    told = Told()
    training, ckpt = opened(root, told)
    training.go_to(STEP)
    kinds = faulty.NEEDING_SPACE if code in (errno.ENOSPC, errno.EDQUOT) else faulty.CHANGING
    act = faulty.from_then(number, kinds, faulty.fail(code)) if lasting else faulty.at(number, faulty.fail(code))
    with faulty.Disk(root, act).watched() as disk:
        ckpt.save(STEP)
        outcome = ckpt.wait()
    there = steps(root)
    wrong = check(root, max(there))
    if outcome.committed != (STEP in there) and "may not survive" not in outcome.error:
        wrong += f"; {outcome} though there are {sorted(there)}"
    if not outcome.committed and ([kind for kind, _ in told.events] != ["checkpoint_failed"] or 10 not in there):
        wrong += f"; {told.events} and there are {sorted(there)}"
    if 20 not in there:
        wrong += "; the last good one is gone"
    training.go_to(AFTER)
    ckpt.save(AFTER)
    if not ckpt.wait().committed:
        wrong += f"; after it {ckpt.wait().error}"
    ckpt.close()
    wrong += check(root, AFTER)
    opened(root, Told())[1].close()
    return wrong + "".join(f"; left {path}" for path in left_over(root)), len(disk.done) > number


def check(root: Path, step: int) -> str:
    """Restore, as one who only reads; what is wrong with it."""
    training = Training()
    told = Told()
    objects = States(training.state, rank=0, world=1)
    restored = Restore(Posix(root), Alone(), objects, True, NoLauncher().owner(), told.tell).run(Wish())  # type: ignore[arg-type]
    if restored.step != step or not training.is_at(step) or told.events:
        return f"; restored {restored}, not {step}, as {training.data.at}: {told.events}"
    return ""


def steps(root: Path) -> set[int]:
    """What is committed: under its last name."""
    return {layout.step_of(name) or 0 for name in Catalog(Posix(root)).names()}


def left_over(root: Path) -> list[str]:
    """What no run needs."""
    private = root / layout.PRIVATE
    found = [*(root / layout.STAGING).iterdir(), *(root / layout.TRASH).iterdir()]
    found += [path for path in private.rglob("*") if layout.is_temporary(path.name)]
    found += [path for path in (root / layout.RETIRED).rglob("*") if path.parent.parent == root / layout.RETIRED]
    claims = sorted((root / layout.CLAIMS).iterdir())
    return [str(path.relative_to(root)) for path in (*found, *claims[:-1])]


def opened(root: Path, told: Told) -> tuple[Training, Checkpointer]:
    training = Training()
    ckpt = Checkpointer(root, training.state, keep_last=2, launcher=told)
    step = ckpt.restore()
    assert training.is_at(step), f"restored {step}, and not its values"
    return training, ckpt


def look_all(places: list[tuple[Path, Path]]) -> dict[str, str]:
    return {root.name: wrong for root, said in places if (wrong := look_after_kill(root, said))}


def trouble_everywhere(template: Path, into: Path, count: int, code: int, lasting: bool) -> dict[int, str]:
    found = {}
    for number in range(count):
        wrong, reached = save_in_trouble(template, into / f"{number}", number, code, lasting)
        if wrong or not reached:
            found[number] = wrong or "was not reached"
    return found


def life(base: Path) -> list[tuple[str, str, Any]]:
    """Two starts of a program in a new directory, with all that they do to the disk and ("committed", "", step)."""
    done: list[tuple[str, str, Any]] = []

    def note(kind: str, path: str, args: tuple[Any, ...], result: Any) -> None:
        inside = os.path.relpath(path, base)
        if kind == "write":
            done.append((kind, inside, bytes(args[0][:result])))
        elif kind in ("rename", "link"):
            done.append((kind, inside, os.path.relpath(args[0], base)))
        elif kind in faulty.CHANGING:
            done.append((kind, "" if inside == "." else inside, ""))

    with faulty.Disk(base, after=note).watched():
        for start in ((10, 20, 30), (40, 50)):
            told = Told(on_commit=lambda step: done.append(("committed", "", step)))
            training, ckpt = opened(base / "run", told)
            for step in start:
                training.go_to(step)
                ckpt.save(step)
                ckpt.wait()
            ckpt.close()
    return done


def after_power_losses(operations: list[tuple[str, str, Any]], into: Path) -> tuple[int, dict[str, str]]:
    """How many different disks were looked at, and what is wrong with which."""
    seen: set[int] = set()
    wrong = {}
    disk, promised = lossy.Disk(), 0
    for number, operation in enumerate(operations):
        if operation[0] == "committed":
            promised = operation[2]
        else:
            disk.do(operation)
        for which, files in enumerate(lossy.states(disk, number, 6)):
            state = hash((promised, frozenset(files.items())))
            if state not in seen:
                seen.add(state)
                if said := _after_power_loss(files, into / f"{number}.{which}", promised):
                    wrong[f"{number} ({operation[:2]}), {which}"] = said
    return len(seen), wrong


def _after_power_loss(files: lossy.Files, base: Path, promised: int) -> str:
    lossy.lay_out(files, str(base))
    try:
        told = Told()
        training, ckpt = opened(base / "run", told)
        at = training.data.at
        training.go_to(at + 1)
        ckpt.save(at + 1)
        wrong = ckpt.wait().error
        ckpt.close()
        if at < promised or told.events:
            wrong += f"; restored {at}, {promised} was committed: {told.events}"
        return wrong + check(base / "run", at + 1)
    except CheckpointError as error:
        return repr(error)
    finally:
        shutil.rmtree(base)


def save_and_freeze(root: Path, number: int, generation: int) -> tuple[list[str], bool]:
    """As a generation of a job: restore, save, remove what is older, and freeze at one operation of that.

    Once awake: what was told, and whether the save was committed.
    """
    told = Told(generation)
    training, ckpt = opened(root, told)
    training.go_to(STEP)
    with faulty.Disk(root, faulty.at(number, faulty.freeze)).watched():
        ckpt.save(STEP)
        outcome = ckpt.wait()
    ckpt.close()
    return [sentence for _, sentence in told.events], outcome.committed


def go_on(root: Path, generation: int) -> int:
    """As a later generation: restore, commit more, remove what is older; the step that was restored."""
    training, ckpt = opened(root, Told(generation))
    restored = training.data.at
    for step in (AFTER, AFTER + 1, AFTER + 2):
        training.go_to(step)
        ckpt.save(step)
        assert ckpt.wait().committed, ckpt.wait()
    ckpt.close()
    return restored


def all_go_on(roots: list[Path], generation: int) -> list[int]:
    return [go_on(root, generation) for root in roots]


def tree(root: Path) -> dict[str, bytes | None]:
    """All that stands there."""
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def pair(
    root: Path, store: Path, rank: int, generation: int, where: tuple[int, str, str] | None, steps: tuple[int, ...]
) -> tuple[int, list[str], bool]:
    """One of two ranks: restore and save; at ``where`` a rank is frozen, at an operation of a kind on some path.

    The step restored, what was told, and whether the last save was committed.
    """
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    training, own, told = Training(), torch.zeros(3), Told(generation)
    state = {**training.state, "own": PerRank(own)}
    ckpt = Checkpointer(root, state, keep_last=2, launcher=told, timeout=240)
    restored = ckpt.restore()
    assert training.is_at(restored)
    act = faulty.first(*where[1:], faulty.freeze) if where and where[0] == rank else lambda kind, path, half: None
    with faulty.Disk(root, act).watched():
        for step in steps:
            training.go_to(step)
            own.fill_(step + rank)
            ckpt.save(step)
            outcome = ckpt.wait()
    ckpt.close()
    dist.destroy_process_group()
    return restored, [sentence for _, sentence in told.events], outcome.committed
