"""Hosts of a test as network namespaces: a data interface on each rail, and one for control beside them.

Each rail is a bridge of its own, so that a cable can be plugged into the wrong one. Names hold the test process's pid:
what a killed test run has left behind is taken away by the next one. A host's processes are entered with ``nsenter``,
have a host name of their own, and see their own interfaces below /sys, and a hosts file that knows all hosts.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

_names = itertools.count()
_PREFIX = "lab"
_SETTINGS = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 1}  # else any interface answers for the other's address
_SETTINGS6 = {"disable_ipv6": 0, "accept_dad": 0}  # without the seconds of looking for who has an address already

# Runs a command with the namespace's own view of /sys, the cgroups kept, and of /etc/hosts.
_ENTER = """
set -e
sys=$(mktemp -d)
mount --make-rprivate /
mount -t sysfs lab "$sys"
mount --rbind /sys/fs/cgroup "$sys/fs/cgroup" || :
mount --rbind "$sys" /sys
umount -l "$sys"
rmdir "$sys"
mount --bind "$1" /etc/hosts
hostname "$2"
shift 2
exec "$@"
"""


def impossible() -> str:
    """Why this machine cannot make hosts; empty where it can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    missing = [tool for tool in ("ip", "nsenter", "unshare", "mount") if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    if not Path("/proc/sys/net/ipv6").is_dir():
        return "needs a kernel with IPv6: crossed cables are found by its addresses"
    probe = f"{_PREFIX}{os.getpid()}x"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"this machine makes no network namespaces: {made.stderr.strip()}"
    inside = [
        "nsenter",
        f"--net=/run/netns/{probe}",
        "unshare",
        "--mount",
        "--uts",
        "mount",
        "-t",
        "sysfs",
        "x",
        "/mnt",
    ]
    entered = subprocess.run(inside, capture_output=True, text=True, check=False)
    ip("netns", "del", probe)
    return f"this machine lets nobody mount /sys anew: {entered.stderr.strip()}" if entered.returncode else ""


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20).stdout


@dataclass
class Network:
    """``count`` hosts, numbered from 1, with ``rails`` data interfaces: ``nic0``, ``nic1``, and ``ctl``.

    ``nicN`` of host H has the address ``10.B.N+1.H``, ``ctl`` has ``10.B.100.H``, where B is this network's own.
    The test itself is on the control network, at ``10.B.100.254``.
    """

    count: int
    rails: int = 2
    name: str = field(default_factory=lambda: f"{_PREFIX}{os.getpid()}{chr(97 + next(_names) % 26)}")

    def __enter__(self) -> Network:
        sweep()
        self._net = _free_network()
        self.folder = _folder(self.name)
        self.folder.mkdir()
        try:
            for place in (*range(self.rails), "c"):
                ip("link", "add", self._bridge(place), "type", "bridge")
                ip("link", "set", self._bridge(place), "up")
            ip("addr", "add", f"{self.control(254)}/24", "dev", self._bridge("c"))
            for number in range(1, self.count + 1):
                self._make(number)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._remove()

    def control(self, number: int) -> str:
        """A host's address on the control network."""
        return f"{self._net}.100.{number}"

    def address(self, number: int, rail: int) -> str:
        return f"{self._net}.{rail + 1}.{number}"

    def host(self, number: int) -> str:
        """Its name."""
        return f"{self.name}-h{number}"

    def at(self, number: int) -> list[str]:
        """What runs a command on a host."""
        enter = ["nsenter", f"--net=/run/netns/{self.host(number)}", "unshare", "--mount", "--uts"]
        return [*enter, "sh", "-c", _ENTER, "lab", str(self.folder / "hosts"), self.host(number)]

    def run(self, number: int, *words: str, check: bool = True) -> str:
        """What ``ip`` says on a host."""
        done = subprocess.run(
            ["ip", "-n", self.host(number), *words], check=check, capture_output=True, text=True, timeout=20
        )
        return done.stdout

    # --- what can be wrong with a network ------------------------------------------------------------------------

    def unplug(self, number: int, rail: int) -> None:
        """The interface stays up, and leads nowhere: its cable ends in no switch."""
        ip("link", "set", self._cable(number, rail), "nomaster")

    def plug(self, number: int, rail: int, into: int | None = None) -> None:
        """Put the cable of ``rail`` where it belongs, or into another rail's switch."""
        ip("link", "set", self._cable(number, rail), "master", self._bridge(rail if into is None else into))

    def mtu(self, number: int, rail: int, size: int) -> None:
        """Of the host's interface, which knows it."""
        self.run(number, "link", "set", f"nic{rail}", "mtu", str(size))

    def cable_mtu(self, number: int, rail: int, size: int) -> None:
        """Of the switch's end, which the host does not know."""
        ip("link", "set", self._cable(number, rail), "mtu", str(size))

    def sent(self, number: int, interface: str) -> int:
        """Bytes that have left by an interface."""
        (told,) = json.loads(self.run(number, "-s", "-j", "link", "show", interface))
        return int(told["stats64"]["tx"]["bytes"])

    # --- making and removing -------------------------------------------------------------------------------------

    def _make(self, number: int) -> None:
        host = self.host(number)
        ip("netns", "add", host)
        settings = {
            f"{family}/conf/{where}/{name}": value
            for family, values in (("ipv4", _SETTINGS), ("ipv6", _SETTINGS6))
            for name, value in values.items()
            for where in ("all", "default")
        }
        script = "; ".join(f"echo {value} >/proc/sys/net/{path}" for path, value in settings.items())
        inside = ["nsenter", f"--net=/run/netns/{host}", "sh", "-ec", script]
        subprocess.run(inside, check=True, capture_output=True, timeout=20)
        self.run(number, "link", "set", "lo", "up")
        for place in (*range(self.rails), "c"):
            cable, name = self._cable(number, place), "ctl" if place == "c" else f"nic{place}"
            ip("link", "add", cable, "type", "veth", "peer", "name", name, "netns", host)
            ip("link", "set", cable, "master", self._bridge(place), "up")
            address = self.control(number) if place == "c" else self.address(number, int(place))
            self.run(number, "addr", "add", f"{address}/24", "dev", name)
            self.run(number, "link", "set", name, "up")
        lines = [f"{self.control(n)} {self.host(n)}" for n in range(1, self.count + 1)]
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n")

    def _bridge(self, place: int | str) -> str:
        return f"{self.name}b{place}"

    def _cable(self, number: int, place: int | str) -> str:
        return f"{self.name}v{number}{place}"

    def _remove(self) -> None:
        _take_away(self.name)


def sweep() -> None:
    """Take away what killed test runs have left behind."""
    names = {*_namespaces(), *_links()}
    owners = {match[1]: int(match[2]) for name in names if (match := re.match(rf"({_PREFIX}(\d+)[a-z])", name))}
    for name, pid in owners.items():
        if not Path(f"/proc/{pid}").exists():
            _take_away(name)


def _take_away(name: str) -> None:
    for space in [space for space in _namespaces() if space.startswith(name)]:
        subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True, timeout=20)
    for link in [link for link in _links() if link.startswith(name)]:
        subprocess.run(["ip", "link", "del", link], check=False, capture_output=True, timeout=20)
    shutil.rmtree(_folder(name), ignore_errors=True)


def _folder(name: str) -> Path:
    return Path(tempfile.gettempdir(), f"elaunch-{name}")


def _free_network() -> str:
    """The first two numbers of addresses that no other test run on this machine has."""
    taken = {address["local"] for link in json.loads(ip("-j", "addr", "show")) for address in link["addr_info"]}
    numbers = (100 + (os.getpid() + step) % 100 for step in range(100))
    return next(f"10.{number}" for number in numbers if f"10.{number}.100.254" not in taken)


def _namespaces() -> Sequence[str]:
    return [line.split()[0] for line in ip("netns", "list").splitlines() if line.strip()]


def _links() -> Sequence[str]:
    return [link["ifname"] for link in json.loads(ip("-j", "link", "show"))]
