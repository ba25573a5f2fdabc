"""What ``elaunch top`` shows, as lines of a given width and number. Documents in, lines out."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from elaunch.cli import top_rows
from elaunch.cli.progress_bar import bar
from elaunch.cli.show import span
from elaunch.cli.table import plain
from elaunch.cli.top_rows import Row
from elaunch.controller.findings import users
from elaunch.controller.levels import level
from elaunch.controller.roster import count
from elaunch.controller.survey import GONE

_COLOURS = {
    "running": "green",
    "succeeded": "green",
    "starting": "yellow",
    "waiting": "yellow",
    "stopping": "yellow",
    "aborting": "red",
    "failed": "red",
    "stopped": "red",
    GONE: "red",
}
_LOUD = {"error": "red", "warning": "yellow"}
_EVENTS = 3  # lines at least, where there is any room
_PORTS = 4
_WIDEST = 40  # characters of a column that is not the last


def screen(lines: RenderableType, width: int, height: int, environ: Mapping[str, str]) -> list[str]:
    """``lines`` as text for a terminal of this size: no line is longer, no more are there."""
    colours = "256" if "256color" in environ.get("TERM", "") or environ.get("COLORTERM") else "standard"
    target = io.StringIO()
    console = Console(
        file=target,
        width=max(1, width),
        height=max(1, height),
        force_terminal=True,
        color_system=None if environ.get("NO_COLOR") else colours,  # type: ignore[arg-type]
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    console.print(lines, end="", overflow="ellipsis", no_wrap=True, crop=True)
    return target.getvalue().splitlines()[:height]


def headline(document: dict[str, Any]) -> str:
    """A job in one line."""
    phase = "no agent lives" if document["phase"] == GONE else document["phase"]
    limits = f" of {document['min_nodes']}:{document['max_nodes']}" if document["max_nodes"] else ""
    parts = [f"{document['job']}: {phase}", f"generation {document['generation']}"]
    parts.append(f"{count(document['ranks'], 'rank')}, {count(len(document['nodes']), 'node')}{limits}")
    if document["max_restarts"] is not None:
        parts.append(f"{count(document['restart_count'], 'restart')}, {document['budget_left']} left")
    if document["exit_code"] is not None:
        parts.append(f"exit code {document['exit_code']}")
    return ", ".join(parts)


def reason(document: dict[str, Any]) -> str:
    """Why it is so, or what is waited for."""
    return document.get("waiting_for") or (document["reason"] or {}).get("text") or ""


def waiting(document: dict[str, Any]) -> str:
    """How many of the nodes that a waiting job needs are here, as a bar, and for how long it has waited."""
    if not document.get("waiting_for") or not document["min_nodes"]:
        return ""
    here, most = len(document["nodes"]), document["min_nodes"]
    if here >= most:
        most = document["max_nodes"]
    return f"  {bar(here / most)} {here} of {most} nodes, waiting for {span(document['phase_seconds'])}"


def checkpoint(document: dict[str, Any]) -> str:
    """The last one, its age, and what a failure now would cost."""
    last = document["checkpoint"]
    if not last:
        return ""
    line = f"checkpoint: step {last['step']}, {span(last['age_seconds'])} ago"
    if last["lost_seconds"] is not None and document["phase"] == "running":
        steps = "" if last["lost_steps"] is None else f"{count(last['lost_steps'], 'step')}, "
        line += f"; a failure now would cost {steps}{span(last['lost_seconds'])}"
    return line


def job_view(
    document: dict[str, Any], events: Sequence[tuple[float, str, str]], error: str, height: int, now: float
) -> RenderableType:
    """One job. ``events`` are time, code and text of the last ones; ``error`` says why this is not of now."""
    parts: list[RenderableType] = [_title(document, now)]
    parts += [_line(f"  {why}")] if (why := reason(document)) else []
    parts += [_line(text, "yellow")] if (text := waiting(document)) else []
    parts += [_line(text, "red")] if (text := error or _silence(document)) else []
    parts += [_line(text)] if (text := checkpoint(document)) else []
    parts += [_line(f"ranks: {text}")] if (text := top_rows.spread(document)) else []
    ports = _ports(document)
    left = height - len(parts) - len(ports)
    below = min(len(events), max(_EVENTS, left // 3)) + 1 if events and left > 2 * _EVENTS else 0
    if document["nodes"] and left - below > 1:
        rows, what = _rows(document, left - below - 1)
        parts.append(_table_of(rows, what))
        left -= len(rows) + 1
    parts += ports
    if below:
        parts += [_line("last events", "bold"), *(_event(one) for one in list(events)[1 - left :])]
    return Group(*parts)


def jobs_view(documents: Sequence[dict[str, Any]], error: str, height: int, now: float) -> RenderableType:
    """All jobs, a row each, those that do not run first where there is not room for all."""
    title = f"{count(len(documents), 'job')}, {sum(document['ranks'] for document in documents)} ranks"
    parts: list[RenderableType] = [_bar(title, now)]
    parts += [_line(error, "red")] if error else []
    room = max(1, height - len(parts) - 2)
    rows = sorted(documents, key=lambda one: (one["phase"] == "running", one["job"]))
    heads = ("JOB", "PHASE", ">GEN", "NODES", ">RANKS", "RESTARTS", ">STEP", "CHECKPOINT", "WHY")
    table = _table(heads, [_job_row(document) for document in rows[:room]])
    parts.append(table if rows else _line("no jobs"))
    if len(rows) > room:
        parts.append(_line(f"... and {len(rows) - room} more, that run"))
    return Group(*parts)


def _job_row(document: dict[str, Any]) -> list[Text]:
    nodes = f"{len(document['nodes'])} of {document['min_nodes']}:{document['max_nodes']}"
    most, step = document["max_restarts"], top_rows.front(document)
    restarts = "-" if most is None else f"{document['restart_count']} of {most}"
    phase = _cell(document["phase"], document["phase"])
    numbers = map(_cell, (document["generation"], nodes, document["ranks"], restarts, "-" if step is None else step))
    saved = checkpoint(document).removeprefix("checkpoint: ") or "-"
    return [_cell(document["job"]), phase, *numbers, _cell(saved), _cell(reason(document))]


def _title(document: dict[str, Any], now: float) -> Text:
    text = _bar(headline(document), now)
    at = text.plain.find(": ") + 2
    text.stylize(f"bold {_COLOURS.get(document['phase'], '')}", at, at + len(document["phase"]))
    return text


def _bar(text: str, now: float) -> Text:
    return Text(plain(f"{datetime.fromtimestamp(now):%H:%M:%S}  {text}   (q quits)").replace("\n", " "), "bold")


def _silence(document: dict[str, Any]) -> str:
    error = document["live_error"]
    return f"the leader does not answer ({error}): as etcd has it" if error else ""


def _rows(document: dict[str, Any], room: int) -> tuple[list[Row], str]:
    """Ranks where there is room for all, else nodes; and which of them."""
    ranks = top_rows.rank_rows(document)
    known = {rank["node_id"] for rank in document.get("rank_progress", ())}
    if ranks and len(ranks) <= room and all(node["node_id"] in known for node in document["nodes"]):
        return ranks, "RANK"
    return top_rows.fold(top_rows.node_rows(document), max(1, room), "nodes"), "NODE"


def _table_of(rows: Sequence[Row], what: str) -> Table:
    nodes = what == "NODE"
    heads = (what, "HOST", *(["RANKS"] if nodes else []), "PHASE", ">STEP", ">LAG", "")
    cells = []
    for row in rows:
        who = map(_cell, (row.name, row.host, *([row.ranks] if nodes else [])))
        how = map(_cell, (row.step, "-" if row.lag is None else row.lag, row.note))
        cells.append([*who, _cell(row.phase, row.phase), *how])
    return _table(heads, cells, ["yellow" if row.badness else "" for row in rows])


def _table(heads: Sequence[str], rows: Sequence[Sequence[Text]], styles: Sequence[str] = ()) -> Table:
    """A head that begins with ``>`` has its column to the right. The last column has what room the others leave."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=True)
    for at, head in enumerate(heads):
        name, side = head.lstrip(">"), "right" if head.startswith(">") else "left"
        wide = max(len(name), *(len(row[at].plain) for row in rows), 0)
        size = {"ratio": 1} if at == len(heads) - 1 else {"width": min(wide, _WIDEST)}
        table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis", **size)  # type: ignore[arg-type]
    for at, row in enumerate(rows):
        table.add_row(*row, style=styles[at] if styles else "")
    return table


def _cell(value: object, phase: str = "") -> Text:
    return Text(plain(str(value)).replace("\n", " "), _COLOURS.get(phase, ""))


def _ports(document: dict[str, Any]) -> list[Text]:
    ports = document.get("ports", ())
    lines = [
        f"  {port['port']} of {port['host']} ({users(port['ranks'])}): {port['text']}, since {span(port['seconds'])}"
        for port in ports[:_PORTS]
    ]
    lines += [f"  ... and {len(ports) - _PORTS} more"] if len(ports) > _PORTS else []
    return [_line("ports in trouble", "bold"), *(_line(line, "yellow") for line in lines)] if lines else []


def _event(one: tuple[float, str, str]) -> Text:
    time, code, text = one
    style = _LOUD.get(level(code), "")
    return _line(f"  {datetime.fromtimestamp(time):%H:%M:%S}  {code}: {text}", style)


def _line(text: str, style: str = "") -> Text:
    return Text(plain(text).replace("\n", " "), style)
