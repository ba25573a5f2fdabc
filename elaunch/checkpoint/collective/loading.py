"""Fill a program's objects from one checkpoint: each rank reads its part, and if all could, the objects take it.

Modules are read right into their parameters, for no model is held twice: they are half filled where a rank could not. A
rank that cannot says so in its round, whatever went wrong, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch.distributed.checkpoint import DefaultLoadPlanner, Metadata

from elaunch.checkpoint.collective.agreeing import agree
from elaunch.checkpoint.collective.ranks import Ranks
from elaunch.checkpoint.encoding import unpickling
from elaunch.checkpoint.encoding.archive import load_value
from elaunch.checkpoint.encoding.plausible import check_metadata
from elaunch.checkpoint.encoding.reading import BlockReader
from elaunch.checkpoint.records import manifest
from elaunch.checkpoint.records.manifest import FileSum, Manifest
from elaunch.checkpoint.state.saved import Saved, saved_keys
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.failures import line
from elaunch.checkpoint.storages.storage import Storage
from elaunch.errors import CheckpointError, DamagedCheckpointError


class Objects(Protocol):
    """What is filled: states.States."""

    def targets(self, saved: Mapping[str, Saved], saved_world: int, *, partial: bool = False) -> dict[str, Any]:
        """A state dict of what the checkpoint has, with tensors to be filled."""

    def adopt(self, loaded: dict[str, Any]) -> None:
        """Put what was loaded into the program's objects."""


@dataclass(frozen=True, slots=True)
class Contents:
    """One checkpoint of a directory. ``files`` are the sums of its manifest, None where another program wrote it."""

    storage: Storage
    name: str
    metadata: Metadata
    files: Mapping[str, FileSum] | None
    world: int


class LoadPlanner(DefaultLoadPlanner):  # type: ignore[misc]
    """DCP's for a flat state, but for values that are no tensors: they are read without running what they may hold."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False)

    def load_bytes(self, read_item: Any, value: Any) -> None:
        key = read_item.dest_index.fqn
        self.state_dict[key] = self.original_state_dict[key] = load_value(value.getbuffer(), key)


def load(
    contents: Contents,
    objects: Objects,
    rank: int,
    *,
    verify: bool,
    partial: bool = False,
    advance: Callable[[int, int], None] = lambda done, whole: None,
) -> dict[str, Any]:
    """What the objects are to adopt; their tensors are filled already. Raises CheckpointError and OSError.

    ``advance`` is told how many bytes are read by now, and of how many.
    """
    try:
        targets = objects.targets(saved_keys(contents.metadata), contents.world, partial=partial)
        planner = LoadPlanner()
        planner.set_up_planner(targets, contents.metadata, is_coordinator=rank == 0)
        reader = BlockReader(contents.storage, contents.name, contents.metadata, contents.files, verify, advance)
        reader.read_data(planner.finish_plan(planner.create_local_plan()), planner)
    except (CheckpointError, OSError):
        raise
    except Exception as error:
        raise CheckpointError(f"{contents.name}: cannot be loaded ({line(error)})") from error
    return targets


def adopt(objects: Objects, loaded: dict[str, Any], name: str, ranks: Ranks) -> None:
    """Put what was loaded into the objects. Collective. Raises CheckpointError on all ranks where one cannot."""
    agree(ranks, lambda: objects.adopt(loaded), f"{name}: an object does not take its state")


def read_metadata(data: bytes, known: Manifest, name: str) -> Metadata:
    """DCP's metadata of a checkpoint, checked against its manifest. Raises DamagedCheckpointError."""
    where = f"{name}/{layout.METADATA}"
    told = known.files.get(layout.METADATA)
    if told is None or told.size != len(data) or told.blocks != manifest.block_sums(data):
        raise DamagedCheckpointError(f"{where}: damaged: its sum does not fit")
    metadata = unpickling.load_metadata(data, where)
    check_metadata(metadata, {file: one.size for file, one in known.files.items()}, where)
    return metadata
