"""Hosts of a laboratory as network namespaces: a data interface on each rail, and one for control beside them.

Each rail is a bridge of its own, so that a cable can be plugged into the wrong one. A host's processes are entered with
``nsenter``, have a host name of their own, and see their own interfaces below /sys, and a hosts file that knows all
hosts. All of it is taken away by a reaper, also when whoever made it is killed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from elaunch.lab import cable
from elaunch.lab.ground import Ground, answer, claim, ip

Host = int | str
"""One that computes has a number from 1 on, others a name."""
CONTROL = "c"
"""The place of the control interface; those of the data interfaces are numbers from 0 on."""
Place = int | str

_FIRST_OTHER = 201
_SETTINGS = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 1}  # else any interface answers for the other's address
_SETTINGS6 = {"disable_ipv6": 0, "accept_dad": 0}  # without the seconds of looking for who has an address already

# Runs a command with the namespace's own view of /sys, the cgroups kept, and of /etc/hosts.
_ENTER = """
set -e
sys=$(mktemp -d -p "${1%/*}")
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


@dataclass
class Network:
    """``count`` hosts, numbered from 1, with ``rails`` data interfaces: ``nic0``, ``nic1``, and ``ctl``.

    ``nicN`` of host H has the address ``10.B.N+1.H``, ``ctl`` has ``10.B.100.H``, where B is this network's own. The
    ``others`` have ``ctl`` only, from ``10.B.100.201`` on. Whoever made it is on the control network too, at
    ``10.B.100.254``. To be entered as a context; raises NoGroundError where the machine has no room for one more.
    """

    count: int
    rails: int = 2
    others: Sequence[str] = ()
    _cables: dict[tuple[Host, Place], subprocess.Popen[str]] = field(default_factory=dict, init=False)
    _unplugged: set[tuple[Host, Place]] = field(default_factory=set, init=False)

    def __enter__(self) -> Network:
        self._ground = claim()
        try:
            self._build()
        except BaseException:
            self._ground.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            for process in self._cables.values():
                self._end(process)
        finally:
            self._cables.clear()
            self._ground.close()

    @property
    def name(self) -> str:
        """What all names begin with."""
        return self._ground.name

    @property
    def folder(self) -> Path:
        """For files that go with it."""
        return self._ground.folder

    @property
    def ground(self) -> Ground:
        return self._ground

    @property
    def hosts(self) -> tuple[Host, ...]:
        return (*range(1, self.count + 1), *self.others)

    def control(self, host: Host) -> str:
        """A host's address on the control network."""
        number = host if isinstance(host, int) else _FIRST_OTHER + list(self.others).index(host)
        return f"{self._ground.net}.100.{number}"

    def address(self, host: Host, rail: int) -> str:
        return f"{self._ground.net}.{rail + 1}.{host}"

    def host(self, host: Host) -> str:
        """Its name."""
        return f"{self.name}-h{host}" if isinstance(host, int) else f"{self.name}-{host}"

    def at(self, host: Host) -> list[str]:
        """What runs a command on a host."""
        enter = ["nsenter", f"--net=/run/netns/{self.host(host)}", "unshare", "--mount", "--uts"]
        return [*enter, "sh", "-c", _ENTER, "lab", str(self.folder / "hosts"), self.host(host)]

    def run(self, host: Host, *words: str, check: bool = True) -> str:
        """What ``ip`` says on a host."""
        done = subprocess.run(
            ["ip", "-n", self.host(host), *words], check=check, capture_output=True, text=True, timeout=20
        )
        return done.stdout

    def places(self, host: Host) -> tuple[Place, ...]:
        """Of its interfaces."""
        return (*range(self.rails), CONTROL) if isinstance(host, int) else (CONTROL,)

    @staticmethod
    def interface(place: Place) -> str:
        return "ctl" if place == CONTROL else f"nic{place}"

    # --- what can be wrong with a network ------------------------------------------------------------------------

    def unplug(self, host: Host, place: Place) -> None:
        """The interface stays up, and leads nowhere: its cable ends in no switch."""
        self.repair(host, place)
        ip("link", "set", self._cable(host, place), "nomaster")
        self._unplugged.add((host, place))

    def plug(self, host: Host, place: Place, into: Place | None = None) -> None:
        """Put the cable of ``place`` where it belongs, or into another rail's switch."""
        ip("link", "set", self._cable(host, place), "master", self._bridge(place if into is None else into))
        self._unplugged.discard((host, place))

    def wrong(self, host: Host, place: Place) -> bool:
        """Whether the cable there is unplugged, or does something to frames."""
        return (host, place) in self._unplugged or (host, place) in self._cables

    def mtu(self, host: Host, place: Place, size: int) -> None:
        """Of the host's interface, which knows it."""
        self.run(host, "link", "set", self.interface(place), "mtu", str(size))

    def cable_mtu(self, host: Host, place: Place, size: int) -> None:
        """Of the switch's end, which the host does not know."""
        ip("link", "set", self._cable(host, place), "mtu", str(size))

    def traffic(self, host: Host, interface: str) -> tuple[int, int, int]:
        """Bytes that have left by an interface, bytes that have come, and frames that were wrong or dropped."""
        (told,) = json.loads(self.run(host, "-s", "-j", "link", "show", interface))
        tx, rx = told["stats64"]["tx"], told["stats64"]["rx"]
        return tx["bytes"], rx["bytes"], sum(way[name] for way in (tx, rx) for name in ("errors", "dropped"))

    def sent(self, host: Host, interface: str) -> int:
        """Bytes that have left by an interface."""
        return self.traffic(host, interface)[0]

    def impair(self, host: Host, place: Place, into: Mapping[str, Any], out: Mapping[str, Any], seed: int = 0) -> None:
        """From now on this becomes of frames ``into`` the host and ``out`` of it: see ``elaunch.lab.cable``."""
        process = self._cables.get((host, place))
        if process is None:
            process = self._cables[host, place] = self._insert(host, place, seed)
        assert process.stdin is not None
        process.stdin.write(json.dumps({"in": dict(into), "out": dict(out)}) + "\n")
        process.stdin.flush()
        if not answer(process):
            raise OSError(f"the cable of {self.host(host)} has ended")

    def repair(self, host: Host, place: Place) -> None:
        """Undo ``impair``."""
        process = self._cables.pop((host, place), None)
        if process is not None:
            self.plug(host, place)
            self._end(process)
            ip("link", "del", self._beside("x", host, place))

    def _insert(self, host: Host, place: Place, seed: int) -> subprocess.Popen[str]:
        """A cable with faults between a host's end and its switch."""
        box, near, far = (self._beside(kind, host, place) for kind in "xst")
        ip("link", "add", box, "type", "bridge", "mcast_snooping", "0")
        ip("link", "set", box, "up")
        argv = [sys.executable, "-S", "-E", cable.__file__, near, far, str(seed)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            answer(process)
        except TimeoutError:
            process.kill()
            process.wait()
            ip("link", "del", box)
            raise
        ip("link", "set", near, "master", box, "up")
        ip("link", "set", far, "master", self._bridge(place), "up")
        ip("link", "set", self._cable(host, place), "master", box)
        return process

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended before
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:  # stopped
            process.kill()
            process.wait(20)
        process.stdout.close()

    # --- making --------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        for place in (*range(self.rails), CONTROL):
            ip("link", "add", self._bridge(place), "type", "bridge")
            ip("link", "set", self._bridge(place), "up")
        ip("addr", "add", f"{self._ground.net}.100.254/24", "dev", self._bridge(CONTROL))
        for host in self.hosts:
            self._make(host)
        lines = [f"{self.control(host)} {self.host(host)}" for host in self.hosts]
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n")

    def _make(self, host: Host) -> None:
        name = self.host(host)
        ip("netns", "add", name)
        settings = {
            f"{family}/conf/{where}/{setting}": value
            for family, values in (("ipv4", _SETTINGS), ("ipv6", _SETTINGS6))
            for setting, value in values.items()
            for where in ("all", "default")
        }
        script = "; ".join(f"echo {value} >/proc/sys/net/{path}" for path, value in settings.items())
        inside = ["nsenter", f"--net=/run/netns/{name}", "sh", "-ec", script]
        subprocess.run(inside, check=True, capture_output=True, timeout=20)
        self.run(host, "link", "set", "lo", "up")
        for place in self.places(host):
            end, interface = self._cable(host, place), self.interface(place)
            ip("link", "add", end, "type", "veth", "peer", "name", interface, "netns", name)
            ip("link", "set", end, "master", self._bridge(place), "up")
            self.run(host, "addr", "add", f"{self.address_at(host, place)}/24", "dev", interface)
            self.run(host, "link", "set", interface, "up")

    def address_at(self, host: Host, place: Place) -> str:
        """Its address on the network of ``place``."""
        return self.control(host) if place == CONTROL else self.address(host, int(place))

    def _bridge(self, place: Place) -> str:
        return f"{self.name}b{place}"

    def _cable(self, host: Host, place: Place) -> str:
        return self._beside("v", host, place)

    def _beside(self, kind: str, host: Host, place: Place) -> str:
        return f"{self.name}{kind}{host}{place}"
