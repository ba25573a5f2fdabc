"""Checks of a host's name, interfaces and routes."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator

from elaunch.doctor.facts import Complaint, Host
from elaunch.topology.binding import Refused
from elaunch.topology.left_out import alike
from elaunch.topology.probe.candidates import candidates
from elaunch.topology.probe.facts import Interface
from elaunch.topology.probe.netlink import Link

LEAST_MTU = 1500  # bytes


def name(host: Host) -> Iterator[Complaint]:
    """Gloo, and much else, listens at the address of the host's own name where nothing else is said."""
    advice = f"put a line with the host's own address and {host.name} into /etc/hosts, or set GLOO_SOCKET_IFNAME"
    if not host.resolved:
        text = f"the host's own name, {host.name}, has no address{': ' + host.unresolved if host.unresolved else ''}"
        yield Complaint("name_unresolved", "warning", text, advice)
    elif all(ipaddress.ip_address(address).is_loopback for address in host.resolved):
        text = f"the host's own name, {host.name}, is {', '.join(host.resolved)}: no other host reaches it there"
        yield Complaint("name_is_loopback", "warning", text, advice)


def interfaces(host: Host) -> Iterator[Complaint]:
    """Interfaces that no traffic can use as they are."""
    if host.links is None:
        yield Complaint("interfaces_unknown", "info", "the kernel does not tell what interfaces there are")
        return
    wired = [link for link in host.links if not link.loopback and not link.kind]
    if not candidates(host.links):
        text = "no interface but loopback is up and has an address: other nodes cannot be reached"
        yield Complaint("no_interface", "warning", text, "ip link set NAME up; ip addr add ADDRESS/LENGTH dev NAME")
    for link in wired:
        if not link.up:
            yield Complaint("interface_off", "info", f"{link.name} is switched off", f"ip link set {link.name} up")
        elif not link.carrier:
            text = f"{link.name} has no carrier: no cable, or its far end is down"
            yield Complaint("interface_down", "warning", text, "look at the cable and at the switch's port")
        elif not link.master and not link.addresses:
            text = f"{link.name} is up, but has no address"
            yield Complaint("no_address", "warning", text, f"ip addr add ADDRESS/LENGTH dev {link.name}")


def mtus(host: Host) -> Iterator[Complaint]:
    found = [link for link in candidates(host.links or ()) if not link.kind]
    small = [link for link in found if link.mtu < LEAST_MTU]
    for link in small:
        text = f"the MTU of {link.name} is {link.mtu} bytes"
        yield Complaint("small_mtu", "info", text, "a tunnel or a virtual network may ask for it; all nodes must agree")
    sizes = {link.mtu for link in found}
    if len(sizes) > 1:
        each = ", ".join(f"{link.name} {link.mtu}" for link in found)
        text = f"the MTUs of the interfaces differ: {each}"
        yield Complaint("mtu_differs", "info", text, "those of one rail must be the same on all nodes")


def subnets(host: Host) -> Iterator[Complaint]:
    """Two interfaces in one subnet: the kernel answers for both on either, and sends by one of them."""
    by_net: dict[str, list[Link]] = defaultdict(list)
    for link in candidates(host.links or ()):
        for net in Interface(link.name, link.addresses).networks:
            by_net[net].append(link)
    for net, links in by_net.items():
        if len(links) < 2:
            continue
        names = ", ".join(link.name for link in links)
        wrong = [way for way in host.wrong_ways if way.interface in {link.name for link in links}]
        if host.strict_arp and not wrong:
            continue
        text = f"{names} are in one subnet, {net}"
        text += "".join(f"; what {way.interface} sends from {way.address} leaves by {way.egress}" for way in wrong)
        text += "" if host.strict_arp else "; the kernel answers for the addresses of all on each (arp_ignore=0)"
        advice = "a routing rule for each source address, net.ipv4.conf.all.arp_ignore=1 and arp_announce=2;"
        yield Complaint("duplicate_route", "warning", text, f"{advice} or a subnet for each")


def ports(host: Host) -> Iterator[Complaint]:
    """What the policy makes of the NICs: those that are left out though they might be wanted, and why."""
    if host.topology is None:
        text = "what devices and ports this host has could not be found out in time: a driver, or a device, hangs"
        yield Complaint("machine_unknown", "warning", text, "look at dmesg; nvidia-smi may hang as well")
    if host.no_route:
        yield Complaint("no_route", "error", host.no_route, "elaunch topo shows the machine")
    told = [one for one in (host.binding.refused if host.binding else ()) if one.code not in _AS_IT_SHOULD_BE]
    for refused in (one for one in told if one.code in _BROKEN):
        yield Complaint(f"nic_{refused.code}", "warning", refused.text, _advice(refused))
    fine = [one for one in told if one.code not in _BROKEN]
    for code in dict.fromkeys(one.code for one in fine):
        for text in alike(one for one in fine if one.code == code):
            yield Complaint(f"nic_{code}", "info", text)
    for text in host.binding.warnings if host.binding else ():
        yield Complaint("binding", "warning", text)


def _advice(refused: Refused) -> str:
    name = (*refused.port.interfaces, refused.port.nic)[0]
    if refused.code == "down":
        here, there = f"ip link set {name} up", "look at the cable and at the switch's port"
        word = refused.port.phys_state.lower()
        return here if "disabled" in word else there if "polling" in word else f"{there}; {here}"
    return _ADVICE.get(refused.code, "").replace("NAME", name)


_BROKEN = ("down", "init", "no_address", "degraded", "unreachable")
_AS_IT_SHOULD_BE = ("software", "not_chosen", "down_virtual", "virtual_function", "bond_member")
_ADVICE = {
    "init": "start a subnet manager (opensm) on the fabric, or have it look again",
    "no_address": "ip addr add ADDRESS/LENGTH dev NAME",
}
