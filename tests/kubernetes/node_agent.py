"""What stands for the kubelets of all nodes of a cluster: runs their pods as processes of this machine.

Started as the first process of a PID namespace, in mount and network namespaces of its own that hold all that it makes:
with its end, however that comes, all is gone. It is told by lines on its standard input, and answers each by a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.kubernetes.api import Api
from tests.kubernetes.kubelet_port import serve
from tests.kubernetes.machine import Machine
from tests.kubernetes.node import Node

Object = Mapping[str, Any]


class Agent:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._nodes: dict[str, Node] = {}

    async def do(self, line: str) -> None:
        """``nodes N``: have so many; ``crash``, ``cut`` or ``recover NODE``. Raises KeyError for what is unknown."""
        command, value = line.split()
        if command == "nodes":
            for number in range(len(self._nodes) + 1, int(value) + 1):
                node = Node(self._machine, number)
                self._nodes[node.name] = node
        else:
            node = self._nodes[value]
            await {"crash": node.crash, "cut": node.cut, "recover": node.recover}[command]()

    def pod_seen(self, kind: str, pod: Object) -> None:
        if node := self._nodes.get(pod["spec"].get("nodeName", "")):
            node.seen(kind, pod)

    def endpoints_seen(self, kind: str, endpoints: Object) -> None:
        uid = endpoints["metadata"]["uid"]
        if kind == "DELETED":
            self._machine.endpoints.pop(uid, None)
        else:
            self._machine.endpoints[uid] = endpoints
        for node in self._nodes.values():
            node.write_hosts()


async def main(spec: Object) -> None:
    home = Path(spec["home"])
    api = Api(spec["server"], *(Path(spec[name]) for name in ("ca", "cert", "key")))
    agent = Agent(Machine(api, home, spec["network"], spec["port"], spec["programs"]))
    runner: web.AppRunner = await serve(home / "logs", Path(spec["cert"]), Path(spec["key"]))
    commands = await _lines()
    watching = [
        asyncio.ensure_future(api.follow("/api/v1/pods", agent.pod_seen)),
        asyncio.ensure_future(api.follow("/api/v1/endpoints", agent.endpoints_seen)),
    ]
    while line := (await commands.readline()).decode().strip():
        try:
            await agent.do(line)
            print("done", flush=True)
        except KeyError as error:
            print(f"unknown: {error}", flush=True)
    for task in watching:
        task.cancel()
    await runner.cleanup()
    await api.close()


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


if __name__ == "__main__":
    try:
        asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        os._exit(0)  # no process of a container is waited for: all end with this one
