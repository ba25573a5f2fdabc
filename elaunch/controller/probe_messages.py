"""The messages of a probe as protobuf and back."""

from __future__ import annotations

import ipaddress
from typing import Any

from elaunch.controller.commands import Probe
from elaunch.proto.elaunch.v1 import control_pb2 as pb
from elaunch.topology.probe.facts import Interface, Report, Row, Target

MOST_INTERFACES = 256  # of one node
MOST_ROWS = 20_000  # of one report


def pack_interface(interface: Interface) -> pb.Interface:
    return pb.Interface(**_values(interface))


def unpack_interface(message: pb.Interface) -> Interface:
    """Raises ValueError on an address or a port that is none."""
    _check_port(message.port)
    values = {name: getattr(message, name) for name in Interface.__slots__}
    addresses = tuple(message.addresses)
    for address in addresses:
        ipaddress.ip_interface(address)
    if message.link_local:
        ipaddress.ip_address(message.link_local)
    return Interface(**values | {"addresses": addresses})


def pack_report(report: Report) -> pb.ProbeReport:
    rows = [pb.ProbeRow(**_values(row)) for row in report.rows[:MOST_ROWS]]
    return pb.ProbeReport(id=report.id, rows=rows, error=report.error)


def unpack_report(message: pb.ProbeReport) -> Report:
    return Report(message.id, tuple(map(_unpack_row, message.rows[:MOST_ROWS])), message.error)


def pack_probe(probe: Probe) -> pb.Probe:
    targets = [pb.ProbeTarget(**_values(target)) for target in probe.targets]
    return pb.Probe(id=probe.id, secret=probe.secret, seconds=probe.seconds, targets=targets)


def unpack_probe(message: pb.Probe) -> Probe:
    """Raises ValueError on an address or a port that is none."""
    for target in message.targets:
        ipaddress.ip_address(target.address)
        _check_port(target.port)
    targets = (Target(**{name: getattr(target, name) for name in Target.__slots__}) for target in message.targets)
    return Probe(message.id, message.secret, message.seconds, tuple(targets))


def _check_port(port: int) -> None:
    if not 0 <= port < 1 << 16:
        raise ValueError(f"{port} is no port")


def _unpack_row(message: pb.ProbeRow) -> Row:
    values = {name: getattr(message, name) for name in Row.__slots__}
    return Row(**values | {"whole": message.whole if message.HasField("whole") else None})


def _values(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}
