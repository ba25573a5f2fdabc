"""The ranks of a job as columns of numbers, and what changed from one such table to the next. Values only.

Thousands of ranks are a page's largest part: what is a text in many rows stands once in a table of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.start_record import INSIDE
from elaunch.web.texts import Texts

STATES: Final = ("run", "wait", "hang", "straggler", "stopped", "starting", "unknown", "ended", "failed")
_NUMBER: Final = {state: number for number, state in enumerate(STATES)}
TABLES: Final = {
    "sections": "section",
    "places": "where",
    "collectives": "waits_in",
    "devices": "device",
    "nics": "nic",
    "rails": "rail",
    "phases": "start_phase",
}
AGES: Final = ("step_age", "progress_age")
MOST_RANKS: Final = 16384
MOST_TEXTS: Final = 4096  # of one table of a stream, after which it begins anew
LATE: Final = 10.0  # seconds without progress after which a rank that is waited for counts as hung


@dataclass(frozen=True, slots=True)
class RankTable:
    """``columns`` are as long as there are ranks, ``nodes`` what the column ``node`` points into.

    ``sizes`` are the lengths of the tables of texts when it was made: these only grow, with later tables.
    """

    generation: int
    nodes: tuple[tuple[str, str], ...]
    columns: Mapping[str, list[Any]]
    known: int = 0
    texts: Mapping[str, Texts] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def world(self) -> int:
        """The number of ranks."""
        return len(self.columns["rank"])

    @property
    def full(self) -> bool:
        """So many texts came together that the stream had better begin anew."""
        return any(len(texts.all) > MOST_TEXTS for texts in self.texts.values())


def new_texts() -> dict[str, Texts]:
    """Empty tables of texts."""
    return {name: Texts() for name in TABLES}


def rank_table(reply: pb.StatusReply | None, texts: Mapping[str, Texts]) -> RankTable:
    """The table of what a leader says; its texts are put into ``texts``."""
    if reply is None:
        return RankTable(0, (), _empty(0), 0, texts, _sizes(texts))
    members = sorted((node for node in reply.nodes if node.rank0 >= 0), key=lambda node: node.rank0)
    size = max([reply.world_size, *(node.rank0 + node.slots for node in members)])
    size = min(size, MOST_RANKS)
    columns = _empty(size)
    for number, node in enumerate(members):
        for rank in range(node.rank0, min(node.rank0 + node.slots, size)):
            columns["node"][rank] = number
            columns["local_rank"][rank] = rank - node.rank0
    furthest = max((line.step for line in reply.ranks), default=-1)
    unsettled = reply.phase == "starting"
    for line in reply.ranks:
        if 0 <= line.rank < size:
            _fill(columns, line, furthest, unsettled, texts)
    for end in reply.exits:
        if 0 <= end.rank < size:
            columns["state"][end.rank] = _NUMBER["failed" if end.exit_code else "ended"]
    nodes = tuple((node.node_id, node.host) for node in members)
    return RankTable(reply.generation, nodes, columns, len(reply.ranks), texts, _sizes(texts))


def _sizes(texts: Mapping[str, Texts]) -> dict[str, int]:
    return {name: len(table.all) for name, table in texts.items()}


def whole(table: RankTable, job: str, at: float) -> dict[str, Any]:
    """The table as one document."""
    return {
        "job": job,
        "at": at,
        "generation": table.generation,
        "world_size": table.world,
        "known": table.known,
        "nodes": [{"node_id": node_id, "host": host} for node_id, host in table.nodes],
        "states": list(STATES),
        **{name: texts.all[: table.sizes[name]] for name, texts in table.texts.items()},
        "columns": table.columns,
    }


def delta(before: RankTable, after: RankTable, at: float, renewed: Collection[int] = ()) -> dict[str, Any] | None:
    """The rows that changed; None where none did. Both tables are of the same ranks on the same nodes.

    Ages alone are no change, but in the rows ``renewed``.
    """
    changed = set(renewed)
    names: list[str] = []
    for name, column in after.columns.items():
        old = before.columns[name]
        if name in AGES or old == column:
            continue
        names.append(name)
        changed.update(row for row, value in enumerate(column) if old[row] != value)
    if not changed:
        return None
    rows = sorted(changed)
    return {
        "at": at,
        "generation": after.generation,
        "tables": {
            name: texts.all[before.sizes[name] : after.sizes[name]]
            for name, texts in after.texts.items()
            if after.sizes[name] > before.sizes[name]
        },
        "index": rows,
        "columns": {name: [after.columns[name][row] for row in rows] for name in (*names, *AGES)},
    }


def alike(before: RankTable, after: RankTable) -> bool:
    """Whether the second can be told as a change of the first."""
    return (before.generation, before.nodes, before.world) == (after.generation, after.nodes, after.world)


def _empty(size: int) -> dict[str, list[Any]]:
    unknown, none, zero = [-1] * size, [-1.0] * size, [0] * size
    columns: dict[str, list[Any]] = {
        "rank": list(range(size)),
        "node": unknown[:],
        "local_rank": unknown[:],
        "pid": zero[:],
        "state": [_NUMBER["unknown"]] * size,
        "step": unknown[:],
        "lag": unknown[:],
        "step_age": none[:],
        "progress_age": none[:],
        "awaited_by": zero[:],
    }
    for column in TABLES.values():
        columns[column] = zero[:]
    return columns


def _fill(
    columns: Mapping[str, list[Any]], line: pb.RankLine, furthest: int, unsettled: bool, texts: Mapping[str, Texts]
) -> None:
    rank, step = line.rank, line.step
    columns["pid"][rank] = line.pid
    columns["state"][rank] = _NUMBER[state_of(line, unsettled)]
    columns["step"][rank] = step
    columns["progress_age"][rank] = round(line.progress_seconds, 1)
    columns["awaited_by"][rank] = line.awaited_by
    if step >= 0:
        columns["lag"][rank] = furthest - step
        columns["step_age"][rank] = round(line.step_seconds, 1)
    for table, column, text in (
        ("places", "where", line.where),
        ("collectives", "waits_in", line.waits_in),
        ("sections", "section", line.section),
    ):
        if text:
            columns[column][rank] = texts[table].number(text)
    if line.HasField("start"):
        start = line.start
        device = " ".join(filter(None, (start.logical_device, start.device_id)))
        columns["device"][rank] = texts["devices"].number(device)
        columns["nic"][rank] = texts["nics"].number(start.nics)
        columns["rail"][rank] = texts["rails"].number(start.rail)
        columns["start_phase"][rank] = texts["phases"].number(start.phase)


def state_of(line: pb.RankLine, unsettled: bool) -> str:
    """One word for what a rank does."""
    if line.state in ("T", "t"):
        return "stopped"
    if line.HasField("start") and line.start.phase in INSIDE:
        return "starting"
    if line.awaited_by and line.progress_seconds >= LATE:
        return "hang"
    if line.slower:
        return "straggler"
    if line.waits_in:
        return "wait"
    return "starting" if unsettled else "run"
