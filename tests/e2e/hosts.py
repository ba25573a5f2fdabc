"""Hosts of a test: network namespaces on one bridge, each of which can be cut off from all others.

The test itself, and whatever it starts without ``where``, sits at the bridge: it is a host that is never cut off.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from dataclasses import dataclass, field

_names = itertools.count()


def possible() -> bool:
    """Whether this machine lets us make namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    probe = f"elp{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode == 0
    if made:
        ip("netns", "del", probe)
    return made


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)


def free_network() -> str:
    """One that no interface here has, and no other process of tests begins with, out of 198.18.0.0/15 (RFC 2544)."""
    known = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=True, timeout=60).stdout
    mine = (f"198.18.{number % 256}" for number in range(os.getpid(), os.getpid() + 256))
    return next(network for network in mine if f" {network}." not in known)


@dataclass
class Hosts:
    """``count`` hosts, numbered from 1."""

    count: int
    name: str = field(default_factory=lambda: f"el{os.getpid() % 100000}{next(_names)}")

    def __post_init__(self) -> None:
        self.network = free_network()
        ip("link", "add", self.bridge, "type", "bridge")
        try:
            ip("addr", "add", f"{self.address(0)}/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
            for number in range(1, self.count + 1):
                self._make(number)
        except BaseException:
            self.close()
            raise

    @property
    def bridge(self) -> str:
        return f"{self.name}b"

    def address(self, number: int) -> str:
        """Of a host; 0 is the bridge."""
        return f"{self.network}.{number or 254}"

    def at(self, number: int) -> list[str]:
        """What runs a command on a host."""
        return ["ip", "netns", "exec", self._space(number)]

    def cut(self, number: int) -> None:
        """Nothing gets to a host or from it any more, and nobody is told."""
        ip("link", "set", self._cable(number), "down")

    def heal(self, number: int) -> None:
        ip("link", "set", self._cable(number), "up")

    def close(self) -> None:
        for number in range(1, self.count + 1):
            for words in (("link", "del", self._cable(number)), ("netns", "del", self._space(number))):
                subprocess.run(["ip", *words], check=False, capture_output=True, timeout=60)
        subprocess.run(["ip", "link", "del", self.bridge], check=False, capture_output=True, timeout=60)

    def _make(self, number: int) -> None:
        space, cable = self._space(number), self._cable(number)
        ip("netns", "add", space)
        ip("-n", space, "link", "set", "lo", "up")
        ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("link", "set", cable, "master", self.bridge, "up")
        ip("-n", space, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")

    def _space(self, number: int) -> str:
        return f"{self.name}h{number}"

    def _cable(self, number: int) -> str:
        return f"{self.name}v{number}"
