"""A function and its arguments as bytes for the ranks of this very program: lambdas, closures and notebooks' as well.

What can be imported goes by its name. Another function goes as its code, with what that refers to; both ends run the
same Python, and the bytes go over a socket of this user's own (``serving.py``), never over a network or from a file.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import marshal
import os
import pickle
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from elaunch.errors import UsageError
from elaunch.worker.handed import fill, make

_MAIN = "__main__"
_REFUSED = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError)


def packed(function: Callable[..., Any], args: Sequence[Any]) -> bytes:
    """The call as bytes. Raises UsageError that names what cannot be handed to another process.

    A function of the main file goes as its code, for what stands under ``if __name__ == "__main__"`` is not imported
    again; by its name only where what it refers to cannot be handed over.
    """
    try:
        return _dumped(function, args, main_by_value=True)
    except _REFUSED as error:
        with contextlib.suppress(*_REFUSED):
            return _dumped(function, args, main_by_value=False)
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(f"launch: {name} or one of its arguments cannot be handed to the ranks: {error}") from error


def _dumped(function: Callable[..., Any], args: Sequence[Any], *, main_by_value: bool) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, main_by_value).dump((function, tuple(args)))
    return stream.getvalue()


def preparation(call: bytes) -> dict[str, Any]:
    """What a rank takes over from this process before it unpacks ``call``: as multiprocessing does with spawn."""
    data: dict[str, Any] = {"sys_path": list(sys.path), "sys_argv": list(sys.argv), "dir": os.getcwd()}
    if _MAIN.encode() not in call:
        return data  # nothing of this program's own file is needed
    main = sys.modules[_MAIN]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    path = _main_file()
    if name is not None:
        data["init_main_from_name"] = name
    elif path is not None:
        data["init_main_from_path"] = os.path.abspath(path)
    return data


def _main_file() -> str | None:
    path = getattr(sys.modules[_MAIN], "__file__", None)
    return path if path is not None and os.path.isfile(path) else None


def _nameless_main() -> bool:
    """Whether nothing else can import what ``__main__`` is: a notebook, a prompt, ``python -c``."""
    return getattr(sys.modules[_MAIN], "__spec__", None) is None and _main_file() is None


def _nameless(module: str | None) -> bool:
    return module not in sys.modules or (module == _MAIN and _nameless_main())


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, main_by_value: bool) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self._main_by_value = main_by_value
        self._globals: dict[str, Any] = {}  # what functions of a notebook share, on the other side too

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, types.FunctionType):
            named = _importable(thing) and not (self._main_by_value and thing.__module__ == _MAIN)
            return NotImplemented if named else self._by_value(thing)
        if isinstance(thing, types.ModuleType):
            return importlib.import_module, (thing.__name__,)
        if isinstance(thing, type) and thing.__module__ == _MAIN and _nameless_main():
            raise pickle.PicklingError(f"class {thing.__qualname__} is a notebook's; put it into a module")
        return NotImplemented

    def _by_value(self, function: types.FunctionType) -> Any:
        code = function.__code__
        nameless = function.__module__ == _MAIN or _nameless(function.__module__)  # what main() has set is not imported
        used = _names(code) & function.__globals__.keys() if nameless else set()
        args = (
            marshal.dumps(code),
            None if nameless else function.__module__,
            self._globals,
            function.__name__,
            len(function.__closure__ or ()),
        )
        state = {
            "globals": {name: function.__globals__[name] for name in sorted(used)},
            "cells": [_content(cell) for cell in function.__closure__ or ()],
            "defaults": function.__defaults__,
            "kwdefaults": function.__kwdefaults__,
            "qualname": function.__qualname__,
            "dict": function.__dict__,
        }
        return make, args, state, None, None, fill


def _importable(function: types.FunctionType) -> bool:
    """Whether its name leads to it, here and in a process that has the same modules."""
    if _nameless(function.__module__):
        return False
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _names(code: types.CodeType) -> set[str]:
    """The names that it may look up among its globals, those of functions inside of it included."""
    inner = [_names(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*inner)


def _content(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()  # nothing in it yet
