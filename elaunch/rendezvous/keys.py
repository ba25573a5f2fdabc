"""The names of a job's keys in etcd: everything of a job lives under ``/elaunch/<job>/``."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

ROOT = "/elaunch/"


@dataclass(frozen=True, slots=True)
class JobKeys:
    """The keys of one job. Any job id is allowed: what etcd or a path could misread is percent-encoded."""

    job: str

    @property
    def prefix(self) -> str:
        return f"{ROOT}{quote(self.job, safe='')}/"

    @property
    def spec(self) -> str:
        return self.prefix + "spec"

    @property
    def leader(self) -> str:
        return self.prefix + "leader"

    @property
    def state(self) -> str:
        return self.prefix + "state"

    @property
    def checkpoint(self) -> str:
        """The last committed checkpoint."""
        return self.prefix + "checkpoint"

    @property
    def commit(self) -> str:
        """Holds the token of the leader's last commit (see fence.py)."""
        return self.prefix + "commit"

    @property
    def nodes(self) -> str:
        return self.prefix + "nodes/"

    def node(self, node_id: str) -> str:
        return self.nodes + node_id

    def seat(self, rank: int) -> str:
        """Who holds a node rank that was asked for (see seats.py). Zero-padded, so that none begins another."""
        return f"{self.prefix}seats/{rank:010d}"

    @property
    def plans(self) -> str:
        return self.prefix + "plans/"

    def plan(self, generation: int) -> str:
        """Zero-padded, so that key order is the order of generations."""
        return f"{self.plans}{generation:010d}"

    @property
    def members(self) -> str:
        """The members of an embedded etcd (see trio.py)."""
        return self.prefix + "etcd/members"

    @property
    def berths(self) -> str:
        return self.prefix + "etcd/berths/"

    def berth(self, node_id: str) -> str:
        """What a node says of the member that it keeps, on the node's lease."""
        return self.berths + node_id

    def picture(self, digest: str) -> str:
        """What machines of this digest look like: SVG, compressed; written by the first of them, create-only."""
        return f"{self.prefix}pictures/{digest}"

    @property
    def events(self) -> str:
        return self.prefix + "events/"

    def event(self, seq: int) -> str:
        """Zero-padded, so that key order is the order of events."""
        return f"{self.events}{seq:012d}"

    @property
    def commands(self) -> str:
        return self.prefix + "commands/"

    def command(self, command_id: str) -> str:
        return self.commands + command_id

    @property
    def listeners(self) -> str:
        """Who waits to hear what became of a command (see listeners.py)."""
        return self.prefix + "listeners/"


def job_of(key: str) -> str:
    """The job that a key below ``ROOT`` belongs to."""
    return unquote(key.removeprefix(ROOT).split("/", 1)[0])


def split(key: str) -> tuple[str, str] | None:
    """The job that ``key`` belongs to, and the key's name within it; None for a key of no job."""
    name, slash, rest = key.removeprefix(ROOT).partition("/")
    return (unquote(name), rest) if key.startswith(ROOT) and slash else None
