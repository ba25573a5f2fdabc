"""Whether a module can be found, by looking for its files: nothing of the user's is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

# A package whose own code says one of these may have submodules that no file shows.
_MAKES_MODULES = ("__path__", "sys.modules", "meta_path", "extend_path")


def missing_module(name: str, environ: Mapping[str, str], *, run: bool) -> str:
    """The part of ``name`` that a rank could surely not import; empty where it could, or where files do not tell.

    With ``run`` it is to be run as with ``python -m``: the working directory is looked in, and a package needs a
    ``__main__``. Otherwise it is only to be imported.
    """
    if sys.flags.isolated or sys.flags.ignore_environment or sys.flags.no_site:
        return ""  # ranks see more than this interpreter does
    safe = hasattr(sys.flags, "safe_path") and bool(environ.get("PYTHONSAFEPATH"))  # Python 3.11 and later
    with _path_of_ranks(first=run and not safe):
        try:
            return _missing(name, run=run)
        except KeyError:  # a folder without __init__.py in a package: only what is imported can be looked through
            return ""


def _missing(name: str, *, run: bool) -> str:
    parts = name.split(".")
    where: Sequence[str] | None = None
    for end in range(1, len(parts) + 1):
        known = ".".join(parts[:end])
        spec = _find(known, where)
        if spec is None:
            return known
        where = spec.submodule_search_locations
        if _unknowable(spec):
            return ""
        if where is None:
            return "" if end == len(parts) else ".".join(parts[: end + 1])
    return name + ".__main__" if run and _find(name + ".__main__", where) is None else ""


def _find(name: str, where: Sequence[str] | None) -> ModuleSpec | None:
    """As the import system looks for it, but without importing its parent."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find(name, where, None) if find is not None else None
        if spec is not None:
            return spec
    return None


def _unknowable(spec: ModuleSpec) -> bool:
    """Whether what the module does when it is imported may make other modules."""
    if not spec.has_location or spec.origin is None:
        return False  # built in, or a folder without code
    if not spec.origin.endswith(".py"):
        return True
    try:
        text = Path(spec.origin).read_text(errors="replace")
    except OSError:
        return True
    return any(word in text for word in _MAKES_MODULES)


@contextmanager
def _path_of_ranks(*, first: bool) -> Iterator[None]:
    """sys.path as a rank has it: without the folder of this command, with the working directory where ``first``."""
    before = list(sys.path)
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[:1]
    if first:
        sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = before
