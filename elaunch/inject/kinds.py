"""The faults that there are: whom each hits, who brings it about, and what it takes. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Target = Literal["rank", "node", "port", "controller", "etcd", "network"]
Carrier = Literal["job", "lab"]

POINTS = {
    "step": "the program says that it is at a step (elaunch.step)",
    "rendezvous": "init_process_group, before the ranks meet",
    "ddp": "construction of DistributedDataParallel",
    "forward": "a forward pass of an outermost module",
    "backward": "in the middle of a backward pass: half of the gradients are there",
    "optimizer": "before a step of an optimizer",
    "save": "a save of elaunch.checkpoint, agreed on, before the state is copied",
    "write": "a save, before the shards are written",
    "commit": "a save, the shards are written, before it is published",
    "restore": "a restore of elaunch.checkpoint, before anything is read",
}
"""Where in a program a fault can be; a program may have more of its own (``elaunch.inject.reached("name")``)."""

STEP = "step"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault.

    ``carriers``: ``job``: the agents of the job bring it about (``elaunch inject``), ``lab``: it comes from outside
    (``elaunch.lab``). ``now``: it can happen at once, ``inside``: at a point of the program. ``lasts``: it has a
    duration, after which it is undone; a duration of 0 is for good. ``takes`` are the fields of ``Fault`` that it
    looks at beside target, point and duration.
    """

    name: str
    target: Target
    text: str
    carriers: tuple[Carrier, ...] = ("job",)
    now: bool = True
    inside: bool = False
    lasts: bool = False
    takes: tuple[str, ...] = ()


_BOTH: tuple[Carrier, ...] = ("job", "lab")
_LAB: tuple[Carrier, ...] = ("lab",)

_ALL = (
    Kind("kill", "rank", "the rank gets a signal (KILL)", inside=True, takes=("signal",)),
    Kind("exit", "rank", "the rank exits", now=False, inside=True, takes=("code",)),
    Kind("raise", "rank", "the rank raises an error", now=False, inside=True),
    Kind("device-reset", "rank", "the rank's device is lost: an error as of CUDA", now=False, inside=True),
    Kind("memory", "rank", "the rank runs out of memory", now=False, inside=True, lasts=True, takes=("bytes",)),
    Kind("stop", "rank", "the rank is stopped (SIGSTOP)", inside=True, lasts=True),
    Kind("sleep", "rank", "the rank's thread sleeps", now=False, inside=True, lasts=True),
    Kind("lock", "rank", "the rank holds the interpreter lock", now=False, inside=True, lasts=True),
    Kind("mismatch", "rank", "the rank enters another collective than its peers", now=False, inside=True),
    Kind("slow-cpu", "rank", "the rank gets a share of its time", lasts=True, takes=("share", "period")),
    Kind(
        "slow-step", "rank", "each pass of the point takes longer", now=False, inside=True, lasts=True, takes=("delay",)
    ),
    Kind("agent-kill", "node", "the agent is killed, and its ranks with it", _BOTH),
    Kind("agent-freeze", "node", "the agent is stopped (SIGSTOP)", _BOTH, lasts=True),
    Kind(
        "link-down", "port", "the port is down, in the tree of $ELAUNCH_SYSFS_ROOT", _BOTH, lasts=True, takes=("port",)
    ),
    Kind("link-flap", "port", "the port goes down and up, in that tree", _BOTH, lasts=True, takes=("port", "period")),
    Kind("controller-kill", "controller", "the controller is killed", _LAB),
    Kind("controller-freeze", "controller", "the controller is stopped (SIGSTOP)", _LAB, lasts=True),
    Kind("controller-cut", "controller", "the controller reaches nobody", _LAB, lasts=True),
    Kind("etcd-kill", "etcd", "the etcd member is killed, and started again at the end", _LAB, lasts=True),
    Kind("etcd-freeze", "etcd", "the etcd member is stopped (SIGSTOP)", _LAB, lasts=True),
    Kind("etcd-disk-full", "etcd", "the etcd member's disk is full", _LAB, lasts=True),
    Kind("etcd-clock-jump", "etcd", "the etcd member's clock is ahead", _LAB, lasts=True, takes=("jump",)),
    Kind("loss", "network", "packets to a host are lost", _LAB, lasts=True, takes=("share",)),
    Kind("delay", "network", "packets to a host are late", _LAB, lasts=True, takes=("delay",)),
    Kind("reorder", "network", "packets to a host overtake each other", _LAB, lasts=True, takes=("delay", "share")),
    Kind("rate", "network", "a host sends at a limited rate", _LAB, lasts=True, takes=("mbit",)),
    Kind("reset", "network", "the TCP connections of a host are reset", _LAB),
    Kind("one-way", "network", "nothing gets to a host; what it sends arrives", _LAB, lasts=True),
    Kind("partition", "network", "nothing gets to a host or from it", _LAB, lasts=True),
    Kind("interface-down", "network", "an interface of a host is down", _LAB, lasts=True),
    Kind("address-gone", "network", "an interface of a host has no address", _LAB, lasts=True),
    Kind("mtu", "network", "the way to a host takes small packets only, and nobody is told", _LAB, lasts=True),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
UNDO = Kind("undo", "node", "what lasts or is armed is undone: of a rank, or of a node with its ranks and ports")
"""No fault, but asked for as one."""
