"""The rule of seals, under all interleavings of an older run that publishes with newer ones that claim.

The real claims, the real storage, on a file system in memory; at each request of one of them any other may go on.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from elaunch.checkpoint.records.claims import Owner, claim
from elaunch.checkpoint.storages import beats, layout, seals
from elaunch.checkpoint.storages.objects import Objects
from elaunch.errors import CheckpointError, FencedError

_REQUESTS = ("ls", "info", "cat_file", "pipe_file", "rm_file", "rm")


class Store:
    """Just enough of fsspec's memory file system, without what is shared by a process. Each request is one step."""

    protocol = "s3"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.changes = 0
        self.step: Callable[[], None] = lambda: None

    def invalidate_cache(self) -> None:
        pass

    def ls(self, path: str, detail: bool) -> list[str]:
        self.step()
        inside = [key[len(path) + 1 :].split("/")[0] for key in self.objects if key.startswith(f"{path}/")]
        return [f"{path}/{name}" for name in dict.fromkeys(inside)]

    def find(self, path: str) -> list[str]:
        self.step()
        return [key for key in self.objects if key.startswith(f"{path}/")]

    def info(self, path: str) -> dict[str, int]:
        self.step()
        return {"size": len(self._get(path))}

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        self.step()
        return self._get(path)[start:end]

    def pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        self.step()
        if mode == "create" and path in self.objects:
            raise FileExistsError(path)
        self.objects[path] = data
        self.changes += 1

    def rm_file(self, path: str) -> None:
        self.step()
        self.objects.pop(path, None)
        self.changes += 1

    def rm(self, path: str, recursive: bool) -> None:
        self.step()
        self.changes += 1
        for key in [key for key in self.objects if key.startswith(f"{path}/")]:
            del self.objects[key]

    def _get(self, path: str) -> bytes:
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path]


class NoBeat:
    """In the place of a thread: a claim that shows no sign of life."""

    def __init__(self, *args: object) -> None:
        pass

    def release(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _no_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats, "Beat", NoBeat)
    monkeypatch.setattr(beats, "beats", lambda read, interval: b"")


@dataclass
class Actor:
    """One process, which takes a step when it is told to."""

    work: Callable[[], None]
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    stopped: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    over: bool = False
    error: BaseException | None = None

    def start(self, by_thread: dict[int, Actor]) -> None:
        def run() -> None:
            by_thread[threading.get_ident()] = self
            try:
                self.pause()
                self.work()
            except (OSError, CheckpointError, AssertionError) as error:
                self.error = error
            self.over = True
            self.stopped.release()

        threading.Thread(target=run, daemon=True).start()
        assert self.stopped.acquire(timeout=10)

    def pause(self) -> None:
        self.stopped.release()
        self.go.acquire()

    def advance(self) -> None:
        self.go.release()
        assert self.stopped.acquire(timeout=10)


class World:
    """A directory with a run that has committed one checkpoint; what its later acts and newer runs come to."""

    def __init__(self) -> None:
        self.store = Store()
        self.storage = Objects(self.store, "bucket/run", "s3://bucket/run")
        self.committed: set[str] = set()
        self.refused: set[str] = set()
        self._checked = (0, 0, 0)
        self._by_thread: dict[int, Actor] = {}
        self.old = claim(self.storage, _owner(1), 0)
        self.publish(self.old.number, 10)()
        self.store.step = self._step

    def publish(self, number: int, step: int) -> Callable[[], None]:
        def work() -> None:
            name = self.storage.staging(step, 1, number)
            self.store.objects[f"bucket/run/{name}/data"] = b"data"
            try:
                self.storage.publish(name, layout.step_name(step), f"{step}".encode())
            except OSError:
                self.refused.add(name)
                return
            self.committed.add(name)

        return work

    def claim_and_publish(self, generation: int, step: int) -> Callable[[], None]:
        def work() -> None:
            try:
                made = claim(self.storage, _owner(generation), 0)
            except FencedError:
                return
            self.publish(made.number, step)()

        return work

    def play(self, works: list[Callable[[], None]], order: Iterator[int]) -> list[int]:
        """Let them take their steps, as ``order`` chooses among those who go on; how often each did."""
        actors = [Actor(work) for work in works]
        taken = [0] * len(actors)
        for actor in actors:
            actor.start(self._by_thread)
        while running := [number for number, actor in enumerate(actors) if not actor.over]:
            wanted = next(order, running[0])
            chosen = wanted if wanted in running else running[0]
            actors[chosen].advance()
            taken[chosen] += 1
            self.check()
        for actor in actors:
            if actor.error is not None:
                raise actor.error
        return taken

    def check(self) -> None:
        """What holds at every instant: what was told to be committed counts."""
        now = self.store.changes, len(self.committed), len(self.refused)
        if now == self._checked:
            return
        self._checked = now
        step, self.store.step = self.store.step, lambda: None
        counts = set(self.storage.checkpoints())
        newest = seals.newest_claim(self.storage)
        sealed = layout.claim_name(newest) in self.storage.names(layout.SEALS)
        self.store.step = step
        assert self.committed <= counts, f"lost: {self.committed - counts}"
        if sealed:
            assert not self.refused & counts, f"refused, and listed: {self.refused & counts}"

    def check_at_last(self) -> None:
        """And after one more claim."""
        self.store.step = lambda: None
        last = claim(self.storage, _owner(99), 0)
        assert set(self.storage.checkpoints()) == self.committed
        last.prepare()
        there = {name for name in self.storage.names("") if layout.step_of(name) is not None}
        assert there == self.committed, "what was refused is swept away"

    def _step(self) -> None:
        actor = self._by_thread.get(threading.get_ident())
        if actor is not None:
            actor.pause()


def _owner(generation: int) -> Owner:
    return Owner("job", "i", generation, "host", 1, 0.0)


def _lengths(works: Callable[[World], list[Callable[[], None]]]) -> list[int]:
    world = World()
    return world.play(works(world), iter(()))


@pytest.mark.slow
def test_a_late_publication_against_one_newer_claim_in_all_orders_with_two_turns() -> None:
    """Each is held up once, anywhere, or twice: a run frozen at every instant, woken at every other."""

    def works(world: World) -> list[Callable[[], None]]:
        return [world.publish(world.old.number, 20), world.claim_and_publish(2, 30)]

    late, newer = _lengths(works)
    seen = set()
    for first, second, third in itertools.product(range(late + 1), range(newer + 1), (0, 1, 2, late)):
        world = World()
        order = [0] * first + [1] * second + [0] * third + [1] * (3 * newer)
        world.play(works(world), iter(order))
        seen.add((len(world.committed), len(world.refused)))
        world.check_at_last()
    assert seen == {(3, 0), (2, 1)}


@pytest.mark.slow
def test_a_late_publication_against_two_newer_claims_that_are_held_up_as_well() -> None:
    def works(world: World) -> list[Callable[[], None]]:
        newer = [world.claim_and_publish(generation, 20 + generation) for generation in (2, 3)]
        return [world.publish(world.old.number, 20), *newer]

    steps = sum(_lengths(works))
    chance = random.Random(7)
    seen = set()
    for _ in range(600):
        turns = sorted(chance.randrange(1, steps * 2) for _ in range(chance.randrange(2, 9)))
        who = [chance.randrange(3) for _ in range(len(turns) + 1)]
        order = [who[sum(at >= turn for turn in turns)] for at in range(steps * 2)]
        world = World()
        world.play(works(world), iter(order))
        seen.add((len(world.committed), len(world.refused)))
        world.check_at_last()
    assert {(4, 0), (3, 1)} <= seen
