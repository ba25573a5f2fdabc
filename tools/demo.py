"""make demo: train on real data with two agents, kill a rank, then an agent, and watch the job go on."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
DEADLINE = 300.0  # seconds for each thing that is waited for
STEPS, FIRST_FAULT, SECOND_FAULT = 320, 72, 170
PORTS = range(15_000, 32_000)  # below those that the kernel gives to connections: none of them takes one in between
MARK = "ELAUNCH_DEMO"
START = time.monotonic()
Line = dict[str, Any]


class DemoError(Exception):
    """What did not happen in time, or ended when it should not have."""


def say(text: str, who: str = "demo") -> None:
    sys.stdout.write(f"{time.monotonic() - START:6.1f} s  {who:8} {text}\n")
    sys.stdout.flush()


def free_port() -> int:
    for port in random.sample(PORTS, len(PORTS)):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port
    raise DemoError("no port is free")


class Agent:
    """One ``elaunch``, as one node would run it; what it and its ranks say is shown as it comes."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.name, self.said = name, [""]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        threading.Thread(target=self._relay, daemon=True).start()

    def _relay(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.said.append(line)
            if not re.match(r"\[rank\d+\]:", line):  # the traceback of a rank that lost a peer
                say(line.rstrip(), self.name)

    def rank_pid(self) -> int:
        """The pid of the rank of this agent that started last."""
        return int(re.findall(r"^rank \d+ of \d+  pid (\d+) ", "".join(self.said), re.MULTILINE)[-1])


@dataclass
class Fault:
    """A kill, and what the loss log says about it. ``time`` is wall clock, as in the log."""

    what: str
    time: float
    before: Line
    after: Line


class Demo:
    """The job and its loss log."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.losses, self.agents = folder / "losses.jsonl", list[Agent]()
        options = ["--nnodes=1:2", "--nproc-per-node=2", "--max-restarts=3", "--rdzv-backend=c10d"]
        meet = [f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=demo", "--rdzv-conf=last_call_timeout=60"]
        warm = ["--preload", "sklearn.datasets,elaunch.checkpoint.checkpointer,torch._dynamo"]
        program = ["examples/train_ddp.py", "--checkpoint-dir", str(folder / "checkpoints")]
        pace = [
            "--steps",
            str(STEPS),
            "--step-delay=0.05",
            "--print-every=40",
            "--loss-log",
            str(self.losses),
        ]
        self.command = ["-m", "elaunch", *options, *meet, *warm, *program, *pace]
        self.environment = {**os.environ, MARK: mark, "XDG_STATE_HOME": str(folder), "PYTHONUNBUFFERED": "1"}
        self.environment.setdefault("ELAUNCH_LOG_FORMAT", "console")

    def start(self, name: str) -> None:
        self.agents.append(Agent(name, [sys.executable, *self.command], self.environment))

    def lines(self) -> list[Line]:
        text = self.losses.read_text() if self.losses.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def first(self, what: str, condition: Callable[[Line], bool], alive: int) -> Line:
        """Wait for a step that meets ``condition``, while the first ``alive`` agents live."""
        deadline = time.monotonic() + DEADLINE
        while True:
            found = next(filter(condition, self.lines()), None)
            if found:
                return found
            if any(agent.process.poll() is not None for agent in self.agents[:alive]):
                raise DemoError(f"an agent ended while the demo waited for {what}")
            if time.monotonic() > deadline:
                raise DemoError(f"waited {DEADLINE:.0f} s for {what}")
            time.sleep(0.01)

    def strike(self, what: str, pid: int, world: int, alive: int) -> Fault:
        """SIGKILL ``pid``, and wait until ``world`` ranks have done a step in a later generation."""
        say(f"kill -9 {pid}: {what}")
        before, now = self.lines()[-1], time.time()
        os.kill(pid, signal.SIGKILL)
        wanted = f"a step of {world} ranks after the loss of {what}"

        def recovered(line: Line) -> bool:
            return bool(line["generation"] > before["generation"] and line["world"] == world)

        after = self.first(wanted, recovered, alive)
        say(f"{after['time'] - now:.2f} s later: step {after['step']} in generation {after['generation']}")
        return Fault(what, now, before, after)

    def run(self) -> list[Fault]:
        self.start("agent 1")
        self.start("agent 2")
        whole = self.first("a step of four ranks", lambda line: bool(line["world"] == 4), alive=2)
        say(f"all four ranks train, after {time.monotonic() - START:.1f} s")
        first, second = whole["step"] + FIRST_FAULT, whole["step"] + SECOND_FAULT
        self.first(f"step {first}", lambda line: bool(line["step"] >= first), alive=2)
        faults = [self.strike("a rank of agent 2", self.agents[1].rank_pid(), world=4, alive=2)]
        self.first(f"step {second}", lambda line: bool(line["step"] >= second), alive=2)
        faults.append(self.strike("agent 2", self.agents[1].process.pid, world=2, alive=1))
        if code := self.agents[0].process.wait(DEADLINE):
            raise DemoError(f"agent 1 ended with exit code {code}")
        return faults

    def end(self) -> None:
        for agent in self.agents:
            if agent.process.poll() is None:
                agent.process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    agent.process.wait(35)


def marked(mark: str) -> list[psutil.Process]:
    """Every process that this demo has started, and that still runs."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return [process for process in found if process.pid != os.getpid()]


def report(faults: list[Fault], lines: list[Line]) -> None:
    print("\nkilled               next step after  world   last step before     first step after")
    for fault in faults:
        before, after = fault.before, fault.after
        took = f"{after['time'] - fault.time:.2f} s"
        world = f"{before['world']} -> {after['world']}"
        places = [f"{line['step']:4} (loss {line['loss']:.4f})" for line in (before, after)]
        print(f"{fault.what:20} {took:>15}  {world:7} {places[0]:20} {places[1]}")
    seen: dict[tuple[int, int], set[float]] = {}
    for line in lines:
        seen.setdefault((line["step"], line["world"]), set()).add(line["loss"])
    again = len(lines) - len(seen)
    equal = "to the bit" if all(len(losses) == 1 for losses in seen.values()) else "NOT the same"
    start, end = lines[0], lines[-1]
    print(f"\nloss {start['loss']:.4f} at step {start['step']}, {end['loss']:.4f} at step {end['step']}.")
    print(f"{again} steps were done again by a world of the same size; their losses are the same: {equal}.")
    if equal != "to the bit":
        raise DemoError("a step that was done again gave another loss")


def main() -> int:
    folder, mark = Path(tempfile.mkdtemp(prefix="elaunch-demo-")), uuid.uuid4().hex
    demo = Demo(folder, mark)
    code = 1
    try:
        faults = demo.run()
        report(faults, demo.lines())
        code = 0
    except (DemoError, subprocess.TimeoutExpired) as error:
        say(f"FAILED: {error}")
    finally:
        demo.end()
        _, left = psutil.wait_procs(marked(mark), timeout=60)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                say(f"FAILED: still running at the end: {process.pid} {' '.join(process.cmdline())[:100]}")
                process.kill()
                code = 1
        shutil.rmtree(folder, ignore_errors=True)
    if code == 0:
        print(f"exit code 0 after {time.monotonic() - START:.0f} s, and no process is left.")
    return code


if __name__ == "__main__":
    sys.exit(main())
