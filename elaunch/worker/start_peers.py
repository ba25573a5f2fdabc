"""Which rank a failed connection was meant for: Gloo's error tells an address, its keys in the store whose that is."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

_REMOTE = re.compile(r"remote=\[([0-9a-fA-F.:]+)\]:(\d+)")
_KEYS = "default_pg/{prefix}0//cpu//0/{rank}"  # of torch 2.13; where they are called otherwise, nothing is found
_MOST_RANKS = 4096


def unreachable(error: str, store: Any, prefix: str, rank: int, world_size: int) -> tuple[int, str] | None:
    """The rank that could not be reached, and its address; None where that is not to be found out."""
    found = _REMOTE.search(error)
    if found is None or store is None or world_size > _MOST_RANKS:
        return None
    mark = ipaddress.ip_address(found[1]).packed
    ports = (
        {int(found[2]).to_bytes(2, "big"), int(found[2]).to_bytes(2, "little")} if int(found[2]) < 1 << 16 else set()
    )
    for other in range(world_size):
        key = _KEYS.format(prefix=f"{prefix}/" if prefix else "", rank=other)
        if other == rank or not store.check([key]):
            continue
        published = bytes(store.get(key))
        if any(_has(published, packed, mark) for packed in ports):
            return other, f"{found[1]}:{found[2]}"
    return None


def _has(published: bytes, port: bytes, address: bytes) -> bool:
    """As in a sockaddr: the port is followed by the address, with IPv6 by its flow label before."""
    return port + address in published or port + bytes(4) + address in published
