"""report.html: one file, without scripts, and without anything from elsewhere. Values only: the report in, text out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from html import escape

from elaunch.qualify import plots
from elaunch.qualify.cells import Outcome, Result
from elaunch.qualify.report import Report
from elaunch.qualify.style import STYLE
from elaunch.qualify.whole import whole

_SIGNS = {Outcome.OK: "✓", Outcome.FAILED: "✕", Outcome.NOT_RUN: "○"}
_CLASSES = {Outcome.OK: "ok", Outcome.FAILED: "failed", Outcome.NOT_RUN: "skipped"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(report: Report) -> str:
    """The whole page. Everything that comes from elsewhere is escaped."""
    title = f"elaunch qualification: {_verdict(report)[1]}"
    groups = list(dict.fromkeys(result.group for result in report.cells))
    body = [_head(report), _plots(report), _cells(report, groups), whole(report), _foot(report)]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{_filters(groups)}</style></head>\n"
        f"<body>\n<main>\n{''.join(body)}</main></body></html>\n"
    )


def _verdict(report: Report) -> tuple[str, str]:
    bad = report.count(Outcome.FAILED)
    if bad:
        return "failed", f"{bad} {'cell' if bad == 1 else 'cells'} failed"
    if report.partial:
        return "skipped", f"partial: {report.partial}"
    if not report.count(Outcome.OK):
        return "skipped", "nothing ran"
    return "ok", "passed"


def _head(report: Report) -> str:
    kind, words = _verdict(report)
    where = report.where
    hosts = where.get("hosts") or [report.machine.get("host", "this machine")]
    size = (
        f"{where.get('ranks', '?')} ranks on each of {len(hosts)} hosts"
        if len(hosts) > 1
        else (f"{where.get('ranks', '?')} ranks on {hosts[0]}")
    )
    begun = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.began))
    facts = [f"--{report.mode}", size, begun, f"{report.seconds:.0f} s"]
    facts += [f"{name} {version}" for name, version in report.versions.items() if version]
    machine = report.machine
    if machine:
        facts.append(f"{machine.get('cores')} cores, load {machine.get('load')} at the start")
    counts = "".join(
        f'<div class="count {_CLASSES[o]}"><b>{report.count(o)}</b><span>{escape(o.value)}</span></div>'
        for o in Outcome
    )
    partial = ""
    if report.partial:
        partial = f'<p class="partial">This report is partial: {escape(report.partial)}.</p>'
    listed = "".join(f"<li>{escape(str(fact))}</li>" for fact in facts)
    return (
        f'<header><div><h1>Qualification <em class="{kind}">{escape(words)}</em></h1>'
        f'<ul class="facts">{listed}</ul>{partial}</div><div class="counts">{counts}</div></header>\n'
    )


def _plots(report: Report) -> str:
    shown = (
        (
            "Recovery after each fault",
            "Seconds of each phase, from the fault to the first step after it.",
            plots.recovery,
        ),
        (
            "Bandwidth over message size",
            "Algorithm bandwidth of each collective, float32, best of three.",
            plots.bandwidth,
        ),
        ("Step time", "DistributedDataParallel, with what of its communication is exposed.", plots.steps),
        ("Ports", "What the collectives and trainings put on each port.", plots.ports),
    )
    figures = []
    for title, text, draw in shown:
        made = draw(report) or '<p class="none">Nothing was measured.</p>'
        head = f"<figcaption><h2>{title}</h2><p>{text}</p></figcaption>"
        figures.append(f"<figure>{head}{made}</figure>")
    return f'<section class="plots">{"".join(figures)}</section>\n'


def _cells(report: Report, groups: Sequence[str]) -> str:
    radios, choices = [], []
    outcomes = [("all", "all", len(report.cells))]
    outcomes += [(_CLASSES[o], o.value, report.count(o)) for o in Outcome if report.count(o)]
    named = [("all", "all groups", len(report.cells))]
    named += [(_id(g), g, sum(result.group == g for result in report.cells)) for g in groups]
    for prefix, values in (("o", outcomes), ("g", named)):
        labels = []
        for key, word, count in values:
            checked = " checked" if key == "all" else ""
            radios.append(f'<input type="radio" name="{prefix}" id="{prefix}-{key}"{checked}>')
            labels.append(f'<label for="{prefix}-{key}">{escape(word)} <small>{count}</small></label>')
        choices.append(f'<div class="choice">{"".join(labels)}</div>')
    head = '<th scope="col"><span class="unseen">outcome</span></th>'
    head += "".join(f'<th scope="col">{word}</th>' for word in _COLUMNS)
    rows = "".join(_row(result) for result in report.cells)
    return (
        f'<section class="cells"><h2>Cells</h2>{"".join(radios)}<div class="filters">{"".join(choices)}</div>'
        f'<div class="wide" tabindex="0" role="region" aria-label="Cells"><table class="matrix">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>\n"
    )


_COLUMNS = ("cell", "what must hold, and what came of it", "took", "detected", "aborted", "first step", "lost")


def _row(result: Result) -> str:
    kind = _CLASSES[result.outcome]
    why = f'<p class="why">{escape(result.why)}</p>' if result.why else ""
    reason = f'<p class="reason">{escape(result.reason)}</p>' if result.reason else ""
    lost = f"{result.lost_steps} steps" if result.lost_steps is not None else _seconds(result.lost_seconds)
    times = (result.seconds, result.detection, result.abort, result.first_step)
    numbers = [*(_seconds(value) for value in times), lost]
    named = zip(_COLUMNS[2:], numbers, strict=True)
    word = escape(result.outcome.value)
    sign = f'<span role="img" aria-label="{word}" title="{word}">{_SIGNS[result.outcome]}</span>'
    columns = "".join(f'<td class="n" data-is="{name}">{value}</td>' for name, value in named)
    return (
        f'<tr class="{kind} g-{_id(result.group)}"><td class="sign">{sign}</td>'
        f"<td><code>{escape(result.name)}</code></td><td>{escape(result.text)}{why}{reason}</td>{columns}</tr>"
    )


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"


def _filters(groups: Iterable[str]) -> str:
    """Rules that hide what a chosen filter leaves out."""
    rules = []
    for kind in _CLASSES.values():
        rules.append(f"#o-{kind}:checked~.wide tbody tr:not(.{kind}){{display:none}}")
    for key in map(_id, groups):
        rules.append(f"#g-{key}:checked~.wide tbody tr:not(.g-{key}){{display:none}}")
    for name in [
        *(f"o-{kind}" for kind in ("all", *_CLASSES.values())),
        *(f"g-{k}" for k in ("all", *map(_id, groups))),
    ]:
        label = f'~.filters label[for="{name}"]'
        rules.append(f"#{name}:checked{label}{{background:var(--ink);color:var(--paper);border-color:var(--ink)}}")
        rules.append(f"#{name}:focus-visible{label}{{outline:2px solid var(--k0)}}")
    return "".join(rules)


def _id(group: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", group.lower()) or "x"


def _foot(report: Report) -> str:
    return (
        f"<footer>elaunch {escape(report.versions.get('elaunch', ''))} qualify. report.json holds the same.</footer>\n"
    )
