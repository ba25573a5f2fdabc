"""Samples of ports from sysfs: state, rate and counters, whatever of them there is.

Absent, unreadable or other than a number ("N/A (no PMA)") is no value, never an error. Reads may take long, as a driver
asks its device: a caller with something else to do reads in a thread.

What the files mean is said in the kernel's Documentation/ABI/stable/sysfs-class-infiniband and
Documentation/ABI/testing/sysfs-class-net{,-statistics}.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elaunch.topology.machine import Port, PortState

# Few, since with real adapters a read is a command to the device's firmware.
PORT_COUNTERS: Final = (
    "link_downed",
    "link_error_recovery",
    "symbol_error",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "port_xmit_data",
    "port_rcv_data",
)
HARDWARE_COUNTERS: Final = (
    "rnr_nak_retry_err",
    "req_transport_retries_exceeded",
    "packet_seq_err",
    "out_of_buffer",
    "rp_cnp_handled",
    "rx_drops",  # from here on: EFA
    "tx_bytes",
    "rx_bytes",
)
STATISTICS: Final = ("rx_bytes", "tx_bytes", "rx_errors", "rx_crc_errors", "tx_errors", "rx_missed_errors")
CARRIER: Final = ("carrier_changes", "carrier_down_count")

SENT: Final = "tx_bytes"
RECEIVED: Final = "rx_bytes"
_WORDS: Final = {"port_xmit_data": SENT, "port_rcv_data": RECEIVED}
WORD: Final = 4  # bytes that these two count as one

_STATES = {
    "ACTIVE": PortState.ACTIVE,
    "ACTIVE_DEFER": PortState.ACTIVE,
    "INIT": PortState.INIT,
    "ARMED": PortState.INIT,
}
_OPERSTATES = {"up": PortState.ACTIVE, "unknown": PortState.UNKNOWN, "": PortState.UNKNOWN}
_MOST = 4096  # bytes of a file in sysfs
_NUMBER = re.compile(r"[0-9]{1,20}")  # of 64 bits
_WORD_LENGTH = 40  # characters of a state
_HIGHEST = (1 << 63) - 1  # with all 64 bits set a device says that it does not answer


@dataclass(frozen=True, slots=True)
class PortSample:
    """One port at one moment.

    ``rate`` in Gbit/s. ``counters`` are those that could be read, bytes as bytes. ``present`` is False where sysfs
    knows no such port: it never did, or the device has gone.
    """

    port: str
    state: PortState = PortState.UNKNOWN
    phys_state: str = ""
    rate: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    present: bool = True


def sample(root: Path, ports: Sequence[Port]) -> tuple[PortSample, ...]:
    """``ports`` as they are now, in their order. ``root`` is the folder that holds ``sys``, or that folder itself."""
    classes = root / "class" if (root / "class").is_dir() else root / "sys" / "class"
    return tuple(_rdma(classes, port) if port.rdma else _interface(classes, port) for port in ports)


def _rdma(classes: Path, port: Port) -> PortSample:
    with _folder(classes / "infiniband" / port.nic / "ports" / str(port.number)) as at:
        if at is None:
            return PortSample(port.id, present=False)
        state = _read(at, "state").rpartition(":")[2].strip().upper()
        counters = dict(_numbers(at, "counters", PORT_COUNTERS))
        counters |= _numbers(at, "hw_counters", HARDWARE_COUNTERS)
        for words, in_bytes in _WORDS.items():
            if words in counters:
                counters[in_bytes] = counters.pop(words) * WORD
        for name in port.interfaces[:1]:
            with _folder(classes / "net" / name) as net:
                if net is not None:
                    counters |= _numbers(net, "", CARRIER)
        return PortSample(
            port.id,
            _STATES.get(state, PortState.DOWN) if state else PortState.UNKNOWN,
            _read(at, "phys_state").rpartition(":")[2].strip()[:_WORD_LENGTH],
            rate_of(_read(at, "rate")),
            counters,
        )


def _interface(classes: Path, port: Port) -> PortSample:
    with _folder(classes / "net" / port.nic) as at:
        if at is None:
            return PortSample(port.id, present=False)
        said = _read(at, "operstate").lower()
        state = _OPERSTATES.get(said, PortState.DOWN)
        if state is not PortState.DOWN and (carrier := _read(at, "carrier")) in ("0", "1"):
            state = PortState.ACTIVE if carrier == "1" else PortState.DOWN
        speed = _read(at, "speed")  # in Mbit/s; -1 or an error where it is not known
        counters = dict(_numbers(at, "statistics", STATISTICS))
        counters |= _numbers(at, "", CARRIER)
        rate = int(speed) / 1000 if _NUMBER.fullmatch(speed) and 0 < int(speed) < 2**31 else None
        return PortSample(port.id, state, said[:_WORD_LENGTH], rate, counters)


def rate_of(text: str) -> float | None:
    """The Gbit/s in ``400 Gb/sec (4X NDR)``; None where there are none."""
    found = re.match(r"\s*([0-9]{1,7}(?:\.[0-9]{1,3})?)\s*Gb/sec", text)
    return float(found[1]) or None if found else None


@contextmanager
def _folder(path: str | Path, inside: int | None = None) -> Iterator[int | None]:
    """A descriptor of a folder, through which its files are found without the whole path; None where there is none."""
    try:
        at = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=inside)
    except OSError:
        yield None
        return
    try:
        yield at
    finally:
        os.close(at)


def _numbers(at: int, folder: str, names: Iterable[str]) -> Iterator[tuple[str, int]]:
    with _folder(folder or ".", at) as inside:
        if inside is None:
            return
        for name in names:
            text = _read(inside, name)
            if _NUMBER.fullmatch(text) and (value := int(text)) <= _HIGHEST:
                yield name, value


def _read(at: int, name: str) -> str:
    """The stripped text of a file, "" where it cannot be read."""
    with suppress(OSError):
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=at)
        try:
            return os.read(file, _MOST).decode("ascii", "replace").strip()
        finally:
            os.close(file)
    return ""
