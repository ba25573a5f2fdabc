"""A file system that loses its power: what of a process's writes may be on the disk afterwards.

A file's bytes are safe once it was synced, a directory's entries once that was; a rename is one step, whatever of it is
lost. Everything else may be there, or not, or half. Values only: operations in, trees of files out.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Operation = tuple[str, str, bytes | str]  # kind, path, and the data or the other path
Files = dict[str, bytes | None]  # None is a directory
Change = tuple["Folder", str, "Folder | File | None"]


@dataclass(eq=False)
class File:
    data: bytes = b""
    safe: bytes = b""


@dataclass(eq=False)
class Folder:
    entries: dict[str, Folder | File] = field(default_factory=dict)
    safe: dict[str, Folder | File] = field(default_factory=dict)


@dataclass
class Disk:
    """The operations so far, on a folder that is empty in the beginning."""

    top: Folder = field(default_factory=Folder)
    pending: list[list[Change]] = field(default_factory=list)

    def do(self, operation: Operation) -> None:
        kind, path, other = operation
        if kind == "write":
            file = self._file(path)
            assert isinstance(other, bytes)
            file.data += other
        elif kind == "fsync":
            self._sync(path)
        else:
            self._change(kind, path, str(other))

    def _change(self, kind: str, path: str, other: str) -> None:
        folder, name = self._entry(path)
        if kind in ("mkdir", "create"):
            self._apply([(folder, name, Folder() if kind == "mkdir" else File())])
        elif kind in ("unlink", "rmdir"):
            self._apply([(folder, name, None)])
        else:
            into, new = self._entry(other)
            made: list[Change] = [(into, new, folder.entries[name])]
            self._apply(made + ([(folder, name, None)] if kind == "rename" else []))

    def _apply(self, changes: list[Change]) -> None:
        for folder, name, what in changes:
            _put(folder.entries, name, what)
        self.pending.append(changes)

    def _sync(self, path: str) -> None:
        found = self._find(path)
        if isinstance(found, File):
            found.safe = found.data
            return
        folders = [found]
        rest = []
        for changes in reversed(self.pending):  # with a change come those before it that it is built on
            if any(folder in folders for folder, _, _ in changes):
                folders += [folder for folder, _, _ in changes]
                rest.append(changes)
        for changes in reversed(rest):
            self.pending.remove(changes)
            for folder, name, what in changes:
                _put(folder.safe, name, what)

    def after_loss(self, keep: Callable[[], bool], cut: Callable[[File], bytes]) -> Files:
        """What is there; ``keep`` says of each unsafe change whether it was made, ``cut`` what is in a file."""
        trees: dict[Folder, dict[str, Folder | File]] = {}
        for changes in self.pending:
            if keep():
                for folder, name, what in changes:
                    _put(trees.setdefault(folder, dict(folder.safe)), name, what)
        found: Files = {}
        _walk(self.top, "", trees, cut, found)
        return found

    def _entry(self, path: str) -> tuple[Folder, str]:
        above, _, name = path.rpartition("/")
        folder = self._find(above)
        assert isinstance(folder, Folder)
        return folder, name

    def _file(self, path: str) -> File:
        found = self._find(path)
        assert isinstance(found, File)
        return found

    def _find(self, path: str) -> Folder | File:
        at: Folder | File = self.top
        for part in filter(None, path.split("/")):
            assert isinstance(at, Folder)
            at = at.entries[part]
        return at


def states(disk: Disk, seed: int, count: int) -> list[Files]:
    """The disk after a loss of power: with nothing, everything, all names but no data, and by chance."""
    dice = random.Random(seed)

    def by_chance(file: File) -> bytes:
        kept = file.data[: dice.randint(len(file.safe), len(file.data))]
        return dice.choice([file.safe, file.data, kept, kept.ljust(len(file.data), b"\0")])

    made = [
        disk.after_loss(lambda: False, lambda file: file.safe),
        disk.after_loss(lambda: True, lambda file: file.data),
        disk.after_loss(lambda: True, lambda file: file.safe),
        disk.after_loss(lambda: True, lambda file: file.safe.ljust(len(file.data), b"\0")),
    ]
    return made + [disk.after_loss(lambda: dice.random() < 0.5, by_chance) for _ in range(count)]


def replayed(operations: Sequence[Operation]) -> Disk:
    disk = Disk()
    for operation in operations:
        disk.do(operation)
    return disk


def lay_out(files: Files, into: str) -> None:
    """Make such a tree."""
    os.mkdir(into)
    for path, data in files.items():
        if data is None:
            os.mkdir(f"{into}/{path}")
        else:
            with open(f"{into}/{path}", "wb") as file:
                file.write(data)


def _put(entries: dict[str, Folder | File], name: str, what: Folder | File | None) -> None:
    if what is None:
        entries.pop(name, None)
    else:
        entries[name] = what


def _walk(
    folder: Folder,
    path: str,
    trees: dict[Folder, dict[str, Folder | File]],
    cut: Callable[[File], bytes],
    found: Files,
) -> None:
    for name, what in trees.get(folder, folder.safe).items():
        if isinstance(what, File):
            found[path + name] = cut(what)
        else:
            found[path + name] = None
            _walk(what, f"{path}{name}/", trees, cut, found)
