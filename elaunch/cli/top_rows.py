"""The ranks or nodes of a job as rows for a screen, however many there are. Documents and room in, rows out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

STILL = 10.0  # seconds without progress that are worth a word
_BEHIND = 10  # steps that make a rank one that lags
_SECTIONS = 3  # in which most ranks are
_SILENT = 5.0  # seconds after which a node was due to be heard


@dataclass(frozen=True, slots=True)
class Row:
    """``step`` and ``lag`` (steps behind the first rank) are of the slowest rank in it. ``badness`` is 0 where all is
    well.
    """

    name: str
    host: str
    ranks: str
    phase: str
    step: str
    lag: int | None
    note: str
    badness: float = 0.0


def front(document: dict[str, Any]) -> int | None:
    """The furthest step of any rank."""
    steps = [rank["step"] for rank in document.get("rank_progress", ()) if rank["step"] is not None]
    return max(steps) if steps else None


def rank_rows(document: dict[str, Any]) -> list[Row]:
    """A row for each rank of which progress is known."""
    first = front(document)
    hosts = {node["node_id"]: node["host"] for node in document["nodes"]}
    phases = {node["node_id"]: node["phase"] for node in document["nodes"]}
    return [
        _rank_row(rank, hosts, phases, first)
        for rank in sorted(document.get("rank_progress", ()), key=lambda rank: rank["rank"])
    ]


def _rank_row(rank: dict[str, Any], hosts: dict[str, str], phases: dict[str, str | None], first: int | None) -> Row:
    start, node = rank["start"] or {}, rank["node_id"]
    lag = first - rank["step"] if first is not None and rank["step"] is not None else None
    section = f"in {rank['section']}" if rank["section"] else ""
    note = standing(rank) or section or " ".join(filter(None, [start.get("logical_device"), start.get("nics")]))
    name = str(rank["rank"])
    step = "-" if rank["step"] is None else str(rank["step"])
    return Row(name, hosts.get(node, node), name, phases.get(node) or "-", step, lag, note, badness(rank, lag))


def standing(rank: dict[str, Any]) -> str:
    """What a rank that does not get on is doing; "" for one that does."""
    since = rank["progress_seconds"]
    if since < STILL:
        return ""
    if rank["awaited_by"]:
        where = f" at {rank['where']}" if rank["where"] else ""
        return f"{rank['awaited_by']} wait for it, still for {since:.0f} s{where}"
    if rank["waits_in"]:
        return f"waits in {rank['waits_in']} for {since:.0f} s"
    return f"still for {since:.0f} s" if rank["step"] is not None else ""


def badness(rank: dict[str, Any], lag: int | None) -> float:
    """By how much a rank deserves to be looked at before others."""
    stands = rank["progress_seconds"] if standing(rank) else 0.0
    behind = float(lag) if lag is not None and lag >= _BEHIND else 0.0
    return float(rank["awaited_by"] * 1000.0 + stands + behind)


def node_rows(document: dict[str, Any]) -> list[Row]:
    """A row for each node, with the slowest of its ranks."""
    first = front(document)
    ranks: dict[str, list[dict[str, Any]]] = {}
    for rank in document.get("rank_progress", ()):
        ranks.setdefault(rank["node_id"], []).append(rank)
    leader = document["leader"]["node_id"] if document["leader"] else ""
    return [_node_row(node, ranks.get(node["node_id"], []), first, leader) for node in document["nodes"]]


def _node_row(node: dict[str, Any], ranks: Sequence[dict[str, Any]], first: int | None, leader: str) -> Row:
    steps = [rank["step"] for rank in ranks if rank["step"] is not None]
    lag = first - min(steps) if steps and first is not None else None
    lags = [(rank, first - rank["step"] if rank["step"] is not None and first is not None else None) for rank in ranks]
    worst = max(lags, key=lambda pair: badness(*pair), default=None)
    bad = badness(*worst) if worst else 0.0
    notes = ["leads"] if node["node_id"] == leader else []
    notes += [node["note"]] if node["note"] else []
    if worst and bad:
        notes.append(f"rank {worst[0]['rank']}: {standing(worst[0]) or f'{worst[1]} steps behind'}")
    if node["ranks"] is not None and (node["heard_seconds"] or 0.0) >= _SILENT:
        notes.append(f"not heard for {node['heard_seconds']:.0f} s")
        bad += 500.0
    bad += 100.0 if node["note"] else 0.0
    step = span(min(steps), max(steps)) if steps else "-"
    held = "-" if node["ranks"] is None else span(*node["ranks"])
    return Row(node["node_id"], node["host"], held, node["phase"] or "-", step, lag, "; ".join(notes), bad)


def fold(rows: Sequence[Row], room: int, what: str) -> list[Row]:
    """At most ``room`` rows: all, else those that deserve it most, and one for all others of each phase."""
    if len(rows) <= room:
        return list(rows)
    phases = Counter(row.phase for row in rows)
    shown = max(0, room - len(phases))
    worst = sorted((row for row in rows if row.badness), key=lambda row: -row.badness)[:shown]
    named = {row.name for row in worst}
    rest = [row for row in rows if row.name not in named]
    folded = [_together([row for row in rest if row.phase == phase], what) for phase in phases]
    return [*worst, *[row for row in folded if row is not None]][:room]


def _together(rows: Sequence[Row], what: str) -> Row | None:
    if len(rows) < 2:
        return rows[0] if rows else None
    lags = [row.lag for row in rows if row.lag is not None]
    behind = max(lags) if lags else None
    bad = sum(1 for row in rows if row.badness)
    note = f"{bad} of them in trouble" if bad else ""
    hosts = {row.host for row in rows}
    host = next(iter(hosts)) if len(hosts) == 1 else f"{len(hosts)} hosts"
    return Row(f"{len(rows)} {what}", host, "", rows[0].phase, "", behind, note)


def spread(document: dict[str, Any]) -> str:
    """How far apart the ranks are, in one line: ``4090 at step 1180, 5 one behind, 1 still for 41 s``."""
    first = front(document)
    ranks = document.get("rank_progress", ())
    sections = Counter(rank["section"] for rank in ranks if rank["section"])
    within = [f"{number} in {section}" for section, number in sections.most_common(_SECTIONS)]
    if first is None:
        return ", ".join(within)
    lags = Counter(first - rank["step"] for rank in ranks if rank["step"] is not None)
    unknown = len(ranks) - sum(lags.values())
    parts = [f"{lags[0]} at step {first}"]
    parts += [f"{lags[1]} one behind"] if lags[1] else []
    some = {lag: number for lag, number in lags.items() if lag > 1}
    parts += [f"{sum(some.values())} up to {max(some)} behind"] if some else []
    parts += [f"{unknown} tell no step"] if unknown else []
    parts += within
    still = [rank["progress_seconds"] for rank in ranks if standing(rank)]
    parts += [f"{len(still)} still for up to {max(still):.0f} s"] if still else []
    return ", ".join(parts)


def span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
