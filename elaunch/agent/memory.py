"""Whether the kernel has killed a process for want of memory: a SIGKILL of that kind looks like any other."""

from __future__ import annotations

import os
from pathlib import Path

_V1, _V2 = "memory.oom_control", "memory.events"
_ROOTS = (("/sys/fs/cgroup", _V2), ("/sys/fs/cgroup/unified", _V2), ("/sys/fs/cgroup/memory", _V1))


class OutOfMemory:
    """Counts such kills in the cgroup of this process, where its ranks are too, or those below it."""

    def __init__(self, file: Path | None = None) -> None:
        """``file`` is the counter, this process's own cgroup's where None."""
        self._file = file or _counter(os.getpid())
        self._seen = self._count()

    def forget(self) -> None:
        """What has been killed until now is no rank of the generation that starts."""
        self._seen = self._count()

    def killed(self) -> bool:
        """Whether the kernel has killed one more process for want of memory than has been told of before."""
        more = self._count() > self._seen
        self._seen += more
        return more

    def _count(self) -> int:
        return _oom_kills(_text(self._file)) if self._file is not None else 0


def _counter(pid: int) -> Path | None:
    """The file of the cgroup that tells; None where there is none to be seen."""
    for line in _text(Path(f"/proc/{pid}/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        for root, name in _ROOTS:
            if (controllers == "") != (name == _V2) or ("memory" not in controllers and name == _V1):
                continue
            # In a container the path may be that on the host, and what is mounted the container's own.
            for file in (Path(root + path) / name, Path(root) / name):
                if "oom_kill " in _text(file):
                    return file
    return None


def _oom_kills(text: str) -> int:
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
