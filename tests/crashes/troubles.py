"""What the processes of test_trouble.py do: each makes one kind of trouble for itself while it saves."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

from elaunch.checkpoint import Checkpointer
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.storages.posix import Posix
from tests.crashes import faulty
from tests.crashes.scenes import Told, Training, check, left_over, opened, steps

_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 1, 32, 4096, 16384, 1 << 18, 2
_libc = ctypes.CDLL(None, use_errno=True)


def on_a_full_disk(folder: Path) -> str:
    _mount(folder, "size=256k")
    root, filler = folder / "run", folder / "filler"

    def fill() -> None:
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"\0" * 4096):
                continue

    return _disturbed(root, fill, filler.unlink)


def on_a_read_only_disk(folder: Path) -> str:
    _mount(folder, "size=1m")
    root = folder / "run"

    def cover() -> None:
        _bind(root, root)
        _checked(_libc.mount(None, str(root).encode(), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY, None))

    return _disturbed(root, cover, lambda: _unmount(root))


def on_an_unmounted_disk(folder: Path) -> list[str]:
    disk, place = folder / "disk", folder / "place"
    disk.mkdir()
    place.mkdir()
    _mount(disk, "size=1m")
    _bind(disk, place)
    told = Told()
    training, ckpt = opened(place / "run", told)
    assert _save(training, ckpt, 10)
    _unmount(place)
    assert not _save(training, ckpt, 20)
    assert not _save(training, ckpt, 30)
    assert not steps(place / "run")
    _bind(disk, place)
    assert _save(training, ckpt, 40)
    assert steps(place / "run") == {10, 40}
    ckpt.close()
    return [sentence for _, sentence in told.events]


def without_permission(root: Path) -> str:
    return _disturbed(root, lambda: os.seteuid(65534), lambda: os.seteuid(0))


def with_a_limit(root: Path) -> str:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    return _disturbed(
        root,
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (256, hard)),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)),
    )


def moved_away(root: Path) -> list[str]:
    told = Told()
    training, ckpt = opened(root, told)
    root.rename(root.with_suffix(".away"))
    assert not _save(training, ckpt, 30)
    root.with_suffix(".away").rename(root)
    assert _save(training, ckpt, 40)
    ckpt.close()
    assert not check(root, 40)
    assert steps(root) == {20, 40}
    return [sentence for _, sentence in told.events]


def removed(root: Path) -> list[str]:
    told = Told()
    training, ckpt = opened(root, told)
    root.rename(root.with_suffix(".away"))
    assert not _save(training, ckpt, 30)
    assert _save(training, ckpt, 40)
    assert _save(training, ckpt, 50)
    ckpt.close()
    assert not check(root, 50)
    assert steps(root) == {40, 50}
    return [sentence for _, sentence in told.events]


def removed_meanwhile(root: Path) -> list[str]:
    told = Told()
    training, ckpt = opened(root, told)
    away = faulty.first("fsync", ".distcp", lambda path: root.rename(root.with_suffix(".away")))
    with faulty.Disk(root, away).watched():
        assert not _save(training, ckpt, 30)
    while not _save(training, ckpt, 40):
        assert len(told.events) < 3, told.events
    ckpt.close()
    assert not check(root, 40)
    return [sentence for _, sentence in told.events]


def restored_on_a_full_disk(root: Path) -> str:
    told, training = Told(), Training()
    ckpt = Checkpointer(root, training.state, launcher=told)
    full = faulty.from_then(0, faulty.NEEDING_SPACE, faulty.fail(errno.ENOSPC))
    with faulty.Disk(root, full).watched():
        assert ckpt.restore() == 20
    assert training.is_at(20)
    ckpt.close()
    return told.events[0][1]


def gone_back(root: Path) -> list[str]:
    """Go back to an older step in the middle of a program, and save less far than before."""
    told = Told()
    training, ckpt = opened(root, told)
    assert _save(training, ckpt, 30)
    assert ckpt.restore(step=20) == 20
    assert training.is_at(20)
    assert _save(training, ckpt, 22)
    assert not check(root, 22)
    assert ckpt.restore(step=20) == 20
    assert _save(training, ckpt, 22)
    assert not check(root, 22)
    assert _save(training, ckpt, 21)
    ckpt.close()
    names = sorted(path.name for path in root.glob("step-*"))
    return [*names, *(kind for kind, _ in told.events)]


def gone_back_in_trouble(template: Path, into: Path) -> tuple[int, dict[int, str]]:
    """Go back, and have the save after it fail at each of its operations; how many, and what is wrong then."""
    wrong: dict[int, str] = {}
    for number in itertools.count():
        root = into / f"{number}"
        shutil.copytree(template, root)
        training, ckpt = opened(root, Told())
        assert _save(training, ckpt, 30)
        ckpt.restore(step=20)
        with faulty.Disk(root, faulty.at(number, faulty.fail(errno.EIO))).watched() as disk:
            _save(training, ckpt, 21)
        said = "" if _save(training, ckpt, 22) else ckpt.wait().error
        if said := said + check(root, 22):
            wrong[number] = said
        ckpt.close()
        if len(disk.done) <= number:
            return number, wrong
    raise AssertionError


def set_aside_before(root: Path) -> list[str]:
    """Save a step whose name was set aside once, when another checkpoint had it that is gone."""
    Catalog(Posix(root)).mark("step-00000030", "damaged")
    training, ckpt = opened(root, Told())
    assert _save(training, ckpt, 30)
    ckpt.close()
    assert not check(root, 30)
    return sorted(path.name for path in root.glob("step-*"))


def _disturbed(root: Path, trouble: Callable[[], object], over: Callable[[], object]) -> str:
    """Save before, amid and after the trouble; what was told of it."""
    told = Told()
    training, ckpt = opened(root, told)
    assert _save(training, ckpt, 21)
    trouble()
    assert not _save(training, ckpt, 30)
    assert not _save(training, ckpt, 31)
    over()
    assert steps(root) >= {21}
    assert not steps(root) & {30, 31}
    assert not check(root, 21)
    assert _save(training, ckpt, 40)
    ckpt.close()
    assert not check(root, 40)
    assert not left_over(root)
    assert [kind for kind, _ in told.events] == ["checkpoint_failed"] * 2, told.events
    return told.events[0][1]


def _save(training: Training, ckpt: Checkpointer, step: int) -> bool:
    training.go_to(step)
    ckpt.save(step)
    return ckpt.wait().committed


def _mount(folder: Path, options: str) -> None:
    """A small file system in a namespace of this process's own."""
    _checked(_libc.unshare(_CLONE_NEWNS))
    _checked(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    _checked(_libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, options.encode()))


def _bind(what: Path, where: Path) -> None:
    _checked(_libc.mount(str(what).encode(), str(where).encode(), None, _MS_BIND, None))


def _unmount(where: Path) -> None:
    _checked(_libc.umount2(str(where).encode(), _MNT_DETACH))


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
