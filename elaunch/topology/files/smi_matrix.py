"""The matrix that ``nvidia-smi topo -m`` prints, as words by the names of row and column; what they mean is said
elsewhere.

Terminals break long lines, people cut them, and releases change the columns: a header may go over several lines and so
may a row, either may be missing or cut, and rows may stand in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from elaunch.topology.files.wording import defect

CPUS, NUMA = "CPU AFFINITY", "NUMA AFFINITY"
MOST_DEVICES = 512
_LONGEST_HEADER = 64

_ESCAPE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b.?")
_TITLE = re.compile(r"\b(?:(?:CPU|NUMA)\s+Affinity|GPU\s+NUMA\s+ID)\b", re.IGNORECASE)
_TITLE_WORDS = {"CPU", "NUMA", "AFFINITY", "GPU", "ID"}
_NUMBERED = re.compile(r"(?:GPU|NIC)[0-9]{1,4}", re.IGNORECASE)
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,40}")
_LEVEL = re.compile(r"X|NV[0-9]+|PIX|PXB|PHB|NODE|SYS|SOC|N/A", re.IGNORECASE)
_LEGEND = re.compile(r"(?:NIC\s+)?Legend\s*:?", re.IGNORECASE)
_ENTRY = re.compile(r"(NIC[0-9]{1,4})\s*:\s*(\S+)", re.IGNORECASE)


@dataclass(slots=True)
class Row:
    """``cells`` are the words by column, ``tail`` what stands under the titles, empty where nothing does."""

    cells: dict[str, str] = field(default_factory=dict)
    tail: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Matrix:
    """``columns`` and ``titles`` in the header's order, ``legend`` the names by ``NIC0``, ``twice`` what has a second
    row."""

    columns: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    legend: dict[str, str] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)


def find(text: str) -> Matrix | None:
    """The matrix in ``text``, whatever stands before and after it; None where there is no header of one.

    Raises TopologyError for more columns than any machine has devices.
    """
    lines = [_plain(line) for line in text.splitlines()]
    start = next((n for n, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        return None
    header, rest = _joined_header(lines, start)
    words = [canonical(word) for word in _names(header)]
    if len(words) > MOST_DEVICES:
        raise defect(start + 1, f"found {len(words)} columns", f"expected at most {MOST_DEVICES}")
    matrix = Matrix(list(dict.fromkeys(words)), [" ".join(t.upper().split()) for t in _TITLE.findall(header)])
    for name, fields, exact in _rows(lines[rest:], matrix):
        if name in matrix.rows:
            matrix.twice.append(name)
        else:
            matrix.rows[name] = _row(fields, exact, matrix)
        if len(matrix.rows) > 2 * MOST_DEVICES:
            raise defect(start + 1, f"found over {2 * MOST_DEVICES} rows", f"expected at most {MOST_DEVICES}")
    return matrix


def canonical(word: str) -> str:
    """``GPU0`` and ``NIC0`` in capitals; the names of devices are as the kernel has them."""
    return word.upper() if _NUMBERED.fullmatch(word) else word


def _plain(line: str) -> str:
    return "".join(c for c in _ESCAPE.sub("", line) if c.isprintable() or c == "\t")


def _names(header: str) -> list[str]:
    return [word for word in _TITLE.sub(" ", header).split() if word.upper() not in _TITLE_WORDS]


def _is_name(word: str) -> bool:
    return _DEVICE.fullmatch(word) is not None and any(c.isdigit() for c in word) and not _LEVEL.fullmatch(word)


def _is_header(line: str) -> bool:
    """Only names of devices, first that of a GPU, and titles: every row has a level among its words."""
    names = _names(line)
    if not names or not names[0].upper().startswith("GPU") or not all(map(_is_name, names)):
        return False
    return len(names) > 1 or _TITLE.search(line) is not None


def _joined_header(lines: list[str], start: int) -> tuple[str, int]:
    """The header with the lines over which it goes on, and the number of the line after them."""
    header, after = lines[start], start + 1
    seen = set(map(canonical, _names(header)))
    while after < min(len(lines), start + _LONGEST_HEADER) and len(seen) <= MOST_DEVICES:
        names = [canonical(word) for word in _names(lines[after])]
        if not lines[after].strip() or not all(map(_is_name, names)) or not seen.isdisjoint(names):
            break
        header = f"{header} {lines[after]}"
        seen.update(names)
        after += 1
    return header, after


def _rows(lines: list[str], matrix: Matrix) -> Iterable[tuple[str, list[str], bool]]:
    """Name, fields and whether each field stands in its place (parted by tabs), of each row; takes up the legend."""
    known = set(matrix.columns)
    name, fields, exact = "", list[str](), False
    for line in lines:
        words = line.split()
        first = canonical(words[0]) if words else ""
        if first in known or (_NUMBERED.fullmatch(first) and len(words) > 1 and _LEVEL.fullmatch(words[1])):
            if name:
                yield name, fields, exact
            name, exact = first, "\t" in line
            fields = _fields(line) if exact else words[1:]
        elif entry := _ENTRY.match(line.strip()):
            matrix.legend.setdefault(entry[1].upper(), entry[2])
        elif not words or _LEGEND.match(line.strip()):
            if name:
                yield name, fields, exact
            name = ""
        elif name and len(fields) < len(known) + len(matrix.titles):  # the terminal has broken the row
            fields, exact = [*filter(None, fields), *words], False
    if name:
        yield name, fields, exact


def _fields(line: str) -> list[str]:
    name, *fields = line.strip(" ").lstrip("\t").split("\t")
    return [*name.split()[1:], *(field.strip() for field in fields)]


def _row(fields: list[str], exact: bool, matrix: Matrix) -> Row:
    count = len(matrix.columns)
    words = " ".join(fields).split()
    if exact and (len(words) != len([f for f in fields if f]) or ("" in fields[:count] and len(words) >= count)):
        fields, exact = words, False  # some fields are parted by blanks, or by more than one tab
    row = Row(dict(zip(matrix.columns, fields, strict=False)))
    tail = fields[count:]
    if not exact:
        tail = _placed(tail, matrix.titles)
    row.tail = {title: tail[place] if place < len(tail) else "" for place, title in enumerate(matrix.titles)}
    return row


def _placed(words: list[str], titles: list[str]) -> list[str]:
    """Words without their places under the titles: a set of CPUs is known by its commas and dashes, or is missing."""
    if len(words) >= len(titles) or not words or not titles or titles[0] != CPUS:
        return words
    return words if re.search(r"[,-]", words[0]) else ["", *words]
