"""What breaks an invariant on purpose, so that one sees that it is found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from elaunch.checkpoint.records import manifest

PLANTS = ("stale-commit", "two-generations", "leak")


class Plant:
    """Done once, when there is a generation of which another is the older one."""

    def __init__(self, what: str, folder: Path) -> None:
        self._what, self._folder = what, folder
        self._done = not what
        self.process: subprocess.Popen[bytes] | None = None

    def look(self, generation: int) -> None:
        """``generation`` is the newest that has begun its first step."""
        if self._done:
            return
        if self._what == "leak":
            self._done = True
            argv = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
        elif generation > 1:
            self._done = self._stale(generation) if self._what == "stale-commit" else self._alive(generation)

    def _alive(self, generation: int) -> bool:
        """A rank of an older generation makes a step."""
        for path in (self._folder / "lines").glob("*.jsonl"):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            steps = [line for line in lines if line["event"] == "step" and line["generation"] < generation]
            if steps:
                with path.open("a") as file:
                    file.write(json.dumps({**steps[-1], "t": time.monotonic()}) + "\n")
                return True
        return False

    def _stale(self, generation: int) -> bool:
        """A checkpoint of an older generation appears."""
        folder = self._folder / "checkpoints"
        newest = max(folder.glob("step-*"), default=None)
        if newest is None:
            return False
        copy = folder / ".elaunch" / "planted"
        try:
            shutil.copytree(newest, copy)
            made = manifest.decode((copy / "manifest.json").read_bytes(), "planted")
        except (OSError, shutil.Error):
            return False  # it was just taken away
        origin = replace(made.origin, generation=generation - 1)
        (copy / "manifest.json").write_bytes(manifest.encode(replace(made, step=made.step + 5, origin=origin)))
        os.rename(copy, folder / f"step-{made.step + 5:08d}")
        return True

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
