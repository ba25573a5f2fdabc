"""A reader at a terminal: bash with the commands of this checkout, in a folder and home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.docs.blocks import ROOT, Block
from tests.docs.sessions import Part, Session
from tests.e2e.harness import MARK, marked
from tests.etcd.servers import free_port

SECONDS = 480.0  # on an idle machine it takes a tenth
TESTS = ROOT / "tests" / "docs"
PRELUDE = r"""
set -e -o pipefail
patience() { for try in $(seq 480); do if "$@"; then return 0; fi; sleep 0.5; done; echo "never came: $*"; return 1; }
seen() { grep -qE -- "$2" $1 2>/dev/null; }
says() { local what=$1; shift; "$@" 2>&1 | grep -E -- "$what" > /dev/null; }
listens() { (: < /dev/tcp/127.0.0.1/$1) 2>/dev/null; }
until_in() { patience seen "$@"; }
until_says() { patience says "$@"; }
serves() { service=$!; patience listens $1; }
ends() { kill $service; wait $service || [ $? = 143 ]; }
set -v
"""


@dataclass
class Terminal:
    """A session under way in ``folder``; ``mark`` is in the environment of all that it starts."""

    folder: Path
    script: str
    environment: dict[str, str]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    begun: bool = False

    def start(self) -> None:
        self.begun = True
        for name in ("home", "tmp", "bin"):
            (self.folder / name).mkdir(parents=True)
        for name in ("examples", "deploy"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "train.py").write_text((TESTS / "train.py").read_text())
        command = self.folder / "bin" / "elaunch"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m elaunch "$@"\n')
        command.chmod(0o755)
        self._install()
        (self.folder / "script").write_text(self.script)
        with (self.folder / "said").open("wb") as said:
            self.process = subprocess.Popen(
                ["bash", "script"],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def finish(self) -> str:
        """What was said, if the last command and all before it ended well. Raises AssertionError."""
        try:
            code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = -1
        said = (self.folder / "said").read_text(errors="replace")
        assert code == 0, f"ended with {code}:\n{said}"
        return said

    def close(self, *, within: float = 0.0) -> list[str]:
        """End what still runs after so many seconds; it is returned. An embedded etcd goes a little after its job."""
        left = []
        deadline = time.monotonic() + within
        while marked(self.mark) and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in marked(self.mark):
            try:
                left.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
                process.kill()
            except psutil.Error:
                continue
        if self.begun:
            self.process.wait(30)
        return left

    def _install(self) -> None:
        """What torchrun reads of a package to find its plug-in, for where elaunch itself is not installed."""
        info = self.folder / "packages" / "elaunch-0.1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elaunch\nVersion: 0.1.0\n")
        handler = "elaunch = elaunch.rendezvous.torchrun:create_registration"
        (info / "entry_points.txt").write_text(f"[torchrun.handlers]\n{handler}\n")

    def _environment(self) -> dict[str, str]:
        own = {
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_STATE_HOME": str(self.folder / "home" / "state"),
            "PATH": os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(self.folder / "packages"), str(ROOT)]),
            "OMP_NUM_THREADS": "1",
            "TESTS": str(TESTS),
            MARK: self.mark,
            **{f"PORT{n}": str(free_port()) for n in (1, 2, 3)},
        }
        passed = {name: os.environ[name] for name in ("LANG", "USER", "LOGNAME") if name in os.environ}
        return {**passed, **own, **self.environment}


def script(session: Session, found: Sequence[Block], taken: set[Block]) -> str:
    """The session as one script, of the blocks in ``found`` that no session has ``taken`` before."""
    lines = [PRELUDE, session.before]
    for part in session.parts:
        patience = {begins: list(waits) for begins, waits in part.waits.items()}
        for block in _of(part, found, taken):
            for line in _swapped(part, block.script).splitlines():
                begins = next((b for b, waits in patience.items() if line.startswith(b) and waits), None)
                lines += [patience[begins].pop(0)] if begins else []
                lines.append(line)
        assert not any(patience.values()), f"{part.page}: no line begins so: {patience}"
    return "\n".join([*lines, session.after, ""])


def _of(part: Part, found: Sequence[Block], taken: set[Block]) -> Iterator[Block]:
    for first in part.first:
        fits = (b for b in found if b.page == part.page and b.first.startswith(first) and b not in taken)
        block = next(fits, None)
        assert block is not None, f"{part.page} has no block (any more) that begins with {first!r}"
        taken.add(block)
        yield block


def _swapped(part: Part, text: str) -> str:
    for old, new in part.swaps.items():
        text = text.replace(old, new)
    return text
