"""The operator's handbook has every code that elaunch can show, and none that it cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.docs import codes

DOCS = codes.ROOT / "docs"


def rows(page: Path, heading: str) -> dict[str, list[str]]:
    """The tables below a heading, down to the next of its kind: the first cell, and the others of its row."""
    text = page.read_text()
    level = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert level, f"{page.name} has no heading {heading!r}"
    below = re.split(rf"^#{{1,{len(level[1])}}} ", text[level.end() :], flags=re.MULTILINE)[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    return {row[0]: row[1:] for row in cells if not set(row[0]) <= set("- ")}


def headings(page: Path) -> list[str]:
    return re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)


def named(cell: str) -> list[str]:
    return re.findall(r"`([a-z_]+)`", cell)


def test_every_event_has_a_row_and_no_other() -> None:
    page = DOCS / "handbook.md"
    shown = [code for heading in headings(page) for row in _events(page, heading) for code in named(row)]
    assert sorted(shown) == sorted(set(shown)), "a code has two rows"
    assert set(shown) == codes.events()


def _events(page: Path, heading: str) -> list[str]:
    table = rows(page, heading)
    return list(table)[1:] if next(iter(table), "") == "event" else []


def test_every_reason_has_a_row_and_no_other() -> None:
    shown = {code for row in rows(DOCS / "handbook.md", "Reasons") for code in named(row)}
    assert shown == codes.reasons()


@pytest.mark.parametrize("page", ["handbook.md", "exit-codes.md"])
def test_every_exit_code_has_a_row_and_no_other(page: str) -> None:
    text = (DOCS / page).read_text()
    tables = rows(DOCS / page, "Exit codes")
    if page == "exit-codes.md":  # the operators' commands and the checkpoints' have tables of their own
        found = re.findall(r"^\| (\d+(?:, \d+)*) \|", text, re.MULTILINE)
        shown = {int(code) for cell in found for code in cell.split(", ")}
    else:
        shown = {int(cell) for cell in tables if cell.isdigit()}
    assert shown == codes.exit_codes()


def test_every_row_says_what_it_means() -> None:
    page = DOCS / "handbook.md"
    for heading in headings(page):
        for code, cells in rows(page, heading).items():
            assert cells[0], f"{heading}: {code} has no meaning"


def test_events_of_other_pages_exist() -> None:
    """Where a page has a table of events, its first column names none that does not exist."""
    known = codes.events()
    for path in sorted(DOCS.glob("*.md")):
        for table in re.findall(r"^\| event \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", path.read_text(), re.MULTILINE):
            for line in table.splitlines():
                for code in named(line.split("|")[1]):
                    assert code in known, f"{path.name}: no event {code}"
