"""What is saved of the ranks before they are ended: stacks, flight records, what the kernel tells, what they printed.

Bounded in time, whatever state the ranks, and the file system of the log folder, are in.
"""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from elaunch.agent.aside import aside
from elaunch.agent.stack_dump import call_site, main_stack
from elaunch.agent.witness import Witness
from elaunch.progress import RankProgress
from elaunch.rendezvous.records import Reason

_LOOK_SECONDS = 0.01
_BY_THREAD = 0.3  # of the time: a thread that has the lock answers within its interval, 0.05 s
_BY_SIGNAL = 0.4
_QUIET_LOOKS = 3  # without another byte: the handler is through


@dataclass(frozen=True, slots=True)
class RankEvidence:
    """What one rank told. ``how`` as in ``Witness``; ``where`` is its main thread's place, ``doing`` a sentence."""

    rank: int
    pid: int
    state: str
    how: str
    where: str
    doing: str
    stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The whole: ``text`` is one paragraph for a person; ``folder`` is "" where nothing could be written in time."""

    folder: str
    text: str
    ranks: tuple[RankEvidence, ...] = ()


async def collect(
    folders: Sequence[Callable[[], Path]], witnesses: Sequence[Witness], within: float, why: Reason | None = None
) -> Evidence:
    """Ask the ranks, and save what they and the kernel say, in ``within`` seconds at most.

    Each of ``folders`` makes one, or raises OSError: it is saved below the first that takes it. ``why`` is saved along
    with it.
    """
    await _ask(witnesses, within)
    found = [_evidence(witness) for witness in witnesses]
    text = _paragraph(found)
    files = {name: data for witness in witnesses for name, data in _files(witness)}
    printed = {f"rank{witness.rank.rank}.stderr.txt": witness.errors for witness in witnesses}
    reason = asdict(why) if why is not None else None
    summary = {"why": reason, "text": text, "ranks": [asdict(rank) for rank in found]}
    files["summary.json"] = json.dumps(summary, indent=1).encode()
    files["summary.txt"] = text.encode() + b"\n"
    saved, error = await _saved(folders, files, printed, within * (1 - _BY_THREAD - _BY_SIGNAL))
    if error:
        text += f" (not saved: {error})" if not saved else f" (saved here since {error})"
    return Evidence(saved, text, tuple(found))


async def show_stacks(witnesses: Sequence[Witness], within: float) -> str:
    """The stacks of all threads of these ranks as one text, or what the kernel says of one that does not answer.

    Nothing is saved, and no rank is disturbed. It takes ``within`` seconds at most.
    """
    await _ask(witnesses, within)
    return "\n".join(_shown(witness) for witness in witnesses)


def _shown(witness: Witness) -> str:
    rank = witness.rank
    told = witness.stacks() or "no stacks; of it the kernel says:\n" + witness.kernel("wchan", "stack", "syscall")
    return f"rank {rank.rank} (local rank {rank.local_rank}, pid {rank.pid}): {_doing(witness)}\n{told.rstrip()}\n"


async def _ask(witnesses: Sequence[Witness], within: float) -> None:
    able = [witness for witness in witnesses if witness.can_run]
    for witness in able:
        witness.ask()
    await _until(lambda: sum(not w.look() for w in able) == 0, within * _BY_THREAD)
    told = [w for w in able if not w.how and w.interrupt()]
    quiet = {w.rank.rank: (0, 0) for w in told}

    def through() -> bool:
        for w in told:
            size, looks = quiet[w.rank.rank]
            quiet[w.rank.rank] = (w.written(), looks + 1 if size == w.written() > 0 else 0)
        return all(looks >= _QUIET_LOOKS for _, looks in quiet.values())

    await _until(through, within * _BY_SIGNAL)
    for witness in told:
        if not witness.look() and witness.written() > 0:
            witness.how = "signal"
    for witness in able:
        witness.refresh(time.monotonic())


async def _until(done: Callable[[], bool], seconds: float) -> None:
    """Nothing tells when a rank writes to shared memory, so it is looked at again and again."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        if done():
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _evidence(witness: Witness) -> RankEvidence:
    rank = witness.rank
    frames = main_stack(witness.stacks())
    where = call_site(frames) or rank.where
    return RankEvidence(rank.rank, rank.pid, rank.state, witness.how, where, _doing(witness), tuple(map(str, frames)))


def _doing(witness: Witness) -> str:
    rank = witness.rank
    if rank.state in "Tt":
        return "is stopped"
    if rank.state == "D":
        return "is stuck in the kernel"
    if not rank.attached:
        return "runs, but tells nothing of itself"
    if witness.how != "thread":
        return f"has not let go of the interpreter lock for {rank.beat_age:.1f} s"
    return _waiting(rank) or "is in no collective"


def _waiting(rank: RankProgress) -> str:
    for group in rank.groups:
        if group.making:
            return f"waits in {group.collective}"
        if group.waiting:
            return f"waits in {group.collective or 'a collective'}, number {group.started} of group {group.name}"
    return ""


def _paragraph(ranks: Sequence[RankEvidence]) -> str:
    """One clause for all the ranks that do the same in the same place."""
    alike: dict[str, list[int]] = {}
    for rank in ranks:
        at = f" at {rank.where}" if rank.where else ""
        alike.setdefault(f"{rank.doing}{at}", []).append(rank.rank)
    clauses = [f"{_named(numbers)} {told}" for told, numbers in sorted(alike.items(), key=lambda item: len(item[1]))]
    return "; ".join(clauses) or "no rank is left to tell anything"


def _named(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown} each"


def _files(witness: Witness) -> list[tuple[str, bytes]]:
    name = f"rank{witness.rank.rank}"
    found = [
        (f"{name}.stacks.txt", witness.stacks().encode()),
        (f"{name}.flight.json", witness.flight()),
        (f"{name}.kernel.txt", witness.kernel().encode()),
        (f"{name}.progress.json", json.dumps(asdict(witness.rank)).encode()),
    ]
    return [(file, data) for file, data in found if data]


async def _saved(
    folders: Sequence[Callable[[], Path]],
    files: Mapping[str, bytes],
    printed: Mapping[str, Callable[[], str]],
    seconds: float,
) -> tuple[str, str]:
    """Write the files to the first folder that takes them: which one, "" if none does, and what went wrong.

    Each gets its share of the time. What the ranks have ``printed`` may be on the same storage that hangs as the first
    folder: it is read there only.
    """
    complaints: list[str] = []
    for folder in folders:
        try:
            write = functools.partial(_write, folder, files, {} if complaints else printed)
            return await aside(write, max(seconds / len(folders), _LOOK_SECONDS)), "; ".join(complaints)
        except asyncio.TimeoutError:  # which is an OSError in newer Pythons
            complaints.append("the folder cannot be written in time")
        except OSError as error:
            complaints.append(f"{error.filename or 'the folder'}: {error.strerror or error}")
    return "", "; ".join(complaints)


def _write(make: Callable[[], Path], files: Mapping[str, bytes], printed: Mapping[str, Callable[[], str]]) -> str:
    folder = make()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder
    try:
        for name, data in files.items():
            path = folder / name
            path.write_bytes(data)
        for name, read in printed.items():
            if told := read():
                path = folder / name
                path.write_text(told, encoding="utf-8")
    except OSError as error:  # one of a write does not say where
        raise OSError(error.errno, error.strerror, str(error.filename or path)) from error
    return str(folder)
