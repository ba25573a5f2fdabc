"""Functions that were handed over as their code, made anew: see ``elaunch/api/functions.py``."""

from __future__ import annotations

import builtins
import importlib
import marshal
import types
from typing import Any


def make(code: bytes, module: str | None, shared: dict[str, Any], name: str, cells: int) -> types.FunctionType:
    """The function, still empty. Its globals are those of ``module``, else ``shared``."""
    if module is None:
        shared.setdefault("__builtins__", builtins)
        shared.setdefault("__name__", "__main__")
        namespace = shared
    else:
        namespace = vars(importlib.import_module(module))
    closure = tuple(types.CellType() for _ in range(cells)) or None
    return types.FunctionType(marshal.loads(code), namespace, name, None, closure)


def fill(function: types.FunctionType, state: dict[str, Any]) -> None:
    """What it refers to, which may be the function itself."""
    function.__globals__.update(state["globals"])
    for cell, content in zip(function.__closure__ or (), state["cells"], strict=True):
        if content:
            cell.cell_contents = content[0]
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["kwdefaults"]
    function.__qualname__ = state["qualname"]
    function.__dict__.update(state["dict"])
