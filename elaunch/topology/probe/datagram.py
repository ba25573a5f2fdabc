"""The probe's datagrams: a question, and an answer that is never longer than it. Both carry a keyed digest.

Whoever does not know the probe's secret gets no answer at all, and can make none.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

_HEAD = struct.Struct("!4sB8s8sHB")  # magic, kind, probe, nonce, length of the question, length of the name
_MAGIC = b"elp1"
_QUESTION, _ANSWER = 1, 2
_DIGEST = 16
_LONGEST_NAME = 15  # bytes of an interface's name, as the kernel has it
LEAST = _HEAD.size + _LONGEST_NAME + _DIGEST  # bytes of any question, so that its answer is no longer


@dataclass(frozen=True, slots=True)
class Answer:
    """``arrived`` is the interface at which the question came in, ``size`` the bytes of it that did."""

    nonce: bytes
    arrived: str
    size: int


def mark_of(probe: str) -> bytes:
    """What stands for a probe's id in its datagrams."""
    return hashlib.sha256(probe.encode()).digest()[:8]


def question(probe: str, secret: bytes, nonce: bytes, size: int = 0) -> bytes:
    """A question of ``size`` bytes, or of the least that there may be."""
    size = max(size, LEAST)
    body = _HEAD.pack(_MAGIC, _QUESTION, mark_of(probe), nonce, size, 0)
    body = body.ljust(size - _DIGEST, b"\0")
    return body + _digest(secret, body)


def probe_of(data: bytes) -> bytes | None:
    """The mark of the probe that ``data`` claims to be a question of; None where it is none."""
    if len(data) < LEAST:
        return None
    magic, kind, mark, _, size, _ = _HEAD.unpack_from(data)
    return bytes(mark) if (magic, kind, size) == (_MAGIC, _QUESTION, len(data)) else None


def answer(data: bytes, secret: bytes, arrived: str) -> bytes | None:
    """The answer to the question ``data``; None where it was not made with ``secret``."""
    if probe_of(data) is None or not _genuine(secret, data):
        return None
    _, _, mark, nonce, size, _ = _HEAD.unpack_from(data)
    name = arrived.encode()[:_LONGEST_NAME]
    body = _HEAD.pack(_MAGIC, _ANSWER, mark, nonce, size, len(name)) + name.ljust(_LONGEST_NAME, b"\0")
    return body + _digest(secret, body)


def read_answer(data: bytes, probe: str, secret: bytes) -> Answer | None:
    """What an answer says; None where it is none of this probe."""
    if len(data) != LEAST or not _genuine(secret, data):
        return None
    magic, kind, mark, nonce, size, length = _HEAD.unpack_from(data)
    if (magic, kind, mark) != (_MAGIC, _ANSWER, mark_of(probe)) or length > _LONGEST_NAME:
        return None
    name = data[_HEAD.size : _HEAD.size + length].decode(errors="replace")
    return Answer(bytes(nonce), name, int(size))


def _digest(secret: bytes, body: bytes) -> bytes:
    return hmac.digest(secret, body, "sha256")[:_DIGEST]


def _genuine(secret: bytes, data: bytes) -> bool:
    return hmac.compare_digest(data[-_DIGEST:], _digest(secret, data[:-_DIGEST]))
