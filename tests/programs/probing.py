"""One node of a probe without a job: answers, says what it has, asks what it is told to, says what came of it.

It reads lines of JSON from stdin: ``["probe", id, secret, seconds, targets]`` and ``["admit", id, secret]``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from typing import Any

from elaunch.topology.probe.candidates import candidates
from elaunch.topology.probe.echo import Responder
from elaunch.topology.probe.facts import Target
from elaunch.topology.probe.netlink import links
from elaunch.topology.probe.prober import probe


async def main() -> None:
    mine = candidates(links(), exclude=("ctl",))
    responder = Responder(mine)
    say([{**dataclasses.asdict(link), "port": responder.ports.get(link.name, 0)} for link in mine])
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        kind, identity, secret, *rest = json.loads(line)
        responder.admit(identity, secret.encode())
        if kind == "probe":
            begun = loop.time()
            targets = [Target(**target) for target in rest[1]]
            report = await probe(identity, secret.encode(), rest[0], targets, candidates(links(), exclude=("ctl",)))
            say({**dataclasses.asdict(report), "seconds": loop.time() - begun})
    responder.close()


def say(value: Any) -> None:
    print(json.dumps(value), flush=True)


asyncio.run(main())
