"""How a laboratory brings a fault about, and undoes it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from elaunch.inject.fault import Fault
from elaunch.lab.controllers import LabController
from elaunch.lab.etcd import EtcdMember
from elaunch.lab.network import CONTROL, Host, Network, Place
from elaunch.lab.parts import Parts

Undo = Callable[[], None]
SMALL = 600  # bytes that go through a way that takes small packets only


def begin(parts: Parts, fault: Fault, host: Host, place: Place | None) -> Undo:
    """Bring it about; what undoes it. ``place`` None: all interfaces of the host, or the data interfaces."""
    kind = fault.what
    if (kind.target == "etcd" and not parts.etcd) or (kind.target == "controller" and not parts.controllers):
        raise ValueError(f"{fault.kind}: this laboratory has no {kind.target} of its own")
    if kind.target == "etcd":
        return _etcd(fault, parts.member(host))
    if kind.target == "controller":
        return _controller(parts.net, fault, parts.controller(host))
    if kind.target == "network":
        return _network(parts.net, fault, host, place)
    raise ValueError(f"{fault.kind} is brought about by the job itself: Watched.inject")


def _etcd(fault: Fault, member: EtcdMember) -> Undo:
    def again() -> None:
        member.kill()
        member.start()
        member.ready()

    if fault.kind == "etcd-kill":
        member.kill()
        return again
    if fault.kind == "etcd-freeze":
        member.freeze()
        return member.thaw
    if fault.kind == "etcd-disk-full":
        member.fill()

        def room() -> None:
            member.empty()
            if member.process is None or member.process.poll() is not None:  # it ends where it cannot write
                again()

        return room
    member.kill()
    member.start(ahead=fault.jump)
    member.ready()
    return again


def _controller(net: Network, fault: Fault, found: LabController) -> Undo:
    if fault.kind == "controller-kill":
        found.kill()

        def again() -> None:
            found.start()
            found.ready()

        return again
    if fault.kind == "controller-freeze":
        found.freeze()
        return found.thaw
    return _partition(net, found.host, None)


def _network(net: Network, fault: Fault, host: Host, place: Place | None) -> Undo:
    if fault.kind == "partition":
        return _partition(net, host, place)
    if fault.kind == "reset":
        _reset(net, host, place)
        return lambda: None
    everywhere = fault.kind == "one-way"
    places = (place,) if place is not None else net.places(host) if everywhere else tuple(range(net.rails))
    if fault.kind in ("interface-down", "address-gone"):
        return _interfaces(net, fault, host, places)
    if other := [net.interface(one) for one in places if net.wrong(host, one)]:
        raise OSError(f"{fault.kind}: another fault is on {', '.join(other)} of {net.host(host)}, which it would undo")
    into, out = _impairment(fault)
    for one in places:
        net.impair(host, one, into, out)

    def undo() -> None:
        for one in places:
            net.repair(host, one)

    return undo


def _impairment(fault: Fault) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of frames to a host, and from it."""
    if fault.kind == "one-way":
        return {"drop": True}, {}
    if fault.kind == "rate":
        return {}, {"mbit": fault.mbit}
    rules: dict[str, dict[str, Any]] = {
        "loss": {"loss": fault.share},
        "delay": {"delay": fault.delay, "jitter": fault.delay / 4},
        "reorder": {"delay": fault.delay, "late": fault.share},
        "mtu": {"largest": SMALL},
    }
    return rules[fault.kind], {}


def _partition(net: Network, host: Host, place: Place | None) -> Undo:
    places = net.places(host) if place is None else (place,)
    for one in places:
        net.unplug(host, one)

    def undo() -> None:
        for one in places:
            net.plug(host, one)

    return undo


def _interfaces(net: Network, fault: Fault, host: Host, places: tuple[Place, ...]) -> Undo:
    named = {place: net.interface(place) for place in places}
    for place, name in named.items():
        if fault.kind == "interface-down":
            net.run(host, "link", "set", name, "down")
        else:
            net.run(host, "addr", "del", f"{net.address_at(host, place)}/24", "dev", name)

    def undo() -> None:
        for place, name in named.items():
            if fault.kind == "interface-down":
                net.run(host, "link", "set", name, "up")
            else:
                net.run(host, "addr", "add", f"{net.address_at(host, place)}/24", "dev", name)

    return undo


def _reset(net: Network, host: Host, place: Place | None) -> None:
    """Of the connections over the data interfaces, or those of ``place``: both ends see an error.

    Raises OSError where there is none, or none that this kernel closes: ss passes over those without a word.
    """
    places = tuple(range(net.rails)) if place is None else (place,)
    enter = ["nsenter", f"--net=/run/netns/{net.host(host)}"]
    closed = ""
    for one in places:
        # Not of IPv4 only: the control plane's sockets are of IPv6, with addresses of IPv4 in them.
        words = ["ss", "-H", "-t", "-K", "state", "established", "src", net.address_at(host, one)]
        closed += subprocess.run([*enter, *words], check=True, capture_output=True, text=True, timeout=20).stdout
    if not closed.strip():
        raise OSError(f"no connection of {net.host(host)} was reset: there is none, or this kernel closes none")


__all__ = ["CONTROL", "Undo", "begin"]
