"""How ranks ended, as protobuf and back: in a status of their node, and in what the job's end is told with."""

from __future__ import annotations

from dataclasses import replace

from elaunch.controller.text import texts_sendable
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.rendezvous.state import RankExit

TRACEBACKS = 64  # of one message: the first to fail tell the most


def pack_exits(exits: tuple[RankExit, ...]) -> list[pb.RankExit]:
    """All ends; of the tracebacks the first ones, so that a node of many ranks is heard all the same."""
    full = [pack_exit(end) for end in exits[:TRACEBACKS]]
    return full + [pack_exit(replace(end, traceback="")) for end in exits[TRACEBACKS:]]


def pack_exit(end: RankExit) -> pb.RankExit:
    return pb.RankExit(**texts_sendable(end))


def unpack_exit(end: pb.RankExit) -> RankExit:
    return RankExit(**{name: getattr(end, name) for name in RankExit.__slots__})
