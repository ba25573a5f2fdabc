"""The manifest of a committed checkpoint: what was saved, by whom, and the sums of every file. No torch, no I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from elaunch.checkpoint.records import sums
from elaunch.checkpoint.storages import layout
from elaunch.errors import DamagedCheckpointError

FORMAT = 1
MOST_BYTES = 256 << 20  # of a manifest: 16 bytes of sums for 4 MiB of data, so one of some 50 TB
_TOO_MANY = 1 << 63
_MOST_CLAIM = 10**15  # later claims have room to come after it
_MOST_SECONDS = 10.0**12
_MOST_DIMENSIONS = 64  # as torch has it


@dataclass(frozen=True, slots=True)
class FileSum:
    """One file: its size in bytes and the sum of each of its blocks, one after the other."""

    size: int
    blocks: bytes

    def block(self, index: int) -> bytes:
        """The sum of the block of this number."""
        return self.blocks[index * sums.WIDTH : (index + 1) * sums.WIDTH]


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of the state: a tensor with its global shape, type and placements, or ``bytes`` of anything else."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    placements: str = ""

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor; else a value that was serialized."""
        return bool(self.dtype)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who saved: ``job`` and the rest are empty or 0 outside of elaunch; ``saved_at`` is seconds since the epoch.

    ``incarnation`` tells the job from an earlier one of the same name, whose generations were numbered from 1 as well.
    """

    job: str = ""
    generation: int = 0
    restart_count: int = 0
    claim: int = 0
    host: str = ""
    saved_at: float = 0.0
    torch: str = ""
    elaunch: str = ""
    incarnation: str = ""

    def generation_in(self, job: str, incarnation: str) -> int:
        """The generation of this very job that saved; 0 where another job did, or nobody's."""
        return self.generation if (self.job, self.incarnation) == (job, incarnation) else 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """A committed checkpoint. ``meshes`` are device meshes in use, as {"shape": [2, 2], "names": ["dp", "tp"]}."""

    step: int
    world_size: int
    origin: Origin
    files: Mapping[str, FileSum]
    entries: Mapping[str, Entry]
    meshes: tuple[Mapping[str, Any], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all files that it names."""
        return sum(file.size for file in self.files.values())


def encode(manifest: Manifest) -> bytes:
    """As a file: JSON whose last line is the sum of everything before it."""
    body = json.dumps(
        {
            "format": FORMAT,
            "step": manifest.step,
            "world_size": manifest.world_size,
            "meshes": list(manifest.meshes),
            **asdict(manifest.origin),
            "facts": dict(manifest.facts),
            "files": {
                name: {"size": file.size, "xxh3_64_of_4MiB": file.blocks.hex()} for name, file in manifest.files.items()
            },
            "entries": {key: _entry(entry) for key, entry in manifest.entries.items()},
        },
        indent=1,
    )
    head = body.rstrip().removesuffix("}").rstrip() + ',\n "sum": "'
    return f'{head}{sums.whole(head.encode())}"\n}}\n'.encode()


def decode(data: bytes, where: str) -> Manifest:
    """Read a manifest.

    Raises DamagedCheckpointError, which says what is wrong, for anything but what encode() makes.
    """
    _check_sum(data, where)
    try:
        raw = json.loads(data)
        if raw["format"] != FORMAT:
            raise DamagedCheckpointError(f"{where}: format {raw['format']!r}, this elaunch reads format {FORMAT}")
        return Manifest(
            step=_count(raw["step"]),
            world_size=_count(raw["world_size"]),
            origin=_origin(raw),
            files={name: _file(name, file) for name, file in raw["files"].items()},
            entries={key: _entry_of(entry) for key, entry in raw["entries"].items()},
            meshes=tuple(_mesh_of(mesh) for mesh in raw["meshes"]),
            facts=dict(raw["facts"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedCheckpointError(f"{where}: not a manifest ({error!r:.300})") from error


def _origin(raw: dict[str, Any]) -> Origin:
    origin = Origin(**{name: type(value)(raw[name]) for name, value in asdict(Origin()).items()})
    if not 0 <= origin.claim < _MOST_CLAIM or not 0 <= origin.saved_at < _MOST_SECONDS:
        raise ValueError(f"claim {origin.claim} at {origin.saved_at} seconds")
    return origin


def _check_sum(data: bytes, where: str) -> None:
    head, mark, tail = data.rpartition(b' "sum": "')
    said = tail[:32].decode("ascii", "replace")
    if not mark or tail[32:] != b'"\n}\n' or sums.whole(head + mark) != said:
        raise DamagedCheckpointError(f"{where}: damaged or cut off ({len(data)} bytes, its own sum does not fit)")


def _entry(entry: Entry) -> dict[str, Any]:
    if not entry.is_tensor:
        return {}
    placed = {"placements": entry.placements} if entry.placements else {}
    return {"dtype": entry.dtype, "shape": list(entry.shape), **placed}


def _entry_of(raw: dict[str, Any]) -> Entry:
    shape = tuple(_count(size) for size in raw.get("shape", ()))
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"a tensor of {len(shape)} dimensions")
    return Entry(str(raw.get("dtype", "")), shape, str(raw.get("placements", "")))


def _mesh_of(raw: dict[str, Any]) -> dict[str, Any]:
    return {"shape": [_count(size) for size in raw["shape"]], "names": [str(name) for name in raw["names"]]}


def _file(name: str, raw: dict[str, Any]) -> FileSum:
    size, blocks = _count(raw["size"]), bytes.fromhex(raw["xxh3_64_of_4MiB"])
    if not layout.is_plain(name) or len(blocks) != sums.count(size) * sums.WIDTH:
        raise ValueError(f"file {name!r} of {size} bytes with {len(blocks)} bytes of sums")
    return FileSum(size, blocks)


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _TOO_MANY:
        raise ValueError(f"{value!r} is no count")
    return value


def digest(data: bytes) -> str:
    """What tells this manifest from any other: the sum in its last line."""
    return sums.whole(data)


def block_sums(data: bytes) -> bytes:
    """The sums of the blocks of a file that is in memory."""
    view = memoryview(data)
    return b"".join(sums.digest(view[start:end]) for start, end in sums.spans(len(data)))
