"""The page docs/reference.md: every command and option, from the parsers."""

from __future__ import annotations

from collections.abc import Iterator

from elaunch.cli.commands import COMMANDS
from elaunch.cli.pages import Option, Page, pages

_HEAD = """\
# Every command and option

Made from the parsers (`python tools/reference.py`), so it is what `--help` says; `make check` sees that it is current.
[cli.md](cli.md) tells where options differ from torchrun's, [exit-codes.md](exit-codes.md) what commands end with.
Every command has `--help`; options may be written with underscores as well.
"""


def reference() -> str:
    """The whole page."""
    found = pages()
    return "\n".join([_HEAD, *_commands(), *(line for page in found for line in _page(page))]).rstrip() + "\n"


def _commands() -> Iterator[str]:
    yield "| command | |\n|---|---|"
    for command in COMMANDS.values():
        yield f"| [`elaunch {command.name}`](#elaunch-{command.name}) | {_cell(command.help)} |"
    yield ""


def _page(page: Page) -> Iterator[str]:
    deep = "#" * (2 + max(0, len(page.words.split()) - 1))
    yield f"{deep} elaunch{' ' + page.words if page.words else ''}\n"
    yield f"```\n{page.usage}\n```\n"
    if page.description:
        yield page.description + "\n"
    if page.positionals and page.words:
        yield from _table("argument", page.positionals)
    for title, options in page.groups:
        if title:
            yield f"{title[0].upper()}{title[1:]}:\n"
        yield from _table("option", options)
    if page.epilog:
        yield page.epilog + "\n"


def _table(kind: str, options: tuple[Option, ...]) -> Iterator[str]:
    variables = any(option.variables for option in options)
    yield f"| {kind} | |{' variable |' if variables else ''}\n|---|---|{'---|' if variables else ''}"
    for option in options:
        names = ", ".join(option.names)
        code = f"`{' '.join(filter(None, [names, option.metavar]))}`".replace("|", "\\|")
        more = f" {', '.join(f'`{name}`' for name in option.variables)} |" if variables else ""
        yield f"| {code} | {_cell(option.help)} |{more}"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
