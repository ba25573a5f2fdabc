"""What the pods of a job print, line by line after each pod's name; kubectl reads it, once for each pod."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from elaunch.agent.slurm_commands import ask
from elaunch.schedulers.kubectl_words import NOT_FOUND, Complaint, complaint

LOOK = 2.0  # seconds between two looks for new pods
QUIET = 10.0  # seconds after the last pod's end in which another may take its place
_SECONDS = 60.0
_MOST = 256  # pods at once
_PRINTED = ("Running", "Succeeded", "Failed")
_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Selection:
    """Whose logs: ``kubectl`` with its options, the ``selector`` of the pods, the newest ``tail`` lines (-1: all)."""

    kubectl: tuple[str, ...]
    selector: str
    follow: bool = False
    tail: int = -1
    since: str = ""


class _Reader(threading.Thread):
    """One pod's lines, each written whole."""

    def __init__(self, pod: str, container: str, selection: Selection, out: TextIO, lock: threading.Lock) -> None:
        super().__init__(daemon=True)
        words = [*selection.kubectl, "logs", pod, f"--container={container}", f"--tail={selection.tail}"]
        words += ["--follow"] if selection.follow else []
        words += [f"--since={selection.since}"] if selection.since else []
        self._pod, self._out, self._lock = pod, out, lock
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.start()

    def run(self) -> None:
        with self._process as process:
            for line in process.stdout or ():
                with self._lock:
                    self._out.write(f"[{self._pod}] {line.rstrip()}\n")
                    self._out.flush()

    def end(self) -> None:
        self._process.terminate()


def show(selection: Selection, out: TextIO) -> Complaint | None:
    """Write the logs to ``out``, until all pods have ended where they are followed. What went wrong, else None."""
    readers: dict[str, _Reader] = {}
    lock = threading.Lock()
    over_since: float | None = None
    try:
        while True:
            said = ask(
                [*selection.kubectl, "get", "pods", f"--selector={selection.selector}", "-o", "json"], seconds=_SECONDS
            )
            if not said.done:
                return complaint(said.text)
            listed = list(_pods(json.loads(said.text)))
            pods = {name: phase for name, phase, _ in listed}
            if not pods and not readers and not selection.follow:
                return Complaint(NOT_FOUND, f"there are no pods of {selection.selector} here")
            waiting = [(name, c) for name, phase, c in listed if phase in _PRINTED and name not in readers]
            room = _MOST - sum(reader.is_alive() for reader in readers.values())
            for name, container in waiting[:room]:
                readers[name] = _Reader(name, container, selection, out, lock)
            if not selection.follow and len(waiting) <= room:
                break
            over = all(phase in _OVER for phase in pods.values()) and not any(r.is_alive() for r in readers.values())
            over_since = (over_since or time.monotonic()) if over else None
            if over_since is not None and time.monotonic() - over_since > QUIET:
                break
            time.sleep(LOOK)
        for reader in readers.values():
            reader.join()
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        for reader in readers.values():
            reader.end()
    return None


def _pods(listed: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Names, phases and the container that runs elaunch: the one of that name, else the first; the oldest pod first."""
    items = sorted(listed["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    for pod in items:
        names = [str(container["name"]) for container in pod["spec"]["containers"]]
        container = "elaunch" if "elaunch" in names else names[0]
        yield str(pod["metadata"]["name"]), str(pod.get("status", {}).get("phase", "")), container
