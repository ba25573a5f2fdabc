"""The blocks of commands in the pages that people read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHELL, CONSOLE = "sh", "console"  # a script; a session, whose commands begin with "$ "
OF_OTHERS = ("python", "toml", "yaml", "json", "text")
_FENCE = re.compile(r"^( *)```(\w*)$")
# What a line begins with that is meant for a shell, whatever block it stands in.
COMMAND = re.compile(
    r"^(\$ )?([A-Z_]+=\S+ )*(sudo )?"
    r"(elaunch|torchrun|python3? -|pip|make|etcdctl|curl|kubectl|docker|srun|sbatch|scontrol|openssl|systemctl|ssh) "
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; ``language`` is "" where it has none."""

    page: str
    line: int
    language: str
    text: str

    @property
    def script(self) -> str:
        """What it tells a shell."""
        if self.language == CONSOLE:
            return "\n".join(line[2:] for line in self.text.splitlines() if line.startswith("$ "))
        return self.text

    @property
    def first(self) -> str:
        """The first line of the script that is no comment: what the block is known by."""
        return next(line for line in self.script.splitlines() if line and not line.startswith("#"))


def pages() -> list[Path]:
    """All pages with commands for people, but the reference, which is made from the parser."""
    docs = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "reference.md"]
    return [ROOT / "README.md", *docs, *sorted((ROOT / "deploy").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """Every fenced block of a page."""
    name, lines = page.relative_to(ROOT).as_posix(), page.read_text().splitlines()
    begin, indent, language = 0, "", ""
    for number, line in enumerate(lines, 1):
        if not (fence := _FENCE.match(line)):
            continue
        if not begin:
            begin, indent, language = number, fence[1], fence[2]
            continue
        text = "\n".join(line.removeprefix(indent) for line in lines[begin : number - 1])
        yield Block(name, begin, language, text)
        begin = 0
    assert not begin, f"{name}:{begin}: a block without an end"


def shell_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks(page) if block.language in (SHELL, CONSOLE)]


def outside(page: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page that stand in no fenced block."""
    within = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if _FENCE.match(line):
            within = not within
        elif not within:
            yield number, line
