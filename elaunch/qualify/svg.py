"""Drawings as text: bars and lines, in the colours that the page's style names. Values only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 640
_ROW = 24
_LABEL = 190
_VALUE = 64


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of ``parts``: (class of colour, value, what it is). ``note`` stands behind it."""

    label: str
    parts: tuple[tuple[str, float, str], ...]
    note: str

    @property
    def total(self) -> float:
        return sum(value for _, value, _ in self.parts)


def drawing(height: float, title: str, parts: Sequence[str]) -> str:
    """``title`` is for those who do not see it."""
    name = escape(title)
    head = f'<div class="drawing" tabindex="0" role="region" aria-label="{name}, drawn">'
    head += f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{name}">'
    return "\n".join([head, *parts, "</svg></div>"])


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def bars(title: str, rows: Sequence[Bar], unit: str, limit: float | None = None) -> str:
    """Bars that lie, one below the other, with a scale below; ``limit`` is the scale's end where it has one."""
    most = limit or nice(max((row.total for row in rows), default=0.0) or 1.0)
    room = WIDTH - _LABEL - _VALUE
    height = _ROW * len(rows) + 26
    parts = []
    for tick in range(5):
        x = _LABEL + room * tick / 4
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 22}" class="grid"/>')
        parts.append(text(x, height - 8, f"{most * tick / 4:.3g}{unit if tick == 4 else ''}", "tick", "middle"))
    for number, row in enumerate(rows):
        parts += _bar(row, number * _ROW, room / most)
    return drawing(height, title, parts)


def _bar(row: Bar, top: float, scale: float) -> Iterator[str]:
    yield text(_LABEL - 8, top + 16, _short(row.label, 26), "label", "end")
    x: float = _LABEL
    for kind, value, what in row.parts:
        width = max(0.0, value * scale)
        if width >= 0.2:
            shown = max(0.8, width - 1)
            box = f'x="{x:.1f}" y="{top + 4}" width="{shown:.1f}" height="{_ROW - 8}" rx="2" class="{kind}"'
            yield f"<rect {box}><title>{escape(f'{row.label}: {what}')}</title></rect>"
        x += width
    yield text(x + 6, top + 16, row.note, "tick")


def lines(title: str, series: Mapping[str, Sequence[tuple[float, float]]], x_of: Mapping[float, str], unit: str) -> str:
    """Points joined by lines, both scales logarithmic; ``x_of`` are the words at the scale of x, ``unit`` is of y."""
    points = [point for row in series.values() for point in row if point[1] > 0]
    if not points:
        return ""
    height, left, right, top, bottom = 300.0, 62.0, 110.0, 12.0, 34.0
    low, high = (math.log10(f(x for x, _ in points)) for f in (min, max))
    floor = math.floor(math.log10(min(y for _, y in points)))
    roof = max(floor + 1, math.ceil(math.log10(max(y for _, y in points))))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low) / ((high - low) or 1.0)
        up = (math.log10(y) - floor) / (roof - floor)
        return left + across * (WIDTH - left - right), height - bottom - up * (height - top - bottom)

    parts = []
    for power in range(floor, roof + 1):
        y = at(points[0][0], 10.0**power)[1]
        parts.append(f'<line x1="{left}" x2="{WIDTH - right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(text(left - 8, y + 4, f"{10.0**power:g}{unit if power == roof else ''}", "tick", "end"))
    for value, word in x_of.items():
        parts.append(text(at(value, 10.0**floor)[0], height - 12, word, "tick", "middle"))
    ends = []
    for number, (name, row) in enumerate(series.items()):
        places = [at(x, y) for x, y in row if y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" class="line k{number % 7}"/>')
        for (x, y), (size, value) in zip(places, [p for p in row if p[1] > 0], strict=True):
            said = escape(f"{name}, {x_of.get(size, f'{size:g} bytes')}: {value:.3g}{unit}")
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="dot k{number % 7}"><title>{said}</title></circle>'
            )
        if places:
            ends.append((places[-1][1], places[-1][0], name, number))
    parts += _ends(ends)
    return drawing(height, title, parts)


def _ends(ends: list[tuple[float, float, str, int]]) -> Iterator[str]:
    """The names behind the lines' ends, none over another."""
    last = -math.inf
    for y, x, name, number in sorted(ends):
        last = max(y, last + 15)
        yield f'<circle cx="{x + 12:.1f}" cy="{last:.1f}" r="4" class="dot k{number % 7}"/>'
        yield text(x + 20, last + 4, name, "label")


def nice(value: float) -> float:
    """The next larger number that reads well on a scale."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10, 12) if step * power >= value * 0.999)


def _short(words: str, most: int) -> str:
    """Both ends tell most: a kind and a point, a host and its port."""
    half = most // 2
    return words if len(words) <= most else f"{words[:half]}…{words[half + 1 - most :]}"
