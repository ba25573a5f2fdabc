"""Text for terminals: columns that stand below each other, and nothing that moves the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(rows: Iterable[Sequence[str]], sides: str = "") -> str:
    """Columns, each to the left (``<``, also those that ``sides`` does not name) or to the right (``>``)."""
    rows = list(rows)
    sides = sides.ljust(len(rows[0]), "<")
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)) for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def few(names: Sequence[str], most: int) -> str:
    """The first of many; the document has all."""
    more = len(names) - most
    return ",".join(names[:most]) + (f" +{more}" if more > 0 else "")


def plain(text: str) -> str:
    """``text`` with control characters written out: what others wrote does not steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
