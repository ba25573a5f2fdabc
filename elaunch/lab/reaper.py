"""A process that takes away a laboratory's network and all that runs in it, when whoever made it is gone or done.

    python reaper.py NAME FOLDER PID

It makes FOLDER (where there is one, it says ``taken`` and ends), and waits for the end of its standard input, or of
process PID, whichever comes first. Then it kills what runs in the network namespaces NAME..., takes these away, and the
links NAME... and what is mounted below FOLDER, and FOLDER. It inherits the lock on the laboratory's addresses, so that
nobody is given them before. Nothing but the standard library is used, and nothing of elaunch imported.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time

_PATIENCE = 20.0  # seconds for what was killed to be gone
_LOOK = 0.1  # seconds between two looks whether anything is left
_TOOLS = ("ip", "mount", "nsenter", "unshare", "sh", "hostname", "mktemp")


def main() -> None:
    name, folder, parent = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    waited: list[int] = [0]
    try:
        waited.append(os.pidfd_open(parent))
    except ProcessLookupError:
        waited = []
    try:
        os.mkdir(folder)
    except FileExistsError:
        print("taken", flush=True)
        return
    try:
        print("ready", flush=True)
    except BrokenPipeError:
        waited = []
    while waited:
        readable, _, _ = select.select(waited, [], [])
        if readable != [0] or not os.read(0, 4096):
            break
    take_away(name, folder)


def take_away(name: str, folder: str) -> None:
    """All of it, as often as it takes: what was being made when its maker was killed may come to be only then."""
    deadline = time.monotonic() + _PATIENCE
    clean = 0
    while clean < 2 and time.monotonic() < deadline:
        clean = 0 if _once(name, folder, deadline) else clean + 1
        time.sleep(_LOOK)


def _once(name: str, folder: str, deadline: float) -> bool:
    """Whether there was anything to take away."""
    spaces = [space for space in namespaces() if space.startswith(name)]
    found = bool(spaces)
    while pids := [*making(name), *(pid for space in spaces for pid in inside(space))]:
        found = True
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    for space in spaces:
        run("ip", "netns", "del", space)
    for link in links():
        if link.startswith(name):
            found = True
            run("ip", "link", "del", link)
    for mount in sorted(mounts(folder), reverse=True):
        found = True
        run("umount", "-l", mount)
    if os.path.lexists(folder):
        found = True
        shutil.rmtree(folder, ignore_errors=True)
    return found


def making(name: str) -> list[int]:
    """What is at work for a laboratory of this name without being in it: a tool that makes a piece of it, a cable."""
    found = []
    for pid, words in processes():
        ours = any(name in word for word in words[1:])
        if ours and (os.path.basename(words[0]) in _TOOLS or any(word.endswith("/lab/cable.py") for word in words)):
            found.append(pid)
    return found


def reapers() -> dict[str, tuple[int, int]]:
    """Of each laboratory that has one: its reaper, and the process that it waits for."""
    found = {}
    for pid, words in processes():
        at = next((n for n, word in enumerate(words) if word.endswith("/lab/reaper.py")), len(words))
        if len(words) == at + 4 and words[at + 3].isdecimal():
            found[words[at + 1]] = pid, int(words[at + 3])
    return found


def processes() -> list[tuple[int, list[str]]]:
    """All others, with their words."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read(8192).decode(errors="replace").split("\0")[:-1]
            except OSError:
                continue
            if words:
                found.append((int(entry), words))
    return found


def namespaces() -> list[str]:
    return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.strip()]


def inside(space: str) -> list[int]:
    return [int(word) for word in run("ip", "netns", "pids", space).split()]


def links() -> list[str]:
    return [link["ifname"] for link in json.loads(run("ip", "-j", "link", "show") or "[]")]


def mounts(folder: str) -> list[str]:
    with open("/proc/self/mounts") as file:
        places = [line.split()[1] for line in file]
    return [place for place in places if place == folder or place.startswith(f"{folder}/")]


def run(*words: str) -> str:
    """What it says; nothing where it cannot be run, or takes too long: whoever asks will ask again."""
    try:
        return subprocess.run(words, check=False, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


if __name__ == "__main__":
    main()
