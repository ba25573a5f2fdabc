"""The messages of the control stream: what an agent sends is read here, and only what can be is believed."""

from __future__ import annotations

import hashlib

from elaunch.controller.heartbeat_messages import unpack_heartbeat
from elaunch.controller.node_status import NodeStatus
from elaunch.controller.status_messages import unpack_status
from elaunch.progress import Heartbeat
from elaunch.proto.elaunch.v1 import control_pb2 as pb

METHOD = "/elaunch.v1.Control/Attach"
MAX_MESSAGE = 4 << 20  # bytes: 64 tracebacks of 32 KiB each fit twice


def job_mark(job: str) -> str:
    """What stands for a job's name in metadata, which takes ASCII only, and little of it."""
    return hashlib.sha256(job.encode()).hexdigest()


def unpack_agent(message: pb.AgentMessage) -> NodeStatus | Heartbeat:
    """Raises ValueError on what this release does not know."""
    kind = message.WhichOneof("content")
    if kind == "status":
        return unpack_status(message.node_id, message.status)
    if kind == "heartbeat":
        return unpack_heartbeat(message.node_id, message.heartbeat)
    raise ValueError(f"neither a status nor a heartbeat: {kind}")
