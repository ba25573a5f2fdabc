"""The thread of a rank that beats and looks at what the rank does. docs/progress.md tells what it costs."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import signal
import time
from collections.abc import Iterator

from elaunch.beat_record import Beat
from elaunch.progress import GroupProgress
from elaunch.progress_page import Page
from elaunch.worker.claim import claim
from elaunch.worker.groups import Groups
from elaunch.worker.last_resort import LastResort
from elaunch.worker.place import Place
from elaunch.worker.stacks import Stacks

INTERVAL = 0.1  # seconds between two looks, on average
_STRIDE = (5**0.5 - 1) / 2  # its multiples, modulo 1, are spread evenly however few or many they are
_LEAVE_SECONDS = 1.0
_FORK_SECONDS = 0.2
_FAILURES = 5  # after which this torch is none that we know

_watch: Watch | None = None
_forking: set[int] = set()  # the threads that hold up the look while they fork: there may be several


def attach() -> Page | None:
    """This rank's page, with the thread that writes to it; None where this process is no rank of elaunch."""
    global _watch
    page = claim()
    if page is not None and _watch is None and not page.silent:
        try:
            _watch = Watch(page)
            _watch.start()
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever it is
            _tell_silent(page, error)
    return page


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """Nothing asks torch's recorders for what they hold, for as long as a call takes that returns at once.

    For the first collective of a group that torch.distributed does not list: the recorder takes note of the group
    then, without a lock, and the watch cannot know of it.
    """
    watch = _watch
    held = watch is not None and watch.looking.acquire(timeout=_FORK_SECONDS)
    try:
        yield
    finally:
        if held and watch is not None:
            watch.looking.release()


def pending() -> tuple[GroupProgress, ...]:
    """What ``Watch.pending`` tells, () where nobody watches."""
    return _watch.pending() if _watch is not None else ()


class Watch:
    """Writes the page ``page`` until the interpreter exits."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._pid = os.getpid()
        self._place = Place()
        self._groups: Groups | None = Groups()
        self._stacks = Stacks()
        self._leave = _thread.allocate_lock()
        self._left = _thread.allocate_lock()
        self.looking = _thread.allocate_lock()
        self._last_resort = LastResort()
        self._main = open(f"/proc/self/task/{os.getpid()}/stat", "rb", buffering=0)  # noqa: SIM115 - kept open
        self._beats = 0
        self._failures = 0
        self._own = self._waited = 0.0
        self._last = time.monotonic()
        self._turn = 0.0

    def pending(self) -> tuple[GroupProgress, ...]:
        """The groups of which this rank has begun collectives that have not ended, as of now."""
        with self.looking:
            try:
                if self._groups is not None:
                    self._groups.look(inside=False, still=True, describe=True)
            except Exception:  # noqa: BLE001 - as in a look
                return ()
            groups = self._groups.progress if self._groups is not None else ()
        return tuple(group for group in groups if group.waiting and not group.making)

    def start(self) -> None:
        """Start the thread. It takes no signals but the one for stacks: those are the main thread's."""
        self._leave.acquire()
        self._left.acquire()
        self._page.signal = self._stacks.signal
        atexit.register(self.stop)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {self._stacks.signal})
        try:
            # Not a threading.Thread: the program counts and waits for those that it has started.
            _thread.start_new_thread(self._run, ())
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self) -> None:
        """End the thread before the interpreter does: inside of torch it must not be ended by force."""
        if os.getpid() != self._pid or not self._leave.locked():
            return  # a forked child, or stopped before
        self._leave.release()
        if self._left.acquire(timeout=_LEAVE_SECONDS) and not self._page.silent:
            self._beat("exit of the interpreter")

    def _run(self) -> None:
        try:
            with open(f"/proc/self/task/{_thread.get_native_id()}/comm", "w") as name:
                name.write("elaunch")
            left = False
            while not left:
                with self.looking:
                    self._look()
                self._last_resort.look()
                left = self._leave.acquire(timeout=self._pause())
        except Exception as error:  # noqa: BLE001 - this thread's outermost loop
            _tell_silent(self._page, error)
        finally:
            self._left.release()

    def _pause(self) -> float:
        """Never the same twice: a step as long as the interval would else be met at the same place each time."""
        self._turn = (self._turn + _STRIDE) % 1.0
        return INTERVAL * (0.5 + self._turn)

    def _look(self) -> None:
        now = time.monotonic()
        moved, asked = self._place.look(), self._page.asked
        answer = asked != self._page.answered
        try:
            if self._groups is not None:
                place = self._place
                self._groups.look(place.meeting, inside=place.distributed, still=not moved, describe=answer)
        except Exception:  # noqa: BLE001 - of torch's internals anything may change; the rest goes on
            self._failures += 1
            self._groups = self._groups if self._failures < _FAILURES else None
        self._account(now)
        self._beat(self._place.where)
        if answer:
            self._stacks.write(self._traces())
            self._page.answered = asked

    def _beat(self, where: str) -> None:
        self._beats += 1
        groups = self._groups.progress if self._groups is not None else ()
        self._page.write_beat(Beat(self._beats, self._place.moves, self._own, self._waited, where, groups))

    def _account(self, now: float) -> None:
        """Whose the time since the last look was. What a held lock delayed this thread by was the rank's own."""
        passed = now - self._last
        self._last = now
        waited = min(passed, 2 * INTERVAL) if self._waits() else 0.0
        self._waited += waited
        self._own += passed - waited

    def _waits(self) -> bool:
        """A collective is under way on the device, or on the host while the main thread sleeps."""
        if self._groups is None or not self._groups.waiting:
            return self._groups is not None and self._groups.on_device
        stat = os.pread(self._main.fileno(), 512, 0)
        return stat[stat.rfind(b")") + 2 :].startswith(b"S")

    def _traces(self) -> dict[str, bytes]:
        try:
            return self._groups.traces() if self._groups is not None else {}
        except Exception:  # noqa: BLE001 - as above: the stacks are worth more, and a thread that ends beats no more
            return {}


def _tell_silent(page: Page, error: Exception) -> None:
    """Nobody beats any more: without a word to the agent, that would look like a held interpreter lock."""
    page.silent = 1
    why = f"{type(error).__name__}: {error}".replace("\n", " ")
    text = f"elaunch: the thread that reports this rank's progress has ended ({why}): hangs of it are not seen\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))


def _before_fork() -> None:
    """A fork in the middle of a look would leave torch's locks held in the child."""
    if _watch is not None and _watch.looking.acquire(timeout=_FORK_SECONDS):
        _forking.add(_thread.get_ident())


def _after_fork() -> None:
    if _watch is not None and _thread.get_ident() in _forking:
        _forking.discard(_thread.get_ident())
        _watch.looking.release()


def _forget() -> None:
    """In a forked child there is no such thread."""
    global _watch
    _watch = None
    _forking.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forget)
