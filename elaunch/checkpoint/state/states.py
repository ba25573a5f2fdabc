"""The program's objects as one state dict for torch.distributed.checkpoint, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from torch import nn
from torch.optim import Optimizer

from elaunch.checkpoint.state.buffers import BuffersPart, buffers_of
from elaunch.checkpoint.state.modules import ModulePart
from elaunch.checkpoint.state.optimizers import OptimizerPart
from elaunch.checkpoint.state.per_rank import PerRank, PerRankPart, root_of
from elaunch.checkpoint.state.rng import RNG
from elaunch.checkpoint.state.sampler import ElasticSampler
from elaunch.checkpoint.state.saved import Saved, by_root
from elaunch.checkpoint.state.shared import SharedPart
from elaunch.checkpoint.storages.failures import line
from elaunch.errors import StateError

Roots = Mapping[str, dict[str, Saved]]
_T = TypeVar("_T")


class Part(Protocol):
    """One object's share. ``value`` is the object, or the plain value that was restored in its place."""

    name: str
    value: Any

    def collect(self) -> dict[str, Any]: ...
    def shared_values(self) -> dict[str, bytes]: ...
    def is_in(self, roots: Roots) -> bool: ...
    def targets(self, roots: Roots, saved_world: int) -> dict[str, Any]: ...
    def adopt(self, loaded: Mapping[str, Any], saved_world: int) -> None: ...


class States:
    """``objects`` by their names: modules, optimizers, anything with ``state_dict`` and ``load_state_dict``, dicts,
    lists, sets, tensors, generators, plain values, and ``PerRank`` of any of them. ``RNG`` and torchdata's loaders are
    per rank by themselves.

    The order of calls is ``collect``, or ``targets`` and then ``adopt``. None of them does any I/O or communicates.
    """

    def __init__(
        self, objects: Mapping[str, object], *, rank: int, world: int, optional: frozenset[str] = frozenset()
    ) -> None:
        _check_names(objects)
        self._parts = [_part(name, held, objects, rank, world) for name, held in objects.items()]
        modules = [part for part in self._parts if isinstance(part, ModulePart)]
        self._buffers = [BuffersPart(part.name, part.value, rank, world) for part in modules]
        self._optional = optional
        self._saved_world = world
        self._found: list[Part] = []

    def collect(self) -> dict[str, Any]:
        """The state to save: the live tensors, not copies.

        Raises:
            StateError: something in it cannot be stored.
        """
        made: dict[str, Any] = {}
        for part in (*self._parts, *self._buffers):
            made.update(_taken(part, part.collect))
        return made

    def of_lowest(self) -> frozenset[str]:
        """The keys of which the lowest rank's value is to be stored, for ranks may differ in them: buffers'."""
        modules = (part for part in self._parts if isinstance(part, ModulePart))
        return frozenset(f"{part.name}.{name}" for part in modules for name in buffers_of(part.value))

    def shared_values(self) -> dict[str, bytes]:
        """Digests of what is stored once, and so must be equal on all ranks: compare them with ``digest.differing``."""
        return {name: value for part in self._parts for name, value in _taken(part, part.shared_values).items()}

    def targets(self, saved: Mapping[str, Saved], saved_world: int, *, partial: bool = False) -> dict[str, Any]:
        """What is to be loaded, by flattened key: memory for tensors, None for what else there is.

        Args:
            saved: what the checkpoint holds, of ``saved_keys``.
            saved_world: the number of ranks that saved it.
            partial: leave objects alone that the checkpoint does not know.

        Raises:
            StateError: the checkpoint does not fit the objects.
        """
        roots = by_root(saved)
        self._saved_world = saved_world
        self._found = [part for part in self._parts if part.is_in(roots)]
        for part in self._parts:
            if part not in self._found and not partial and part.name not in self._optional:
                raise StateError(_missing(part, roots))
        self._found += [part for part in self._buffers if part.is_in(roots)]
        return {key: target for part in self._found for key, target in part.targets(roots, saved_world).items()}

    def adopt(self, loaded: Mapping[str, Any]) -> None:
        """Put into the objects what was loaded: ``targets``, filled. Random number generators come last."""
        for part in sorted(self._found, key=lambda part: isinstance(part.value, RNG)):
            part.adopt(loaded, self._saved_world)
        for buffers in self._buffers:
            buffers.settle()

    def differs_because(self, name: str) -> str:
        """How a state came to differ between ranks, and what to do, where its object can tell."""
        held = next((part.value for part in self._parts if part.name == name), None)
        return held.differs_because if isinstance(held, ElasticSampler) else ""

    @property
    def values(self) -> dict[str, Any]:
        """The objects by name. Plain values, which nothing can be put into, are those that were restored."""
        return {part.name: part.value for part in self._parts}


def _part(name: str, held: object, objects: Mapping[str, object], rank: int, world: int) -> Part:
    if isinstance(held, PerRank):
        return PerRankPart(name, held, rank, world)
    if getattr(type(held), "per_rank", False) or _of_torchdata(held):
        return PerRankPart(name, PerRank(held), rank, world)
    if isinstance(held, nn.Module):
        return ModulePart(name, held)
    if isinstance(held, Optimizer):
        return OptimizerPart(name, held, objects)
    return SharedPart(name, held)


def _taken(part: Part, take: Callable[[], _T]) -> _T:
    """What code of the program gives; whatever it raises, the other ranks must be told which state it was."""
    try:
        return take()
    except StateError:
        raise
    except Exception as error:
        raise StateError(f"state {part.name!r} cannot be saved: {line(error)}") from error


def _of_torchdata(held: object) -> bool:
    """Its loaders tell how far this rank is in its share of the data."""
    return any(kind.__module__.partition(".")[0] == "torchdata" for kind in type(held).__mro__)


def _check_names(objects: Mapping[str, object]) -> None:
    """No key of one object's can be one of another's: "a": {"b.c": 1} next to "a.b": {"c": 2} could."""
    for name in objects:
        if name.partition(".")[0] == "elaunch":
            raise StateError(f"the name {name!r} is taken by elaunch itself; use another one")
        outer = next((other for other in objects if name.startswith(f"{other}.")), None)
        if outer is not None:
            raise StateError(f"the names {outer!r} and {name!r} may stand for the same keys; rename one")


def _missing(part: Part, roots: Roots) -> str:
    if isinstance(part, PerRankPart) and part.name in roots:
        return f"state {part.name!r} is declared PerRank, and was saved once for all ranks"
    if not isinstance(part, PerRankPart) and root_of(part.name, 0) in roots:
        return f"state {part.name!r} was saved per rank; declare it: PerRank({part.name})"
    held = sorted(root for root in roots if not root.startswith("elaunch."))
    return (
        f"the checkpoint holds no state {part.name!r}; it holds {', '.join(map(repr, held)) or 'none'}; give the state "
        "the names that it was saved with, or fill what it holds with load(..., partial=True)"
    )
