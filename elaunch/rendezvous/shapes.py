"""Records out of JSON, by the types that their fields are declared with: what does not fit is told, never guessed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_KINDS: dict[Any, type | tuple[type, ...]] = {str: str, float: (int, float), int: (int, float)}


def built(kind: type, data: Any) -> Any:
    """A ``kind``, which is a dataclass, with the members of ``data``; those that it does not know are left out.

    Raises ValueError, which names the member that does not fit.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{_short(data)} is no object")
    hints, needed = _members(kind)
    if missing := needed - data.keys():
        raise ValueError(f"it has no {min(missing)!r}")
    return kind(**{name: _shaped(hints[name], value, name) for name, value in data.items() if name in hints})


@lru_cache(maxsize=256)
def _members(kind: type) -> tuple[Mapping[str, Any], frozenset[str]]:
    hints = get_type_hints(kind)
    fields = [f for f in dataclasses.fields(kind) if f.init]
    unset = (dataclasses.MISSING, dataclasses.MISSING)
    needed = frozenset(f.name for f in fields if (f.default, f.default_factory) == unset)
    return {f.name: hints[f.name] for f in fields}, needed


def _shaped(hint: Any, value: Any, name: str) -> Any:
    """``value`` as ``hint`` says. JSON does not tell 30 from 30.0, and has lists only."""
    if hint is Any:
        return value
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None and NoneType in parts else _shaped(parts[0], value, name)
    if origin is tuple and isinstance(value, list):
        return tuple(_shaped(parts[0], one, name) for one in value)
    if origin in (dict, Mapping) and isinstance(value, dict):
        return {key: _shaped(parts[1], one, f"{name}[{key!r}]") for key, one in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _nested(hint, value, name)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _named(hint, value, name)
    fits = isinstance(value, bool) if hint is bool else isinstance(value, _KINDS.get(hint, ()))
    if not fits or (hint is not bool and isinstance(value, bool)) or (hint is int and value != value // 1):
        raise ValueError(f"{name}={_short(value)} is no {getattr(hint, '__name__', hint)}")
    return int(value) if hint is int else value


def _nested(kind: type, value: Any, name: str) -> Any:
    try:
        return built(kind, value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _named(kind: type[Enum], value: Any, name: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{name}={_short(value)} is none of {', '.join(str(one.value) for one in kind)}") from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
