"""The memory that a save is copied into: the image of the rank's file, kept and used again for every save.

Training is blocked while the tensors are copied here, and for nothing else. The image is laid out once for a plan;
after that each save copies into the same places. Values that are no tensors are appended: their sizes change.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType

from elaunch.checkpoint.encoding.envelope import ALIGNMENT, Envelope, envelope
from elaunch.checkpoint.encoding.raw import bytes_of
from elaunch.checkpoint.records import index

# A forked child (a data loader's worker) needs none of it, and would have the next save copy every page first. It has
# the place of it, empty: with MADV_DONTFORK it would take away, by closing it, what has come to stand there since.
_WIPE_ON_FORK = 18  # MADV_WIPEONFORK of Linux, which Python's mmap has no name for


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one tensor stands in the image: the item from ``offset``, its bytes from ``data``."""

    item: WriteItem
    offset: int
    data: int
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Written:
    """Where an item stands in its file."""

    index: MetadataIndex
    offset: int
    length: int


@dataclass(slots=True)
class Image:
    """The image for one plan. ``close()`` gives the memory back."""

    plan: SavePlan
    slots: list[Slot] = field(init=False)
    tail: bytes = field(init=False, default=b"")
    written: list[Written] = field(init=False, default_factory=list)
    _memory: Memory = field(init=False)
    _targets: list[tuple[WriteItem, torch.Tensor]] = field(init=False)
    _places: list[Written] = field(init=False)
    _index: bytes = field(init=False)

    def __post_init__(self) -> None:
        tensors = [item for item in self.plan.items if item.type != WriteItemType.BYTE_IO]
        self.slots = list(_lay_out(tensors))
        end = self.slots[-1].offset + self.slots[-1].envelope.length if self.slots else 0
        self._memory = Memory(end)
        for slot in self.slots:
            self._memory.view[slot.offset : slot.data] = slot.envelope.head
            after = slot.data + slot.envelope.size
            self._memory.view[after : after + len(slot.envelope.tail)] = slot.envelope.tail
        # An empty tensor has no bytes to copy, and its place may be aligned to nothing.
        self._targets = [(slot.item, self._memory.tensor(slot)) for slot in self.slots if slot.envelope.size]
        self._places = [Written(slot.item.index, slot.offset, slot.envelope.length) for slot in self.slots]
        self._index = index.encode({slot.offset: slot.data for slot in self.slots})

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._memory.size + len(self.tail)

    def parts(self) -> Sequence[memoryview]:
        """The file, as it is to be written."""
        return [self._memory.view, memoryview(self.tail)]

    def fill(self, planner: SavePlanner) -> None:
        """Copy the state as it is now. ``planner`` resolves the items of the plan to tensors and bytes."""
        devices = set()
        for item, target in self._targets:
            source = planner.resolve_data(item).detach()
            target.copy_(source, non_blocking=True)
            if source.device.type != "cpu":
                devices.add(source.device)
        self._append(planner)
        for device in devices:  # each has a stream of its own, and none need be the current one
            torch.accelerator.synchronize(device)

    def _append(self, planner: SavePlanner) -> None:
        self.written = list(self._places)
        tail = bytearray()
        for item in self.plan.items:
            if item.type == WriteItemType.BYTE_IO:
                data = planner.resolve_data(item).getbuffer()
                self.written.append(Written(item.index, self._memory.size + len(tail), len(data)))
                tail += data
        self.tail = bytes(tail + self._index)

    def close(self) -> None:
        """Give the memory back."""
        self._targets.clear()
        self._memory.close()


class Memory:
    """Bytes that torch copies into and that files are written from; pinned where an accelerator copies into them."""

    def __init__(self, size: int) -> None:
        self.size = size
        pinned = torch.cuda.is_available() and torch.cuda.is_initialized()
        if pinned:
            self._bytes = torch.empty(size, dtype=torch.uint8, pin_memory=True)
            self.view = bytes_of(self._bytes)
            return
        self._map = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for advice in (getattr(mmap, "MADV_HUGEPAGE", 0), _WIPE_ON_FORK):
            with contextlib.suppress(OSError):  # an older kernel: it is slower, or takes more memory
                self._map.madvise(advice)
        self.view = memoryview(self._map)[:size]
        self._bytes = torch.frombuffer(self._map, dtype=torch.uint8)

    def tensor(self, slot: Slot) -> torch.Tensor:
        """The tensor that stands in this place."""
        data = slot.item.tensor_data
        return (
            self._bytes[slot.data : slot.data + slot.envelope.size].view(data.properties.dtype).view(data.chunk.sizes)
        )

    def close(self) -> None:
        """Let go of it; the memory is gone when no tensor looks at it any more."""
        del self._bytes
        self.view.release()


def _lay_out(items: Sequence[WriteItem]) -> Iterator[Slot]:
    end = 0
    for item in items:
        data = item.tensor_data
        wrapped = envelope(data.properties.dtype, tuple(data.chunk.sizes))
        offset = -(-end // ALIGNMENT) * ALIGNMENT
        end = offset + wrapped.length
        yield Slot(item, offset, offset + len(wrapped.head), wrapped)
