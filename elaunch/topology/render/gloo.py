"""Gloo: plain names of interfaces, with commas. Neither ``^`` nor ``=`` mean anything to it."""

from __future__ import annotations

from elaunch.topology.binding import NodeBinding, RankBinding
from elaunch.topology.render import sockets
from elaunch.topology.render.ground import Ground
from elaunch.topology.render.names import Names

SOCKETS = "GLOO_SOCKET_IFNAME"


def wanted(node: NodeBinding, rank: RankBinding, ground: Ground) -> dict[str, str]:
    """One interface unless the policy says all: of several Gloo makes a device each, and takes turns."""
    names = sockets.chosen(node, rank, ground)
    taken = names if ground.every_interface else names[:1]
    return {SOCKETS: ",".join(taken)} if taken else {}


def conflict(variable: str, text: str, would_be: str, node: NodeBinding) -> str:
    """What is to be said of a value that the user has set; "" where it comes to the same."""
    if any(mark in text for mark in "^=:"):
        return (
            f"{variable}={text} is set in the environment and stays: Gloo takes plain names of interfaces, without ^, ="
            f" or ports; without it, it would be {would_be}"
        )
    return sockets.conflict(variable, text, Names.plain(text), would_be, node)
