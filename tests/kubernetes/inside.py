"""The first process of a container: makes its root, mounts its volumes, and becomes its program.

Started with the file of a spec and the number of an open file, to which are written the PID of that process, as a line,
and why its program cannot be run, if so. It is the child of the one that was started, which ends with its exit code: in
the pod's network, and in mount, PID, host name and IPC namespaces of its own. Its root is the machine's own, below a
layer of the container's: what it writes, nobody else sees, and is gone with it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_NOSUID, _REMOUNT, _BIND, _REC, _PRIVATE, _READ_ONLY = 2, 32, 4096, 16384, 1 << 18, 1
_DETACH = 2
_NEWNS, _NEWUTS, _NEWIPC, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
_CAPBSET_DROP, _NO_NEW_PRIVS = 24, 38
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def main() -> None:
    spec, told = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])
    os.set_inheritable(told, False)  # it closes when the program begins
    _leave(spec["network"])
    if child := os.fork():
        os.write(told, f"{child}\n".encode())
        os.close(told)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code if code >= 0 else 128 - code)
    try:
        _make_root(spec)
        os.chdir(spec["directory"])
        program = _program(spec["words"][0], spec["env"])
        _become(spec)
        os.execve(program, spec["words"], spec["env"])
    except OSError as error:
        os.write(told, f"{error}".encode())
        os._exit(128)


def _leave(network: str) -> None:
    with open(f"/run/netns/{network}") as file:
        if _libc.setns(file.fileno(), _NEWNET):
            raise _error("setns")
    if _libc.unshare(_NEWNS | _NEWUTS | _NEWIPC | _NEWPID):
        raise _error("unshare")


def _make_root(spec: dict[str, Any]) -> None:
    layer, root = Path(spec["layer"]), Path(spec["layer"]) / "root"
    for folder in ("upper", "work", "root"):
        (layer / folder).mkdir(parents=True)
    _mount("none", "/", None, _REC | _PRIVATE)
    _mount("root", root, "overlay", 0, f"lowerdir=/,upperdir={layer}/upper,workdir={layer}/work")
    _mount("proc", root / "proc", "proc")
    _mount("/sys", root / "sys", None, _BIND | _REC)
    _make_devices(root)
    for folder in spec["seen"]:  # they are the machine's, and may lie on another file system than its root
        (root / folder[1:]).mkdir(parents=True, exist_ok=True)
        _mount(folder, root / folder[1:], None, _BIND)
    _open_ways(root, spec["seen"])
    for name, text in spec["files"].items():
        _place(root, name).write_text(text)
    for name, target in spec["links"].items():
        place = _place(root, name)
        place.unlink(missing_ok=True)
        place.symlink_to(target)
    for source, target, read_only in spec["mounts"]:
        _bind(source, root, target, read_only)
    _show_through(root, spec["seen"], [target for _, target, _ in spec["mounts"]])
    if spec["read_only_root"]:
        _mount("none", root, None, _BIND | _REMOUNT | _READ_ONLY)
    os.chdir(root)
    if _libc.pivot_root(b".", b".") or _libc.umount2(b".", _DETACH):  # the old root lies on the new one, and is let go
        raise _error("pivot_root")
    _hostname(spec["hostname"])


def _make_devices(root: Path) -> None:
    _mount("dev", root / "dev", "tmpfs", _NOSUID, "mode=755,size=64k")
    for device in _DEVICES:
        (root / "dev" / device).touch()
        _mount(f"/dev/{device}", root / "dev" / device, None, _BIND)
    for folder, kind, options in (
        ("pts", "devpts", "newinstance,ptmxmode=0666,mode=620"),
        ("shm", "tmpfs", "mode=1777"),
    ):
        (root / "dev" / folder).mkdir()
        _mount(folder, root / "dev" / folder, kind, _NOSUID, options)
    for name, target in (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (root / "dev" / name).symlink_to(target)


def _open_ways(root: Path, folders: list[str]) -> None:
    """An image is readable by every user; a home on this machine may not be. The layer's own copy of a folder is."""
    for folder in folders:
        for parent in Path(folder).parents:
            place = root / str(parent)[1:]
            if place.stat().st_mode & 0o055 != 0o055 and place != root:
                place.chmod(place.stat().st_mode | 0o055)


def _show_through(root: Path, folders: list[str], targets: list[str]) -> None:
    """What has to be seen, also where a volume lies on its way: a checkout below /tmp."""
    for folder in folders:
        if any(Path(folder).is_relative_to(os.path.realpath(target)) for target in targets):
            place = root / folder[1:]
            place.mkdir(parents=True, exist_ok=True)
            _mount(folder, place, None, _BIND)


def _bind(source: str, root: Path, target: str, read_only: bool) -> None:
    place = _place(root, target)
    if os.path.isdir(source):
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.touch()
    _mount(source, place, None, _BIND | _REC)
    if read_only:
        _mount("none", place, None, _BIND | _REMOUNT | _READ_ONLY)


def _place(root: Path, name: str) -> Path:
    """Below ``root``, with the links on the way followed as the container will: /var/run is /run."""
    place = root / os.path.realpath(os.path.dirname(name)).lstrip("/") / os.path.basename(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _program(word: str, env: dict[str, str]) -> str:
    found = shutil.which(word, path=env.get("PATH", os.defpath))
    if found is None:
        raise FileNotFoundError(f'exec: "{word}": executable file not found in $PATH')
    return found


def _become(spec: dict[str, Any]) -> None:
    if spec["drop_capabilities"]:
        last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
        for capability in range(last + 1):
            _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    if spec["no_new_privileges"]:
        _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.setgroups(spec["groups"])
    os.setgid(spec["group"])
    os.setuid(spec["user"])
    os.umask(0o022)


def _hostname(name: str) -> None:
    if _libc.sethostname(name.encode(), len(name.encode())):
        raise _error("sethostname")


def _mount(source: str, target: str | Path, kind: str | None, flags: int = 0, options: str = "") -> None:
    told = None if kind is None else kind.encode()
    if _libc.mount(str(source).encode(), str(target).encode(), told, ctypes.c_ulong(flags), options.encode()):
        raise _error(f"mount of {source} on {target}")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
