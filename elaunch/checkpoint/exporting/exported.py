"""The states of a checkpoint as the program had them, with places held for the tensors, whose bytes come later.

Numpy arrays come as tensors, frozensets as sets: what is exported is read by torch.load with ``weights_only``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from elaunch.checkpoint.records.contents import per_rank_of, shape_of
from elaunch.checkpoint.state.saved import Saved, by_root, nested
from elaunch.checkpoint.state.tree import Shape, decode
from elaunch.errors import DamagedCheckpointError, NoCheckpointError

Leaf = Callable[[str, Saved], Any]


def states(saved: Mapping[str, Saved], leaf: Leaf, only: str = "") -> Any:
    """Every state by its name, one that is per rank as a list; with ``only`` the one of that name, by itself.

    ``leaf`` gives the value, or what holds its place, for a key. Raises NoCheckpointError where there is no such state,
    DamagedCheckpointError where the parts do not make a whole.
    """
    roots = by_root(saved)
    whole = {root: entries for root, entries in roots.items() if not root.startswith("elaunch.")}
    shapes = {name: entries for root, entries in roots.items() if (name := shape_of(root))}
    ranks: dict[str, dict[int, dict[str, Saved]]] = {}
    for root, entries in roots.items():
        if (found := per_rank_of(root)) is not None:
            ranks.setdefault(found[0], {})[found[1]] = entries
    names = list(dict.fromkeys((*whole, *shapes, *ranks)))
    if only and only not in names:
        raise NoCheckpointError(f"the checkpoint holds no state {only!r}; it holds {', '.join(map(repr, names))}")
    made = {}
    for name in [only] if only else names:
        try:
            if name in ranks:
                made[name] = [_of_rank(ranks[name][rank], leaf) for rank in sorted(ranks[name])]
            else:
                made[name] = _shared(whole.get(name, {}), shapes.get(name, {}), leaf)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise DamagedCheckpointError(f"state {name!r} does not hold together ({error!r})") from error
    return made[only] if only else made


def keys_of(saved: Mapping[str, Saved], only: str) -> dict[str, str]:
    """Key of a tensor in the checkpoint -> its name in a flat file: the path, without ``only`` where one is given."""
    return {
        key: ".".join(map(str, one.path[1 if only else 0 :])) or key
        for key, one in saved.items()
        if one.is_tensor and not str(one.path[0]).startswith("elaunch.") and only in ("", str(one.path[0]))
    }


def _shared(entries: Mapping[str, Saved], shapes: Mapping[str, Saved], leaf: Leaf) -> Any:
    stored = nested(((one.path[1:], leaf(key, one)) for key, one in entries.items()), {} if shapes else None)
    for key, one in shapes.items():
        (told,) = leaf(key, one)
        if isinstance(told, dict):  # of a module: of each value that is no tensor
            return {**stored, **{key: decode(stored.get(key), _plain(shape)) for key, shape in told.items()}}
        if isinstance(told, tuple) and told and (told[0] == "" or isinstance(told[0], tuple)):
            told = told[0]  # of an optimizer: beside it stand notes for itself
        return decode(stored, _plain(told))
    return stored


def _of_rank(entries: Mapping[str, Saved], leaf: Leaf) -> Any:
    packed = nested((one.path[1:], leaf(key, one)) for key, one in entries.items())
    shape, stored, places = packed["value"]
    for place, tensor in zip(places, packed.get("tensors", ()), strict=True):
        if not place:
            stored = tensor
            break
        holder = stored
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = tensor
    return decode(stored, _plain(shape))


def _plain(shape: Shape) -> Shape:
    """Without the kinds of single values: those are exported as they are stored."""
    if isinstance(shape, str):
        return ""
    kind, children = shape
    if kind in ("list", "tuple"):
        return kind, tuple(_plain(child) for child in children)
    return kind, tuple((key, _plain(child)) for key, child in children)
