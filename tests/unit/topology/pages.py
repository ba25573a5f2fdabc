"""Tables in the pages of ``docs/``, which tests hold to what is so."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table under ``## heading``, without its head."""
    text = (DOCS / page).read_text(encoding="utf-8")
    _, found, below = text.partition(f"## {heading}\n")
    assert found, f"{page} has no section {heading!r}"
    lines = [line for line in below.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
