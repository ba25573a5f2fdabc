"""The report's plots: recoveries, bandwidths, steps, ports. Values only: the report in, drawings out."""

from __future__ import annotations

from html import escape

from elaunch.qualify.report import Report
from elaunch.qualify.svg import Bar, bars, lines

PHASES = {
    "detection": "it failed, and nobody knew",
    "abort": "the old ranks were stopped",
    "waiting": "too few nodes were there",
    "rendezvous": "the next generation was planned",
    "start": "ranks started, and met",
    "restore": "a checkpoint was restored",
    "first_step": "on the way to the first step",
}

_SHOWN = 16
"""Ports that are drawn: the busiest. All are in the table."""
_TELLING = 0.01
"""Of a port's rate: where all are used less, bytes per second say more."""


def recovery(report: Report) -> str:
    """The phases of each recovery, as stacked bars."""
    rows = []
    for cell in report.cells:
        parts = tuple(
            (f"k{n}", cell.phases[p], f"{p.replace('_', ' ')} {cell.phases[p]:.2f} s, {text}")
            for n, (p, text) in enumerate(PHASES.items())
            if cell.phases.get(p)
        )
        if parts:
            row = Bar(cell.name.removeprefix("faults/"), parts, "")
            rows.append(Bar(row.label, parts, f"{row.total:.1f} s"))
    if not rows:
        return ""
    legend = _legend({f"k{n}": p.replace("_", " ") for n, p in enumerate(PHASES)})
    return legend + bars("Recovery phases of each fault, in seconds", rows, " s")


def bandwidth(report: Report) -> str:
    """The algorithm's bandwidth over the size, one line for each collective."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in sorted(report.bandwidth, key=lambda row: float(row["bytes"])):
        series.setdefault(str(row["op"]), []).append((float(row["bytes"]), float(row["algorithm"]) / 1e9))
    sizes = {size: size_text(size) for points in series.values() for size, _ in points}
    every = max(1, len(sizes) // 6)
    shown = {size: word for n, (size, word) in enumerate(sorted(sizes.items())) if n % every == 0}
    return lines("Algorithm bandwidth over message size, GB/s", series, shown, " GB/s")


def steps(report: Report) -> str:
    """What a step consists of: computing, and communication that nothing hides."""
    rows = []
    for row in report.steps:
        compute, exposed = 1000 * float(row["compute"]), 1000 * float(row["exposed"])
        parts = (
            ("k0", compute, f"computing {compute:.2f} ms"),
            ("k1", exposed, f"exposed communication {exposed:.2f} ms"),
        )
        share = exposed / (compute + exposed) if compute + exposed else 0.0
        rows.append(Bar(str(row["name"]), parts, f"{share:.0%} exposed"))
    if not rows:
        return ""
    return _legend({"k0": "computing", "k1": "exposed communication"}) + bars("Step time, in milliseconds", rows, " ms")


def ports(report: Report) -> str:
    """How much of each port was used, in percent; where nobody knows a rate, in MB/s."""
    known = [row for row in report.ports if row.get("utilisation") is not None]
    in_percent = any(row["utilisation"] >= _TELLING for row in known)
    name = "utilisation" if in_percent else "bytes_per_second"
    every = sorted(known if in_percent else report.ports, key=lambda row: -float(row[name]))
    rows = []
    for row in every[:_SHOWN]:
        rate = float(row["bytes_per_second"])
        value = 100 * float(row["utilisation"]) if in_percent else rate / 1e6
        words = f"{size_text(rate)}/s, {row['errors']} errors"
        note = f"{value:.1f} %" if in_percent else f"{value:.2g} MB/s"
        host = str(row["host"]).partition(".")[0]
        rows.append(Bar(f"{host} {row['port']}", (("k2", value, words),), note))
    if not rows:
        return ""
    more = f'<p class="none">The {_SHOWN} busiest of {len(every)}.</p>' if len(every) > _SHOWN else ""
    return bars("Utilisation of each port", rows, " %" if in_percent else " MB/s") + more


def _legend(names: dict[str, str]) -> str:
    items = "".join(f'<li><i class="{kind}"></i>{escape(name)}</li>' for kind, name in names.items())
    return f'<ul class="legend">{items}</ul>'


def size_text(size: float) -> str:
    """Bytes in words, with binary units."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1000 or unit == "PiB":
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.4g} {unit}"
        size /= 1024
    raise AssertionError("there is always a last unit")
