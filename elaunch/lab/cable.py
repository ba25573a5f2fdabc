"""A cable with faults: a process that carries frames between two TAP devices, late, not at all, or too slowly.

    python cable.py HOST_SIDE NET_SIDE SEED

It makes both devices. Each line of its standard input says, from then on, what becomes of frames ``out`` of the host
and ``in`` to it: ``{"in": {"loss": 0.1}, "out": {"delay": 0.02}}``. It ends with its standard input, and the devices
with it. It takes no module of the kernel, as sch_netem is; a few hundred Mbit/s go through. Nothing but the standard
library is used.

``loss``: share of frames that are lost; ``delay``: seconds, of ``late`` of them (1: all), give or take ``jitter``;
``mbit``: the rate, with ``queue`` seconds of a queue before frames are lost; ``largest``: bytes, larger ones are lost;
``drop``: nothing goes through.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time
from typing import Any

_TUNSETIFF, _TAP, _NO_PI = 0x400454CA, 2, 0x1000
_AT_ONCE = 64  # frames of one side before the other has its turn
_HEADER = 14  # bytes of Ethernet before what an MTU counts


def tap(name: str) -> int:
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP | _NO_PI))
    return handle


class Way:
    """One direction. Times are seconds of the monotonic clock."""

    def __init__(self, draw: random.Random) -> None:
        self.rule: dict[str, Any] = {}
        self._draw = draw
        self._free = 0.0

    def due(self, size: int, now: float) -> float | None:
        """When a frame of so many bytes is to arrive that came at ``now``; None where it does not."""
        rule, draw = self.rule, self._draw
        if rule.get("drop") or size > rule.get("largest", 1 << 20) + _HEADER:
            return None
        if rule.get("loss") and draw.random() < rule["loss"]:
            return None
        at = now
        if rule.get("delay") and draw.random() < rule.get("late", 1.0):
            jitter = rule.get("jitter", 0.0)
            at += max(0.0, rule["delay"] + draw.uniform(-jitter, jitter))
        if rule.get("mbit"):
            begin = max(self._free, now)
            if begin - now > rule.get("queue", 0.2):
                return None
            self._free = begin + size * 8 / (rule["mbit"] * 1e6)
            at += self._free - now
        return at


def main() -> None:
    host, net = tap(sys.argv[1]), tap(sys.argv[2])
    draw = random.Random(int(sys.argv[3]))
    ways = {host: Way(draw), net: Way(draw)}
    other = {host: net, net: host}
    print("ready", flush=True)
    poll = select.epoll()
    for handle in (0, host, net):
        poll.register(handle, select.EPOLLIN)
    queue: list[tuple[float, int, int, bytes]] = []
    number, heard = 0, b""
    while True:
        left = max(0.0, queue[0][0] - time.monotonic()) if queue else -1.0
        for handle, _ in poll.poll(left):
            if handle == 0:
                heard += (more := os.read(0, 65536))
                if not more:
                    return
                *lines, heard = heard.split(b"\n")
                for rules in map(json.loads, lines):
                    ways[host].rule, ways[net].rule = rules.get("out", {}), rules.get("in", {})
                    print("done", flush=True)
                continue
            for _ in range(_AT_ONCE):
                try:
                    frame = os.read(handle, 65600)
                except OSError:  # no more, or the device is down
                    break
                if (at := ways[handle].due(len(frame), time.monotonic())) is not None:
                    number += 1
                    heapq.heappush(queue, (at, number, other[handle], frame))
        now = time.monotonic()
        while queue and queue[0][0] <= now:
            _, _, to, frame = heapq.heappop(queue)
            try:
                os.write(to, frame)
            except OSError:
                continue


if __name__ == "__main__":
    main()
