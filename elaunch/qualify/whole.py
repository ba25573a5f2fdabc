"""What a report tells of the cluster as a whole, as tables of its page. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from elaunch.qualify import plots
from elaunch.qualify.report import Report


def whole(report: Report) -> str:
    """Topology, bootstrap, paths, ports."""
    ports = sorted(report.ports, key=lambda row: (not row["errors"], -float(row["bytes_per_second"])))
    nodes = sorted(report.topology, key=lambda one: not one["notes"])
    kinds = len({one["digest"] for one in nodes})
    machines = f"Machines: {len(nodes)} of {kinds} {'kind' if kinds == 1 else 'kinds'}"
    software = ("host", "topology", "cores", "load", "devices", "NICs", "software", "notes")
    return "".join(
        (
            '<section class="whole"><h2>The whole</h2><div class="grid">',
            _table("Bootstrap and bandwidth", ("measure", "value", "slowest"), _numbers(report)),
            _table("Traffic of the rails", ("rail", "ports", *_TRAFFIC), [_rail(row) for row in report.rails]),
            _table("Traffic of the ports", ("host", "port", "rail", *_TRAFFIC), [_port(row) for row in ports]),
            _table("Path of each rank", ("rank", "host", "device", "backend", "rail", "path"), _ranks(report)),
            _table(machines, software, [_machine(one) for one in nodes], _missing(report), "broad"),
            "</div></section>\n",
        )
    )


_LONG = 40  # characters: more are broken into lines
_MOST = 512
"""Rows of a table: a page of more is no pleasure to open, and report.json has them all."""
_TRAFFIC = ("sent", "received", "rate", "errors", "Gbit/s", "used")


def _numbers(report: Report) -> list[tuple[str, ...]]:
    best = report.aggregate
    found: list[tuple[str, ...]] = []
    for phase, value in report.bootstrap.items():
        who = max(report.ranks, key=lambda row: (row.get("start") or {}).get(phase, 0.0), default={})
        slowest = f"rank {who['rank']} of {who['host']}" if (who.get("start") or {}).get(phase) else ""
        found.append((f"bootstrap: {phase.replace('_', ' ')}", f"{value:.2f} s", slowest))
    if best:
        found.append(("best bus bandwidth", f"{best.get('bus_bandwidth', 0) / 1e9:.3g} GB/s", ""))
        found.append(("aggregate link throughput", f"{best.get('link_throughput', 0) / 1e9:.3g} GB/s", ""))
        found.append(("over all ports", f"{best.get('port_throughput', 0) / 1e9:.3g} GB/s", ""))
    return found


def _ranks(report: Report) -> list[tuple[Any, ...]]:
    return [
        (
            *(row.get(name) for name in ("rank", "host", "device", "backend")),
            _number(row.get("rail")),
            _path(row.get("path") or {}, row.get("nics") or (), str(row.get("transport") or "")),
        )
        for row in report.ranks
    ]


def _machine(one: Mapping[str, Any]) -> tuple[Any, ...]:
    links = _counted(_of_port(port) for port in one["ports"] if not port["software"])
    devices = _counted(str(device["model"] or device["device"]) for device in one["devices"])
    software = ", ".join(f"{name} {version}" for name, version in (one.get("versions") or {}).items())
    load = (_number(one.get("cores")), _number(one.get("load")))
    has = (devices or "CPU only", links or "no NIC")
    return one["host"], str(one["digest"])[:12], *load, *has, software, "; ".join(one["notes"])


def _counted(words: Iterable[str]) -> str:
    return ", ".join(f"{count} x {word}" if count > 1 else word for word, count in Counter(words).items())


def _of_port(port: Mapping[str, Any]) -> str:
    rate = f"{port['gbit']:g} Gbit/s" if port.get("gbit") else ""
    return " ".join(filter(None, (str(port["link_layer"]), rate, str(port.get("role") or ""), str(port["state"]))))


def _missing(report: Report) -> str:
    nodes = report.where.get("nodes")
    missing = nodes - len(report.topology) if isinstance(nodes, int) else 0
    return f"{missing} of {nodes} nodes told nothing of themselves." if missing > 0 and report.topology else ""


def _rail(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["rail"], row["ports"], *_traffic(row)


def _port(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["host"], row["port"], _number(row.get("rail")), *_traffic(row)


def _traffic(row: Mapping[str, Any]) -> tuple[Any, ...]:
    rate = f"{row['mbit'] / 1000:g}" if row.get("mbit") else ""
    used = f"{row['utilisation']:.1%}" if row.get("utilisation") is not None else ""
    moved = (plots.size_text(row["sent"]), plots.size_text(row["received"]))
    return *moved, f"{plots.size_text(row['bytes_per_second'])}/s", row["errors"], rate, used


def _number(value: Any) -> str:
    return "" if value is None else str(value)


def _path(path: Mapping[str, Any], nics: Sequence[str], transport: str) -> str:
    """What the agent chose, else what the backend took."""
    chosen = [f"{name}={value}" for name, value in path.items()]
    return ", ".join([*nics, *chosen]) or transport or "as the backend chooses"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], below: str = "", kind: str = "") -> str:
    """One that is long or wide can be scrolled, with the keyboard too."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(word)}</th>' for word in columns)
    body = "".join(f"<tr>{''.join(map(_value, row))}</tr>" for row in rows[:_MOST])
    more = f"{len(rows) - _MOST} more are in report.json." if len(rows) > _MOST else ""
    note = "".join(f'<p class="none">{escape(text)}</p>' for text in (more, below) if text)
    name = escape(title)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    region = f'<div class="wide tall" tabindex="0" role="region" aria-label="{name}">{table}</div>'
    return f'<div class="part {kind}"><h3>{name}</h3>{region}{note}</div>'


def _value(value: Any) -> str:
    text = str(value)
    return f'<td class="long">{escape(text)}</td>' if len(text) > _LONG else f"<td>{escape(text)}</td>"
