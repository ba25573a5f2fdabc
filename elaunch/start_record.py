"""What one rank records of its start: who it is, whom it meets and how, and how far it has come. Without torch.

A rank writes its record to its page with every phase, its agent passes it on, the leader keeps it. What cannot be is
refused where such a value is made, with ValueError: a program can write what it likes over its own memory.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from typing import Any, Final

IMPORTING: Final = "importing"
PEER_DISCOVERY: Final = "peer_discovery"
STORE_EXCHANGE: Final = "store_exchange"
TRANSPORT: Final = "transport"
COMMUNICATOR: Final = "communicator"
CHECKED: Final = "checked"
LEFT: Final = "left"

INSIDE: Final = (PEER_DISCOVERY, STORE_EXCHANGE, TRANSPORT, COMMUNICATOR)
"""The phases in which a rank is inside of ``init_process_group``."""
PHASES: Final = (IMPORTING, *INSIDE, CHECKED, LEFT)
DOES: Final = {
    IMPORTING: "has not come to init_process_group",
    PEER_DISCOVERY: "connects to the store",
    STORE_EXCHANGE: "waits at the store for the others",
    TRANSPORT: "connects to its peers",
    COMMUNICATOR: "sets up its communicator",
    CHECKED: "has its process group",
    LEFT: "has destroyed its process groups",
}
"""What a rank does in each phase, for a person."""

MOST_TEXT: Final = 200  # characters of a text,
MOST_SENTENCE: Final = 600  # and of one of these:
_SENTENCES: Final = ("fault", "error")
_HIGHEST: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class StartRecord:
    """One rank's start.

    ``rank`` and ``world_size`` are those that elaunch gave, ``asked_rank`` and ``asked_world_size`` what the program
    asks torch for (-1 before), at ``endpoint``; ``shared`` tells that this is the store of the generation.
    ``logical_device`` is the program's name for its device (``cuda:0``), ``device_id`` the stable one of the hardware.
    Seconds: ``timeout`` is the process group's, ``import_seconds`` from the start of the process to
    ``init_process_group``, ``rendezvous_seconds``, ``exchange_seconds`` and ``communicator_seconds`` what connecting to
    the store, comparing there, and connecting to the peers took. ``inits`` counts the calls of ``init_process_group``,
    ``error`` is what it raised, ``fault`` the sentence of a check that the job did not pass.
    """

    job: str = ""
    host: str = ""
    pid: int = 0
    rank: int = 0
    world_size: int = 0
    generation: int = 0
    restart_count: int = 0
    local_rank: int = 0
    local_world_size: int = 0
    logical_device: str = ""
    device_id: str = ""
    backend: str = ""
    endpoint: str = ""
    transport: str = ""
    timeout: float = 0.0
    nics: str = ""
    numa_node: str = ""
    rail: str = ""
    import_seconds: float = 0.0
    rendezvous_seconds: float = 0.0
    exchange_seconds: float = 0.0
    communicator_seconds: float = 0.0
    topology_digest: str = ""
    driver: str = ""
    runtime: str = ""
    libraries: str = ""
    phase: str = IMPORTING
    asked_rank: int = -1
    asked_world_size: int = -1
    shared: bool = False
    asymmetry: bool = False
    inits: int = 0
    error: str = ""
    fault: str = ""

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise ValueError(f"{self.phase[:40]!r} is no phase of a start")
        for name in FIELDS:
            value = getattr(self, name)
            if isinstance(value, str):
                value.encode()  # raises ValueError for lone surrogates, which cannot be sent
                if len(value) > (MOST_SENTENCE if name in _SENTENCES else MOST_TEXT):
                    raise ValueError(f"{name} of a start is too long")
            elif not (math.isfinite(value) and -1 <= value < _HIGHEST):
                raise ValueError(f"{name} of a start cannot be {value}")

    @property
    def inside(self) -> bool:
        """The rank is in ``init_process_group``, as far as it has told."""
        return self.phase in INSIDE and not self.error and not self.fault


FIELDS: Final = tuple(field.name for field in fields(StartRecord))
_KINDS: Final = {name: type(getattr(StartRecord(), name)) for name in FIELDS}


def told(record: StartRecord, **values: Any) -> StartRecord:
    """``record`` with other values, texts cut to what there is room for."""
    return replace(record, **{name: _fitting(name, value) for name, value in values.items()})


def packed(record: StartRecord, room: int) -> bytes:
    """``record`` in at most ``room`` bytes, without its longest texts where they do not fit."""
    payload = _json(record)
    if len(payload) > room:
        payload = _json(replace(record, nics="", libraries="", error=record.error[:100], fault=record.fault[:200]))
    return payload if len(payload) <= room else _json(StartRecord(rank=record.rank, phase=record.phase))


def unpacked(payload: bytes) -> StartRecord:
    """The record that ``packed`` made. Raises ValueError for anything else."""
    try:
        found = json.loads(payload)
    except RecursionError:
        raise ValueError("no record of a start") from None
    if not isinstance(found, dict):
        raise ValueError("no record of a start")
    return StartRecord(**{name: _of_kind(name, found[name]) for name in FIELDS if name in found})


def _json(record: StartRecord) -> bytes:
    values = {name: getattr(record, name) for name in FIELDS}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _of_kind(name: str, value: object) -> Any:
    kind = _KINDS[name]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{name} of a start cannot be {str(value)[:40]!r}")
    return value


def _fitting(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    most = MOST_SENTENCE if name in _SENTENCES else MOST_TEXT
    return value if len(value) <= most else f"{value[: most - 3]}..."
