"""What is known of a rank's progress: read from its page by the agent, sent to the leader, judged there.

All ages are seconds by the clock of the node that the rank runs on, as of the moment when its agent looked: no two
nodes' clocks are ever compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # ranks import this module, and have no use for ports
    from elaunch.links import PortReport

INIT: Final = "init_process_group"
NEW: Final = "new_group"
MESH: Final = "init_device_mesh"
"""Calls in which ranks wait for each other to make a process group."""


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """One process group as one of its ranks sees it.

    ``started`` and ``finished`` are the sequence numbers of the last collective that the rank entered and left, 0
    before the first. ``collective`` describes the last that it entered (``"all_reduce float32[1024]"``), "" where the
    backend does not tell. ``ranks`` are the group's global ranks, empty for all of them.
    """

    name: str
    size: int
    started: int
    finished: int
    collective: str = ""
    ranks: tuple[int, ...] = ()

    @property
    def waiting(self) -> bool:
        """The rank is inside a collective that has not finished."""
        return self.started > self.finished

    @property
    def making(self) -> bool:
        """This is no group yet: the rank waits in one of torch's calls for the others to make it."""
        return self.collective in (INIT, NEW, MESH) and self.name.endswith(self.collective)


@dataclass(frozen=True, slots=True)
class RankProgress:
    """One rank as its agent last saw it.

    ``state`` is the letter of /proc/PID/stat (T is stopped, D stuck in the kernel). ``attached`` tells that the program
    writes to its page; where it does not (it is no Python program, has not imported torch yet, or its thread has
    failed), only pid, state and ``cpu_seconds`` mean anything, and ``progress_age``, which is the time since its start.
    ``beat_age`` is the time since the rank last held the interpreter lock, ``where`` the innermost line of its main
    thread ("train.py:31 in step") with the time since it last changed or the process last read or wrote in earnest (a
    long save is one line), and ``progress_age`` the time since its step, section or any sequence number last changed.
    ``own_seconds`` and ``waited_seconds`` add up since the start of the rank: the time that its main thread spent
    outside of collectives, and in them. ``section`` is the innermost open section ("" for none) and ``section_left``
    what is left of the shortest deadline of all open ones (negative where it has passed, None where none is set).
    ``stopping``: the program was given notice to stop, and has heard it (``elaunch.should_stop()`` was true).
    """

    rank: int
    local_rank: int
    pid: int
    state: str = "R"
    attached: bool = False
    beat_age: float = 0.0
    cpu_seconds: float = 0.0
    step: int = -1
    step_age: float = 0.0
    section: str = ""
    section_left: float | None = None
    where: str = ""
    where_age: float = 0.0
    progress_age: float = 0.0
    own_seconds: float = 0.0
    waited_seconds: float = 0.0
    groups: tuple[GroupProgress, ...] = ()
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One node's ranks and ports at one moment. ``interval`` is when the next comes at the latest, in seconds.

    ``ports`` are all that its ranks use where ``all_ports`` says so, else those in trouble: the others have none.
    ``impossible`` is what was said in it and cannot be, in words: that was left out where it was read.
    """

    node_id: str
    generation: int
    interval: float
    ranks: tuple[RankProgress, ...] = ()
    ports: tuple[PortReport, ...] = ()
    all_ports: bool = False
    impossible: str = ""
