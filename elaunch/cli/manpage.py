"""``elaunch manpage``: the man page elaunch(1), from the parsers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence

from elaunch import __version__
from elaunch.cli.pages import Option, Page, pages
from elaunch.errors import UsageError

_SEE = "torchrun(1), etcd(1), srun(1)"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"manpage: {message}")


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its one parser."""
    text = "Print the man page. To read it: elaunch manpage | man -l -"
    return {"manpage": _Parser(prog="elaunch manpage", description=text, allow_abbrev=False)}


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code. Raises UsageError."""
    parsers()["manpage"].parse_args(argv)
    sys.stdout.write(manpage())
    return 0


def manpage() -> str:
    """The page in roff."""
    return "\n".join(_lines(pages())) + "\n"


def _lines(found: Sequence[Page]) -> Iterator[str]:
    first, *commands = found
    yield f'.TH ELAUNCH 1 "" "elaunch {__version__}" "User Commands"'
    yield from (".SH NAME", r"elaunch \- start distributed PyTorch jobs and keep them alive", ".SH SYNOPSIS")
    yield from (r"\fBelaunch\fR [\fIOPTIONS\fR] \fISCRIPT\fR [\fIARGS\fR...]", ".br")
    yield r"\fBelaunch\fR \fICOMMAND\fR [\fIOPTIONS\fR] ..."
    yield from (".SH DESCRIPTION", _text(first.description), ".PP", _text(first.epilog), ".SH OPTIONS")
    yield from _options(first)
    yield ".SH COMMANDS"
    for page in commands:
        yield from (f'.SS "{_text(page.usage)}"', _text(page.description or page.help))
        for option in page.positionals:
            if option.help:
                yield from _item(option)
        yield from _options(page)
    yield from (".SH EXIT STATUS", "0 when every rank ended with 0, else the exit code of the root cause, or one of")
    yield from ("those of docs/exit\\-codes.md: 2 for bad input, 64 and more for what was not the program's doing.",)
    yield from (".SH ENVIRONMENT", "Each option but a few can be given as PET_NAME. ELAUNCH_LOG_LEVEL and")
    yield from ("ELAUNCH_LOG_FORMAT (console, json) are about what elaunch itself says.", ".SH SEE ALSO", _SEE)


def _options(page: Page) -> Iterator[str]:
    for title, options in page.groups:
        if title:
            yield from (".PP", rf"\fB{_text(title)}\fR")
        for option in options:
            yield from _item(option)


def _item(option: Option) -> Iterator[str]:
    names = ", ".join(rf"\fB{_text(name)}\fR" for name in option.names)
    yield ".TP"
    yield " ".join(filter(None, [names, rf"\fI{_text(option.metavar)}\fR" if option.metavar else ""]))
    yield _text(option.help) or r"\&"


def _text(text: str) -> str:
    """Text that roff takes for nothing else."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return r"\&" + text if text.startswith((".", "'")) else text
