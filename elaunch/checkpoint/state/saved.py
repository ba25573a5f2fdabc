"""What a checkpoint holds, told from the metadata of torch.distributed.checkpoint: no tensor is read for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from elaunch.errors import DamagedCheckpointError

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """One flattened key of a checkpoint. ``path`` is where it stood: strings are keys of dicts, integers of lists.

    ``size`` and ``dtype`` are the whole tensor's, over all ranks; None where a value was saved as bytes.
    """

    path: Path
    size: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None

    @property
    def is_tensor(self) -> bool:
        return self.size is not None


def saved_keys(metadata: Metadata) -> dict[str, Saved]:
    """What ``metadata`` lists, by flattened key. A key without a path of its own stands at the top."""
    paths: Mapping[str, Path] = metadata.planner_data or {}
    saved = {}
    for key, entry in metadata.state_dict_metadata.items():
        path = tuple(paths.get(key, (key,)))
        if isinstance(entry, TensorStorageMetadata):
            saved[key] = Saved(path, tuple(entry.size), entry.properties.dtype)
        else:
            saved[key] = Saved(path)
    return saved


def by_root(saved: Mapping[str, Saved]) -> dict[str, dict[str, Saved]]:
    """The same, by the first step of the path: by the name of the object, that is."""
    roots: dict[str, dict[str, Saved]] = {}
    for key, entry in saved.items():
        roots.setdefault(str(entry.path[0]), {})[key] = entry
    return roots


def said(path: Path) -> str:
    """A path for a person: ``'data.workers.0'``."""
    return repr(".".join(map(str, path)))


class _Node(dict[str | int, Any]):
    """A dict or list that is being put together; a class of its own, since a loaded value may be a dict too."""


def nested(items: Iterable[tuple[Path, Any]], default: Any = None) -> Any:
    """Put values back where their paths say. Whatever left no key behind is missing: an empty dict, above all.

    Args:
        items: paths relative to what is returned; an empty path is the value itself.
        default: what is returned if there is no item.

    Raises:
        DamagedCheckpointError: a value stands where others stand inside.
    """
    root = _Node()
    for path, value in items:
        if not path:
            return value
        node = root
        for step in path[:-1]:
            node = node.setdefault(step, _Node())
            if not isinstance(node, _Node):
                raise DamagedCheckpointError(
                    f"the checkpoint holds {said(path)}, and what it is in as a value of its own"
                )
        node[path[-1]] = value
    return _closed(root) if root else default


def _closed(node: Any) -> Any:
    if not isinstance(node, _Node):
        return node
    if all(place in node for place in range(len(node))):
        return [_closed(node[place]) for place in range(len(node))]
    return {step: _closed(value) for step, value in node.items()}  # of a list with gaps, too
