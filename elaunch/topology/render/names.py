"""Lists of ports and interfaces as users write them for NCCL, and what they take of the ports that are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elaunch.topology.binding import Refused
from elaunch.topology.machine import Port, PortState


@dataclass(frozen=True, slots=True)
class Names:
    """A list: ``^`` before it leaves out what it names, ``=`` takes names whole, else they are prefixes.

    Each entry is a name and a port's number, None for any.
    """

    entries: tuple[tuple[str, int | None], ...]
    leaves_out: bool = False
    whole: bool = False

    @classmethod
    def parse(cls, text: str) -> Names:
        """As NCCL reads it: a blank is part of a name."""
        leaves_out = text.startswith("^")
        rest = text.removeprefix("^")
        parts = [part.partition(":") for part in rest.removeprefix("=").split(",")]
        entries = ((name, int(told) if (told := number.strip()).isdecimal() else None) for name, _, number in parts)
        return cls(tuple(entry for entry in entries if entry[0]), leaves_out, rest.startswith("="))

    @classmethod
    def plain(cls, text: str) -> Names:
        """Names only, each whole, as Gloo and UCX have it."""
        return Names.parse("=" + ",".join(part.strip() for part in text.split(",")))

    def names(self, name: str, number: int | None = None) -> bool:
        """Whether an entry is about this device or interface."""
        return any(self._is(entry, name, number) for entry in self.entries)

    def takes(self, name: str, number: int | None = None) -> bool:
        """Whether the list leaves this one to the library; an empty list leaves all."""
        return not self.entries or self.names(name, number) is not self.leaves_out

    def strangers(self, names: Iterable[tuple[str, int | None]]) -> list[str]:
        """Entries that are about nothing that is there."""
        there = list(names)
        strange = [e for e in self.entries if not any(self._is(e, *name) for name in there)]
        return [name if number is None else f"{name}:{number}" for name, number in strange]

    def _is(self, entry: tuple[str, int | None], name: str, number: int | None) -> bool:
        wanted, port = entry
        matches = name == wanted if self.whole else name.startswith(wanted)
        return matches and (port is None or number is None or port == number)


def interfaces(port: Port) -> tuple[str, ...]:
    """The network interfaces of a port."""
    return port.interfaces if port.rdma else (port.nic,)


def complaint(variable: str, text: str, names: Names, ports: Sequence[Port], refused: Sequence[Refused]) -> str:
    """Why a user's list of RDMA ports is doubtful, "" where it is not: it names what is not there, or what is down."""
    strangers = names.strangers((port.nic, port.number) for port in ports)
    if strangers and not names.leaves_out:
        here = ", ".join(port.id for port in ports) or "none"
        hint = ", and NCCL takes blanks for parts of names" if strangers[0] != strangers[0].strip() else ""
        return f"{stays(variable, text)}: {strangers[0].strip()} is not on this machine (here: {here}){hint}"
    taken = [port for port in ports if names.takes(port.nic, port.number)]
    up = [port for port in taken if port.state is not PortState.DOWN]
    if not taken:
        return f"{stays(variable, text)}: it leaves no port of this machine"
    strangers = names.strangers((port.nic, port.number) for port in up)
    if not up or (strangers and not names.leaves_out):
        return f"{stays(variable, text)}: {(strangers or [taken[0].id])[0]} is down"
    why = {each.port.id: each.text for each in refused}
    left_out = next((port.id for port in up if port.id in why), "")
    return f"{stays(variable, text)}: {left_out} would be left out, {why[left_out]}" if left_out else ""


def differs(variable: str, text: str, wanted: str) -> str:
    """That the user's value is another."""
    return f"{stays(variable, text)}; without it, it would be {wanted}"


def stays(variable: str, text: str) -> str:
    """How such a sentence begins."""
    return f"{variable}={text} is set in the environment and stays"
