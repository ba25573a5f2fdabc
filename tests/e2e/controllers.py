"""Dedicated controllers for a test: real processes, each behind a door to etcd that the test can shut."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader, decode
from tests.e2e.harness import MARK, ROOT, Agent, marked, wait_until

T = TypeVar("T")
TTL = 2


class Loop:
    """An event loop in a thread, for what a test needs beside its own waiting."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T], seconds: float = 60.0) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Door:
    """Forwards connections to ``target``. Shut, nothing goes through it and nothing is told: packets are lost."""

    def __init__(self, loop: Loop, target: str) -> None:
        self._loop = loop
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._server = loop.do(self._listen())
        host, port = self._server.sockets[0].getsockname()[:2]
        self.endpoint = f"{host}:{port}"

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        for source, sink in ((reader, back), (there, writer)):
            pump = asyncio.ensure_future(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()

    def shut(self) -> None:
        self._loop.do(self._set(False))

    def unlock(self) -> None:
        self._loop.do(self._set(True))

    async def _set(self, open_: bool) -> None:
        if open_:
            self._open.set()
        else:
            self._open.clear()

    def close(self) -> None:
        self._loop.do(self._end())

    async def _end(self) -> None:
        self._server.close()
        pumps = list(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


@dataclass
class Controller(Agent):
    """One running ``elaunch controller``."""

    door: Door | None = None

    @property
    def controller_id(self) -> str:
        found = re.search(r"standing_by .*controller=([0-9a-f]+)", self.output())
        return found.group(1) if found else ""


@dataclass
class Controllers:
    """Those of one test, and its own view of the etcd that they are on."""

    folder: Path
    etcd: str
    loop: Loop = field(default_factory=Loop)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    all: list[Controller] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._store = self.loop.do(self._open())

    async def _open(self) -> EtcdStore:
        return EtcdStore(self.etcd.split(","))

    def start(self, *options: str, behind_door: bool = False, where: Sequence[str] = ()) -> Controller:
        """Start one, and wait until it is registered; ``where`` is as for an agent of a job."""
        log = self.folder / f"controller{len(self.all)}.log"
        door = Door(self.loop, self.etcd) if behind_door else None
        etcd = door.endpoint if door else self.etcd
        argv = [*where, sys.executable, "-m", "elaunch", "controller", f"--etcd={etcd}", f"--lease-ttl={TTL}", *options]
        env = {**os.environ, "PYTHONPATH": str(ROOT), MARK: self.mark}
        with log.open("wb") as file:
            process = subprocess.Popen(argv, env=env, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        controller = Controller(process, log, door)
        self.all.append(controller)
        wait_until("the controller stands by", lambda: controller.controller_id or process.poll() is not None)
        assert process.poll() is None, controller.output()
        return controller

    def leader(self, job: str) -> tuple[int, str]:
        """Epoch and node id of who leads a job, (0, "") for nobody."""
        found = self.loop.do(self._store.get(JobKeys(job).leader))
        return (found.create_revision, decode(Leader, found.value).node_id) if found else (0, "")

    def leading(self, job: str) -> tuple[int, Controller]:
        """The epoch, and the controller, once one of these leads the job."""
        by_id = {c.controller_id: c for c in self.all}

        def one() -> tuple[int, Controller] | None:
            epoch, name = self.leader(job)
            led = f"leading (epoch={epoch} "
            return (epoch, by_id[name]) if name in by_id and led in by_id[name].output() else None

        found: tuple[int, Controller] = wait_until("a controller leads", one)
        return found

    def outputs(self) -> str:
        return "\n".join(f"--- controller {i}\n{c.output()}" for i, c in enumerate(self.all))

    def close(self) -> list[str]:
        """End them all; the names of what was left running."""
        for controller in self.all:
            if controller.process.poll() is None:
                controller.kill()
                controller.process.wait(60)
            if controller.door:
                controller.door.close()
        self.loop.do(self._store.close())
        self.loop.close()
        return [str(process) for process in marked(self.mark)]
