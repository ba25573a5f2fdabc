"""Read a pickle without running anything that it names, in time and memory that its own length bounds.

A pickle is a program for a machine with a stack. This is that machine with the instructions left out that could reach
further than the file: what a pickle names is looked up in a table of stand-ins, of which ``Record`` keeps what it is
given and ``Call`` makes one harmless value. Python's own machine written in C is not used: three bytes make it take
gigabytes, and a key of tuples within tuples, each twice in the next, takes it forever.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

_Python: Any = pickle._Unpickler
_INSTRUCTIONS = (
    "PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT "
    "BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 SHORT_BINSTRING "
    "EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS EMPTY_SET ADDITEMS "
    "FROZENSET BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE NEWOBJ BUILD BINPERSID"
)
_SCALARS = (str, int, float, bool, bytes, complex, type(None), torch.dtype, torch.device)
_LARGEST_KEY = 64  # scalars in a key that is a tuple
_MADE_BY_CALLS = 4  # bytes for each byte of the pickle: bytes may be made of a string, and a bytearray of those
_DEEPEST = 500  # a state may have 100 levels, and what describes it (tree.py) three for each of them


@dataclass(frozen=True, slots=True)
class Call:
    """Stands for a function or class that a pickle may call: ``make`` checks what it is called with."""

    make: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """Stands for a class of which a pickle may make objects; they become records."""

    name: str


class Record:
    """Stands for an object: of which kind it is, and the state that it is to have, as it was found."""

    __slots__ = ("kind", "state")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.state: Any = None

    def get(self, name: str, default: Any = None) -> Any:
        """One attribute. Raises TypeError where the state is no dict."""
        if type(self.state) is not dict:
            raise TypeError(f"a {self.kind} without attributes")
        return self.state.get(name, default)


class _Instructions(dict[int, Any]):
    def __missing__(self, code: int) -> Any:
        raise pickle.UnpicklingError(f"the instruction {code:#04x} has no place in a checkpoint")


class Machine(_Python):  # type: ignore[misc]
    """Reads one pickle. ``names`` are what it may name, by (module, name)."""

    dispatch: ClassVar[dict[int, Any]] = _Instructions(
        (getattr(pickle, name)[0], _Python.dispatch[getattr(pickle, name)[0]]) for name in _INSTRUCTIONS.split()
    )

    def __init__(self, data: bytes, names: Mapping[tuple[str, str], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._names = names
        self._left = _MADE_BY_CALLS * len(data) + 1024

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a name."""
        module = "builtins" if module == "__builtin__" else module
        try:
            return self._names[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint") from None

    def load_reduce(self) -> None:
        arguments = self.stack.pop()
        called = self.stack[-1]
        if type(called) is not Call or type(arguments) is not tuple:
            raise pickle.UnpicklingError(f"calls a {type(called).__name__}")
        made = called.make(*arguments)
        self._left -= len(made) if isinstance(made, bytes | bytearray | set | tuple) else 1
        if self._left < 0:
            raise pickle.UnpicklingError("makes more than it holds")
        self.stack[-1] = made

    def load_newobj(self) -> None:
        arguments, kind = self.stack.pop(), self.stack.pop()
        if type(kind) is not Kind or arguments != ():
            raise pickle.UnpicklingError(f"makes an object of a {type(kind).__name__}")
        self.stack.append(Record(kind.name))

    def load_build(self) -> None:
        state = self.stack.pop()
        built = self.stack[-1]
        if type(built) is Record:
            built.state = state
        elif not isinstance(built, OrderedDict):  # whose attributes are nobody's state
            raise pickle.UnpicklingError(f"sets the state of a {type(built).__name__}")

    def load_append(self) -> None:
        item = self.stack.pop()
        _typed(self.stack[-1], list).append(item)

    def load_appends(self) -> None:
        items = self.pop_mark()
        _typed(self.stack[-1], list).extend(items)

    def load_setitem(self) -> None:
        item, key = self.stack.pop(), self.stack.pop()
        _typed(self.stack[-1], dict)[_key(key)] = item

    def load_setitems(self) -> None:
        items = self.pop_mark()
        into = _typed(self.stack[-1], dict)
        for at in range(0, len(items), 2):
            into[_key(items[at])] = items[at + 1]

    def load_additems(self) -> None:
        items = self.pop_mark()
        _typed(self.stack[-1], set).update(map(_key, items))

    def load_frozenset(self) -> None:
        items = self.pop_mark()
        self.append(frozenset(map(_key, items)))

    for _method in (
        *(load_reduce, load_newobj, load_build, load_append, load_appends),
        *(load_setitem, load_setitems, load_additems, load_frozenset),
    ):
        dispatch[getattr(pickle, _method.__name__.removeprefix("load_").upper())[0]] = _method


def check_size(value: Any, most: int) -> None:
    """Raises ValueError for a value of more than ``most`` parts, each counted as often as it is met, or too deep.

    A pickle can put one list in many places: in memory it is small, and whoever walks through it never ends.
    """
    left = most
    level = [value]
    for _ in range(_DEEPEST):
        left -= len(level)
        if left < 0:
            raise ValueError("a value that holds itself many times over")
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.keys())
                inner.extend(one.values())
            elif isinstance(one, list | tuple | set | frozenset):
                inner.extend(one)
            if len(inner) > left:
                raise ValueError("a value that holds itself many times over")
        if not inner:
            return
        level = inner
    raise ValueError(f"a value nested over {_DEEPEST} levels deep")


def make_set(items: Any = ()) -> set[Any]:
    """A set, of what may be in one."""
    return set(map(_key, _typed(items, list)))


def _key(key: Any) -> Any:
    """What may be a key: hashing it must come to an end."""
    waiting, parts = [key], 0
    while waiting:
        one = waiting.pop()
        parts += 1
        if type(one) in (tuple, torch.Size) and parts + len(waiting) + len(one) <= _LARGEST_KEY:
            waiting.extend(one)
        elif type(one) not in _SCALARS and type(one) is not Record:
            raise pickle.UnpicklingError(f"a key that is a {type(one).__name__}, or holds too much")
    return key


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise pickle.UnpicklingError(f"a {type(value).__name__} in place of a {kind.__name__}")
    return value
