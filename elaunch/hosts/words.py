"""What the two ends of a connection by ssh say to each other: lines, of which none is a program's.

Down go one order and then beats and signals, on standard input: nothing of it shows in a list of processes. Up come,
between the lines of the job, a greeting and at last how the agent ended. Each of those holds a word that only this
start of the job knows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

BEAT = b"\n"
_SIGN = b"\x1eelaunch-"
_SIGNAL = b"signal "


@dataclass(frozen=True, slots=True)
class Hello:
    """Who answers: its own name, elaunch's version there, the address at which ssh reached it and the one from which
    it was reached ("" without ssh), and which of the ports that it was asked about are free.
    """

    host: str
    version: str
    address: str
    peer: str
    free: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be started: arguments of elaunch, what is set in its environment, its working directory.

    Without a word from here for ``silence`` seconds the agent is ended; it gets ``grace`` seconds for that.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    silence: float
    grace: float


def order_line(order: Order) -> bytes:
    return json.dumps(asdict(order)).encode() + b"\n"


def read_order(line: bytes) -> Order:
    """Raises ValueError for what is no order."""
    try:
        told: dict[str, Any] = json.loads(line)
        return Order(
            arguments=tuple(map(str, told["arguments"])),
            environment={str(name): str(value) for name, value in told["environment"].items()},
            directory=str(told["directory"]),
            silence=float(told["silence"]),
            grace=float(told["grace"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no order: {error!r}") from None


def signal_line(name: str) -> bytes:
    return _SIGNAL + name.encode() + b"\n"


def read_signal(line: bytes) -> str:
    """The signal's name; "" where the line is a beat, or nothing that is known here."""
    return line.removeprefix(_SIGNAL).decode(errors="replace").strip() if line.startswith(_SIGNAL) else ""


def hello_line(nonce: str, hello: Hello) -> bytes:
    return _SIGN + f"{nonce} hello {json.dumps(asdict(hello))}\n".encode()


def read_hello(nonce: str, line: bytes) -> Hello | None:
    """None where the line is something else: what a login shell prints, say. Raises ValueError for a broken one."""
    start = _SIGN + f"{nonce} hello ".encode()
    if start not in line:
        return None
    try:
        told: dict[str, Any] = json.loads(line.partition(start)[2])
        free = tuple(int(port) for port in told["free"])
        return Hello(str(told["host"]), str(told["version"]), str(told["address"]), str(told["peer"]), free)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no greeting: {error!r}") from None


def end_line(nonce: str, code: int) -> bytes:
    return _SIGN + f"{nonce} end {code}\n".encode()


def read_end(nonce: str, line: bytes) -> tuple[bytes, int] | None:
    """What stands before it on its line, and the agent's exit code; None where the line is something else."""
    before, sign, code = line.partition(_SIGN + f"{nonce} end ".encode())
    return (before, int(code)) if sign and code.strip().isdigit() else None
