"""A fault that a node is to bring about, as protobuf and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from elaunch.controller.commands import Inject
from elaunch.inject.fault import Fault
from elaunch.proto.elaunch.v1 import control_pb2 as pb

_FIELDS = tuple(f.name for f in fields(Fault))


def pack_inject(command: Inject) -> pb.Inject:
    values: dict[str, Any] = {name: getattr(command.fault, name) for name in _FIELDS}
    return pb.Inject(id=command.id, generation=command.generation, local_ranks=command.ranks, **values)


def unpack_inject(message: pb.Inject) -> Inject:
    """Raises ValueError for a fault that this release does not know."""
    fault = Fault(**{name: getattr(message, name) for name in _FIELDS})
    return Inject(message.id, message.generation, tuple(message.local_ranks), fault)
