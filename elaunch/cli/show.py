"""What operators see, as text for people; the words are those of the documents."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from elaunch.cli.documents import LAST_EVENTS, Live, job_row, status_document
from elaunch.controller.roster import count
from elaunch.controller.survey import GONE, Overview
from elaunch.rendezvous.journal import Happening, Operation
from elaunch.rendezvous.records import Phase

_WIDEST = 100  # characters of one cell of a table


def jobs(found: Sequence[tuple[Overview, str]], silent: Sequence[str]) -> str:
    """The table of ``elaunch ps``."""
    rows = [("JOB", "PHASE", "GEN", "NODES", "RANKS", "RESTARTS", "REASON")]
    for seen, endpoints in found:
        row = job_row(seen, endpoints)
        nodes = f"{row['nodes']} of {row['min_nodes']}:{row['max_nodes']}" if row["max_nodes"] else str(row["nodes"])
        restarts = f"{row['restart_count']} of {row['max_restarts']}" if row["max_restarts"] is not None else "-"
        reason = row["reason"]["text"] if row["reason"] else ""
        phase = "no agent lives" if row["phase"] == GONE else row["phase"]
        rows.append((row["job"], phase, str(row["generation"]), nodes, str(row["ranks"]), restarts, reason))
    lines = [_table(rows)] if found else ["no jobs"]
    lines += [f"no answer from the etcd at {endpoints}" for endpoints in silent]
    return _plain("\n".join(lines))


def status(seen: Overview, live: Live, lines: Sequence[Happening], now: float) -> str:
    """``elaunch status`` for a person, at ``now`` in wall-clock seconds."""
    document = status_document(seen, live, lines, now)
    parts = [_headline(seen, document)]
    if document["leader"] and document["leader"]["host"] is None:
        parts.append(f"led by {document['leader']['node_id']} at {document['leader']['address']}")
    if document["live_error"]:
        parts.append(f"the leader does not answer ({document['live_error']}): as etcd has it")
    parts += _checkpoint(document)
    if seen.nodes:
        parts.append(_node_table(document))
    for drain in document["drained"]:
        parts.append(f"host {drain['host']} is out: {drain['why']}")
    for operation in seen.operations:
        if operation.standing.open:
            parts.append(
                f"open: {operation.kind} {operation.because}: {operation.answer or 'not seen by a leader yet'}"
            )
    if lines:
        parts.append("\n".join(["last events:", *(f"  {event(line)}" for line in lines[-LAST_EVENTS:])]))
    return _plain("\n".join(parts))


def _headline(seen: Overview, document: dict[str, Any]) -> str:
    phase = "no agent lives" if document["phase"] == GONE else document["phase"]
    limits = f" of {document['min_nodes']}:{document['max_nodes']}" if document["max_nodes"] else ""
    world = f"{count(document['ranks'], 'rank')}, {count(len(seen.nodes), 'node')}{limits}"
    restarts = ""
    if document["max_restarts"] is not None:
        restarts = f", {count(document['restart_count'], 'restart')}, {document['budget_left']} left"
    lines = [f"job {seen.job}: {phase}, generation {document['generation']}, {world}{restarts}"]
    if document["exit_code"] is not None and seen.over:
        lines[0] += f", exit code {document['exit_code']}"
    why = document.get("waiting_for") or (document["reason"] or {}).get("text")
    if why:
        lines.append(f"  {why}")
    return "\n".join(lines)


def _checkpoint(document: dict[str, Any]) -> list[str]:
    """The last one, what a failure now would cost, and which are suspect."""
    last, lines = document["checkpoint"], []
    if last:
        line = f"checkpoint: step {last['step']} of generation {last['generation']}, {span(last['age_seconds'])} ago"
        if last["lost_seconds"] is not None and document["phase"] == Phase.RUNNING.value:
            steps = "" if last["lost_steps"] is None else f"{count(last['lost_steps'], 'step')}, "
            line += f"; a failure now would cost {steps}{span(last['lost_seconds'])}"
        lines.append(f"{line} ({last['path']})")
    if document["suspect_steps"]:
        lines.append(f"suspect checkpoints, avoided: step {', '.join(map(str, document['suspect_steps']))}")
    return lines


def span(seconds: float) -> str:
    """A time as people read it: ``42 s``, ``5 min``, ``3.2 h``, ``2.5 d``."""
    for unit, size, digits in (("d", 86400, 1), ("h", 3600, 1), ("min", 60, 0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def _node_table(document: dict[str, Any]) -> str:
    rows = [("NODE", "HOST", "RANKS", "PHASE", "STEP", "HEARD", "")]
    steps: dict[str, list[int]] = {}
    for rank in document.get("rank_progress", ()):
        if rank["step"] is not None:
            steps.setdefault(rank["node_id"], []).append(rank["step"])
    leads = document["leader"]["node_id"] if document["leader"] else ""
    for row in document["nodes"]:
        ranks = "-" if row["ranks"] is None else _span(*row["ranks"])
        heard = _heard(row)
        notes = [*(["leads"] if row["node_id"] == leads else []), *filter(None, [row["note"]])]
        known = steps.get(row["node_id"])
        step = _span(min(known), max(known)) if known else "-"
        rows.append((row["node_id"], row["host"], ranks, row["phase"] or "-", step, heard, "; ".join(notes)))
    return _table(rows)


def _heard(row: dict[str, Any]) -> str:
    """Only nodes with ranks send heartbeats: of the others a status, when it changes, is all that there is to hear."""
    if row["heard_seconds"] is None:
        return "-"
    return f"{row['heard_seconds']:.1f} s ago" if row["ranks"] is not None else "no ranks"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def event(line: Happening, *, as_json: bool = False) -> str:
    """One line of history."""
    if as_json:
        return json.dumps(dataclasses.asdict(line))
    time = datetime.fromtimestamp(line.time).isoformat(sep=" ", timespec="seconds")
    return _plain(f"{time}  {line.code}: {line.text}")


def operation(job: str, done: Operation) -> str:
    """What became of a command, and what nodes answered where that is what was asked for."""
    lines = [f"{job}: {done.kind}: {done.answer}"]
    if done.kind == "stacks":
        lines += [f"--- node {node_id}\n{text}" for node_id, text in done.answers.items()]
    return _plain("\n".join(lines))


def _table(rows: Iterable[Sequence[str]]) -> str:
    rows = [[_short(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _short(cell: str) -> str:
    """No cell is so long that it pushes all others off the screen; documents have the whole of it."""
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 3]}..."


def _plain(text: str) -> str:
    """Nothing that comes out of an etcd moves the cursor of a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
