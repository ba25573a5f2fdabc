"""What a laboratory is made of, as far as faults hit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elaunch.lab.controllers import LabController
from elaunch.lab.etcd import EtcdMember
from elaunch.lab.network import Host, Network


@dataclass(frozen=True, slots=True)
class Parts:
    """Its network, and the members and controllers on hosts of their own; there may be none of either."""

    net: Network
    etcd: Sequence[EtcdMember]
    controllers: Sequence[LabController]

    def number(self, host: Host) -> int:
        """The place, from 0, of a host among those of its kind."""
        return host - 1 if isinstance(host, int) else int(host[1:]) - 1

    def member(self, host: Host) -> EtcdMember:
        """The member of this number or name; numbers beyond the last begin anew."""
        return self.etcd[self.number(host) % len(self.etcd)]

    def controller(self, host: Host) -> LabController:
        """The controller of this number or name, as above."""
        return self.controllers[self.number(host) % len(self.controllers)]
