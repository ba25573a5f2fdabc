"""A picture of a machine with the ways from devices to the ports that were chosen for them, as SVG.

Boxes within boxes: a NUMA node below the other, host bridges and switches inside, in them devices and ports. A line
joins each device to the ports of its rank, the first drawn thick. Colours suit a light and a dark page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from elaunch.topology.binding import NodeBinding
from elaunch.topology.tree import Branch

_WIDTH, _HEIGHT, _GAP, _TITLE = 168, 40, 10, 20
_PAGE = 20
_ROW = 1300  # pixels after which a new row begins
_STYLE = (
    "svg{background:#fff;color:#1b1f24;font:11px system-ui,sans-serif}"
    ".box{fill:none;stroke:#8c959f}.device{fill:#ddf4ff;stroke:#0969da}.port{fill:#dafbe1;stroke:#1a7f37}"
    ".unused{fill:#f6f8fa;stroke:#8c959f;stroke-dasharray:4 3}.way{fill:none;stroke:#bf3989;stroke-width:1;opacity:.55}"
    ".first{stroke-width:2.5;opacity:1}text{fill:#1b1f24}.small{font-size:9px;fill:#57606a}"
    "@media(prefers-color-scheme:dark){svg{background:#0d1117;color:#e6edf3}text{fill:#e6edf3}.small{fill:#9da7b1}"
    ".device{fill:#0c2d6b;stroke:#58a6ff}.port{fill:#0f5323;stroke:#3fb950}.unused{fill:#161b22;stroke:#6e7681}"
    ".way{stroke:#f778ba}.box{stroke:#6e7681}}"
)


@dataclass(frozen=True, slots=True)
class _Box:
    """A branch with its place on the page, in pixels."""

    branch: Branch
    x: float
    y: float
    width: float
    height: float
    inside: tuple[_Box, ...] = ()


def svg(root: Branch, binding: NodeBinding | None, title: str) -> str:
    """The picture of ``tree.tree``; without a binding no lines. ``title`` is read out by screen readers."""
    page = _laid(root, _PAGE, _PAGE)
    places = {box.branch.key: box for box in _all(page) if box.branch.key}
    ways = _ways(binding, places) if binding is not None else []
    used = {key for way in ways for key in way[:2]} | {port.id for port in (binding.shared if binding else ())}
    right = max([page.x + page.width, *(_reach(places[device], places[port]) for device, port, _ in ways)])
    width, height = right + _PAGE, page.height + 2 * _PAGE
    lines = [_line(places[device], places[port], first) for device, port, first in ways]
    ranks = {rank.device.id: rank.local_rank for rank in binding.ranks if rank.device} if binding else {}
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={quoteattr(_clean(title))}>',
            f"<title>{escape(_clean(title))}</title>",
            f"<style>{_STYLE}</style>",
            *_shapes(page, used if binding is not None else None, ranks),
            *lines,
            "</svg>\n",
        )
    )


def _laid(branch: Branch, x: float, y: float) -> _Box:
    """The branch at this place: its own devices and ports below each other, the rest in rows beside them."""
    if branch.key:
        return _Box(branch, x, y, _WIDTH, _HEIGHT)
    inside: list[_Box] = []
    left, below = x + _GAP, y + _TITLE
    for leaf in (child for child in branch.children if child.key):
        inside.append(_laid(leaf, left, below))
        below += _HEIGHT + _GAP
    left += _WIDTH + _GAP if inside else 0
    right, top, bottom = left, y + _TITLE, below
    for child in (child for child in branch.children if not child.key):
        box = _laid(child, right, top)
        if right > left and (branch.kind == "machine" or box.x + box.width > x + _ROW):
            right, top = left, bottom
            box = _laid(child, right, top)
        inside.append(box)
        right, bottom = box.x + box.width + _GAP, max(bottom, box.y + box.height + _GAP)
    widest = max((box.x + box.width + _GAP for box in inside), default=0)
    return _Box(branch, x, y, max(widest - x, _WIDTH + 2 * _GAP), max(bottom - y, _TITLE + _GAP), tuple(inside))


def _all(box: _Box) -> list[_Box]:
    return [box, *(one for inner in box.inside for one in _all(inner))]


def _ways(binding: NodeBinding, places: Mapping[str, _Box]) -> list[tuple[str, str, bool]]:
    """Device, port and whether it is the device's first, for each line that can be drawn: the first ones last."""
    ways = [
        (rank.device.id, port.id, number == 0)
        for rank in binding.ranks
        if rank.device is not None and rank.device.id in places
        for number, port in enumerate(rank.ports)
        if port.id in places and (number == 0 or not binding.shared)
    ]
    return sorted(ways, key=lambda way: way[2])


def _reach(device: _Box, port: _Box) -> float:
    """How far to the right a line between two boxes in one column goes: the farther they are, so that lines part."""
    if device.x != port.x:
        return 0
    return device.x + device.width + _GAP + min(abs(port.y - device.y) / 5, _WIDTH)


def _line(device: _Box, port: _Box, first: bool) -> str:
    """A curve from the right or left side of a device to that of a port, below other boxes where they are far."""
    right = port.x >= device.x
    x1 = device.x + (device.width if right else 0)
    x2 = port.x + (0 if right and port.x > device.x else port.width)
    y1, y2 = device.y + device.height / 2, port.y + port.height / 2
    if device.x == port.x:  # one below the other: around their right side
        bend = _reach(device, port)
        path = f"M{x1:.0f},{y1:.0f} C{bend:.0f},{y1:.0f} {bend:.0f},{y2:.0f} {x2:.0f},{y2:.0f}"
    else:
        middle = (x1 + x2) / 2
        path = f"M{x1:.0f},{y1:.0f} C{middle:.0f},{y1:.0f} {middle:.0f},{y2:.0f} {x2:.0f},{y2:.0f}"
    name = f"{device.branch.key} to {port.branch.key}"
    return f'<path class="way{" first" if first else ""}" d="{path}"><title>{escape(_clean(name))}</title></path>'


def _shapes(box: _Box, used: set[str] | None, ranks: Mapping[str, int]) -> Sequence[str]:
    branch = box.branch
    kind = branch.kind if branch.key else "box"
    if branch.key and used is not None and branch.key not in used:
        kind = "unused"
    name = branch.name if branch.key not in ranks else f"rank {ranks[branch.key]}: {branch.key}"
    at = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}"'
    shapes = [
        f'<rect class="{kind}" {at} rx="4"><title>{escape(_clean(f"{name} {branch.detail}".strip()))}</title></rect>',
        _text(box.x + 6, box.y + 14, _fitting(name, box.width, 6.2), ""),
    ]
    if branch.key and branch.detail:
        shapes.append(_text(box.x + 6, box.y + 30, _fitting(branch.detail, box.width, 5.0), "small"))
    return [*shapes, *(shape for inner in box.inside for shape in _shapes(inner, used, ranks))]


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{f" class={kind!r}" if kind else ""}>{escape(text)}</text>'


def _fitting(text: str, width: float, letter: float) -> str:
    """As much of ``text`` as goes into a box; all of it is in the box's title."""
    room = int((width - 12) / letter)
    clean = _clean(text)
    return clean if len(clean) <= room else clean[: room - 1] + "…"


def _clean(text: str) -> str:
    """XML has no place for control characters."""
    return "".join(c if c.isprintable() else "?" for c in text)
