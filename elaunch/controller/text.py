"""Text that goes over the wire."""

from __future__ import annotations

from typing import Any


def sendable(text: str) -> str:
    """``text`` with what UTF-8 cannot hold escaped: a file's name or a worker's message may have lone surrogates."""
    return text.encode(errors="backslashreplace").decode()


def texts_sendable(record: Any) -> dict[str, Any]:
    """The members of a record by name."""
    values = {name: getattr(record, name) for name in record.__slots__}
    return {name: sendable(value) if isinstance(value, str) else value for name, value in values.items()}
