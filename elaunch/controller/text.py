"""Text that goes over the wire."""

from __future__ import annotations


def sendable(text: str) -> str:
    """``text`` with what UTF-8 cannot hold escaped: a file's name or a worker's message may have lone surrogates."""
    return text.encode(errors="backslashreplace").decode()
