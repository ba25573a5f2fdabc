"""States as trees: what torch.distributed.checkpoint makes of a nested state, and what it takes to undo it exactly.

It flattens dicts, and lists that hold tensors or dicts, to one key per leaf. On the way it turns every key of a dict
into a string (a MultiStepLR's milestones then never come), and forgets empty dicts, and the classes of dicts. So each
state is stored the way stock code stores it, next to its *shape*, which tells what it was:

``""`` for what comes back by itself, the kind of a value (see values.py), or the kind of a container with the shapes of
its children. Shapes are made of tuples, strings and keys, which ``weights_only`` reads.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch

from elaunch.checkpoint.state.saved import Path, said
from elaunch.checkpoint.state.values import member, original, simple
from elaunch.errors import DamagedCheckpointError, StateError

Shape = Any  # "" | str | (str, ((key, Shape), ...)) | (str, (Shape, ...)): mypy has no recursive types with tuples here
_DICTS: dict[type, str] = {dict: "dict", defaultdict: "dict", OrderedDict: "OrderedDict", Counter: "Counter"}
_MAKE: dict[str, Callable[..., Any]] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
_GONE = object()
_DEEPEST = 100  # levels; deeper is a state that holds itself


def encode(value: Any, path: Path, *, ordered: bool = True) -> tuple[Any, Shape]:
    """The form of ``value`` that is stored, and its shape. Tensors are not copied.

    Args:
        path: where it stands, for errors.
        ordered: keep the order of plain dicts too. Without it a state of thousands of tensors needs no shape.

    Raises:
        StateError: something in it cannot be stored; says what and where.
    """
    if len(path) > _DEEPEST:
        raise StateError(f"state {said(path[:3])} is nested over {_DEEPEST} levels deep: does it hold itself?")
    if isinstance(value, torch.Tensor):
        return stored_tensor(value, path), ""
    if type(value) in _DICTS:
        return _encode_dict(value, path, ordered)
    if type(value) in (list, tuple):
        return _encode_list(value, path, ordered)
    return simple(value, path)


def decode(stored: Any, shape: Shape) -> Any:
    """What was given to :func:`encode`; ``stored`` may lack what flattening forgets.

    Raises:
        DamagedCheckpointError: it lacks more than that, or the shape is none.
    """
    try:
        return _decode(stored, shape)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedCheckpointError(f"a state in the checkpoint is not of the shape it tells of ({error})") from error


def _decode(stored: Any, shape: Shape) -> Any:
    if isinstance(shape, str):
        if stored is _GONE:
            raise DamagedCheckpointError("the checkpoint lacks a part of a state that it says it has")
        return original(stored, shape)
    kind, children = shape
    if kind in _MAKE:
        found = stored if isinstance(stored, Mapping) else {}
        return _MAKE[kind]({key: _decode(found.get(str(key), _GONE), child) for key, child in children})
    places = (
        stored if isinstance(stored, Mapping) else dict(enumerate(stored if isinstance(stored, list | tuple) else ()))
    )
    items = [_decode(places.get(place, _GONE), child) for place, child in enumerate(children)]
    return tuple(items) if kind == "tuple" else items


def alike(stored: Any, current: Any) -> Any:
    """A state without a saved shape, since stock code wrote it, with the keys and classes of what is there now."""
    if type(current) in _DICTS and isinstance(stored, Mapping | None):
        return _alike_dict(stored or {}, current)
    if isinstance(current, list) and isinstance(stored, list) and len(current) == len(stored):
        return [alike(item, model) for item, model in zip(stored, current, strict=True)]
    return stored


def stored_tensor(value: Any, path: Path) -> Any:
    """The tensor itself, without its history.

    Raises:
        StateError: torch.distributed.checkpoint cannot store tensors of this layout or device.
    """
    if value.layout is not torch.strided or value.is_quantized:
        what = "quantized" if value.is_quantized else f"of layout {value.layout}"
        raise StateError(f"state {said(path)} is a tensor {what}, which cannot be stored in shards; store a dense one")
    if value.device.type == "meta":
        raise StateError(f"state {said(path)} is a tensor on the meta device; give it memory (to_empty) first")
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    return value.detach() if value.requires_grad else value


def _encode_dict(value: Mapping[Any, Any], path: Path, ordered: bool) -> tuple[Any, Shape]:
    stored: dict[str, Any] = {}
    children = []
    for key, item in value.items():
        kept = key if type(key) is str else member(key, path)
        if str(kept) in stored:
            raise StateError(f"state {said(path)} has two keys that are both written {str(kept)!r}; rename one")
        stored[str(kept)], shape = encode(item, (*path, str(kept)), ordered=ordered)
        children.append((kept, shape))
    kind = _DICTS[type(value)]
    if not ordered and kind == "dict" and children and all(type(key) is str and child == "" for key, child in children):
        return stored, ""
    return stored, (kind, tuple(children))


def _encode_list(value: list[Any] | tuple[Any, ...], path: Path, ordered: bool) -> tuple[Any, Shape]:
    pairs = [encode(item, (*path, place), ordered=ordered) for place, item in enumerate(value)]
    items, shapes = [item for item, _ in pairs], tuple(shape for _, shape in pairs)
    kind = type(value).__name__
    if kind == "tuple" and any(isinstance(item, torch.Tensor | dict | list) for item in items):
        return items, (kind, shapes)  # stock code pickles a tuple whole, its tensors too
    stored = items if kind == "list" else tuple(items)
    return (stored, "") if not any(shapes) else (stored, (kind, shapes))


def _alike_dict(stored: Mapping[str, Any], current: Mapping[Any, Any]) -> Any:
    named = {str(key): key for key in current}
    numbered = bool(current) and all(type(key) is int for key in current)
    made = {}
    for key, item in stored.items():
        known = named.get(key, int(key) if numbered and key.lstrip("-").isdigit() else key)
        made[known] = alike(item, current.get(known))
    for key, item in current.items():
        if key not in made and type(item) in _DICTS and not item:
            made[key] = type(item)()
    return _MAKE[_DICTS[type(current)]](made)
