"""What a file says, made fit for an error message or a name: nothing in it may speak to the terminal."""

from __future__ import annotations

import re

from elaunch.errors import TopologyError

_NAME = re.compile(r"[A-Za-z0-9_.:@+-]{1,64}")
_LONGEST = 60


def quoted(text: str) -> str:
    """``text`` in quotes, on one line, shortened, ``escaped``."""
    return f"'{escaped(text if len(text) <= _LONGEST else text[:_LONGEST] + '...')}'"


def escaped(text: str) -> str:
    """``text`` with everything that is not printable written as an escape, as a person may see it on a terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def printable(text: str) -> str:
    """A text for people (a model's name) without what is not printable, and no longer than is of use."""
    return "".join(c for c in text if c.isprintable()).strip()[:120]


def name(text: str, line: int) -> str:
    """The name of a device or interface. Raises TopologyError for what no kernel would call one."""
    if not _NAME.fullmatch(text):
        raise defect(line, f"found the name {quoted(text)}", "expected letters, digits and _.:@+- only")
    return text


def defect(line: int, found: str, expected: str) -> TopologyError:
    """The error for a place in a file: what stands there, and what should."""
    return TopologyError(f"line {line}: {found}; {expected}")
