"""How ranks get on, as protobuf and back.

That a heartbeat came shows that its node lives, whatever it says; numbers that cannot be are not believed. Of a rank
with such a number only its process counts, as of one that tells nothing.
"""

from __future__ import annotations

import math
from typing import Any

from elaunch.controller.port_messages import pack_port, unpack_port
from elaunch.controller.text import sendable
from elaunch.progress import GroupProgress, Heartbeat, RankProgress
from elaunch.proto.elaunch.v1 import control_pb2 as pb

_PLAIN = [name for name in RankProgress.__slots__ if name not in ("groups", "section_left")]
_SECONDS = ("beat_age", "cpu_seconds", "step_age", "where_age", "progress_age", "own_seconds", "waited_seconds")
_MOST_SECONDS = 1e11  # more than a thousand threads compute in a year
_HIGHEST = 1 << 62  # step, or sequence number


def pack_heartbeat(heartbeat: Heartbeat, epoch: int) -> pb.AgentMessage:
    ranks = [_pack_progress(rank) for rank in heartbeat.ranks]
    packed = pb.Heartbeat(generation=heartbeat.generation, interval=heartbeat.interval, ranks=ranks)
    packed.ports.extend(map(pack_port, heartbeat.ports))
    packed.all_ports = heartbeat.all_ports
    return pb.AgentMessage(node_id=heartbeat.node_id, leader_epoch=epoch, heartbeat=packed)


def unpack_heartbeat(node_id: str, message: pb.Heartbeat) -> Heartbeat:
    """Raises ValueError on a state of a port that this release does not know."""
    told = [(_unpack_progress(rank), _impossible(rank)) for rank in message.ranks]
    ranks = tuple(_process_of(rank) if wrong else rank for rank, wrong in told)
    ports = tuple(map(unpack_port, message.ports))
    found = [wrong for _, wrong in told if wrong]
    interval = message.interval
    if not 0 <= interval < math.inf:
        found.append(f"interval={interval}")
        interval = 0.0
    return Heartbeat(node_id, message.generation, interval, ranks, ports, message.all_ports, "; ".join(found[:1]))


def _pack_progress(rank: RankProgress) -> pb.RankProgress:
    values: dict[str, Any] = {name: getattr(rank, name) for name in _PLAIN}
    texts = {name: sendable(values[name]) for name in ("state", "section", "where")}
    groups = [
        pb.GroupProgress(
            name=sendable(group.name),
            size=group.size,
            started=group.started,
            finished=group.finished,
            collective=sendable(group.collective),
            ranks=group.ranks,
        )
        for group in rank.groups
    ]
    return pb.RankProgress(**values | texts, section_left=rank.section_left, groups=groups)


def _unpack_progress(message: pb.RankProgress) -> RankProgress:
    groups = tuple(
        GroupProgress(g.name, g.size, g.started, g.finished, g.collective, tuple(g.ranks)) for g in message.groups
    )
    left = message.section_left if message.HasField("section_left") else None
    return RankProgress(**{name: getattr(message, name) for name in _PLAIN}, section_left=left, groups=groups)


def _impossible(message: pb.RankProgress) -> str:
    """The first of a rank's numbers that cannot be, in words; "" where all can."""
    for name in _SECONDS:
        if not 0 <= (value := getattr(message, name)) < _MOST_SECONDS:
            return f"rank {message.rank}: {name}={value}"
    if not message.section_left > -_MOST_SECONDS:  # a program may give a section as long as it likes
        return f"rank {message.rank}: section_left={message.section_left}"
    if not -1 <= message.step <= _HIGHEST:
        return f"rank {message.rank}: step={message.step}"
    for group in message.groups:
        if group.size < 0 or not all(0 <= number <= _HIGHEST for number in (group.started, group.finished)):
            return f"rank {message.rank}: a group of {group.size} at {group.started} and {group.finished}"
    return ""


def _process_of(rank: RankProgress) -> RankProgress:
    return RankProgress(rank.rank, rank.local_rank, rank.pid, rank.state)
