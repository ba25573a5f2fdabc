"""Plain values as YAML that people read: no library is needed to print a manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/$][\w./$()-]*")
# What YAML 1.1, which Kubernetes' tools read, takes for something else than a text.
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def documents(values: Sequence[Mapping[str, Any]]) -> str:
    """``values`` one after the other, each a document."""
    return "---\n".join("\n".join(_lines(value, "")) + "\n" for value in values)


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            if _nested(one):
                yield f"{indent}{_scalar(key)}:"
                yield from _lines(one, indent if isinstance(one, (list, tuple)) else f"{indent}  ")
            else:
                yield f"{indent}{_scalar(key)}: {_flow(one)}"
        return
    for one in value:
        if _nested(one):
            first, *rest = _lines(one, f"{indent}  ")
            yield f"{indent}- {first[len(indent) + 2 :]}"
            yield from rest
        else:
            yield f"{indent}- {_flow(one)}"


def _nested(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple)) and bool(value) and not _short(value)


def _short(value: Any) -> bool:
    """A list of scalars that has room in a line."""
    flat = isinstance(value, (list, tuple)) and not any(isinstance(one, (Mapping, list, tuple)) for one in value)
    return flat and len(_flow(value)) <= 100


def _flow(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_scalar(one) for one in value)}]"
    return "{}" if isinstance(value, Mapping) else _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    """In double quotes; what is not plain ASCII by its number, as YAML writes it, which for some is not JSON's way."""
    return f'"{"".join(_escaped(letter) for letter in text)}"'


def _escaped(letter: str) -> str:
    number = ord(letter)
    if letter in '"\\':
        return f"\\{letter}"
    if 0x20 <= number < 0x7F:
        return letter
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
