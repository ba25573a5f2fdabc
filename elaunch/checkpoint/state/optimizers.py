"""The state of optimizers, by the names of the parameters.

Keys are those of ``torch.distributed.checkpoint.state_dict.get_optimizer_state_dict``, so that stock code reads what
stands here, and what stock code wrote is read here, its flattened form included. Stock code takes a step with gradients
of zero to learn what to load. Here memory is made for what the checkpoint holds: the optimizer need not have stepped,
nor each parameter have a state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate

from elaunch.checkpoint.state.digest import digest
from elaunch.checkpoint.state.modules import is_sharded, listed
from elaunch.checkpoint.state.owners import Names
from elaunch.checkpoint.state.param_groups import flattened, matched
from elaunch.checkpoint.state.saved import Path, Saved, nested
from elaunch.checkpoint.state.shared import saved_shape, shape_entry, shape_root
from elaunch.checkpoint.state.tree import decode, encode
from elaunch.errors import StateError

_STATE, _GROUPS, _PARAMS = "state", "param_groups", "params"


class OptimizerPart:
    """The state of ``optimizer``, named ``name``. ``objects`` are the program's: one of them has its parameters."""

    def __init__(self, name: str, optimizer: torch.optim.Optimizer, objects: Mapping[str, object]) -> None:
        self.name = name
        self.value = optimizer
        self._objects = objects
        self._known: tuple[tuple[int, ...], Names] | None = None
        self._roots: Mapping[str, dict[str, Saved]] = {}

    def collect(self) -> dict[str, Any]:
        names = self._names()
        whole = self._state(names)
        stored, shape = encode(whole, (self.name,), ordered=False)
        plain = tuple((name, key) for name, key, _ in _plain_ones(whole[_STATE], names))
        return {self.name: stored, **(shape_entry(self.name, (shape, plain)) if shape or plain else {})}

    def shared_values(self) -> dict[str, bytes]:
        names = self._names()
        whole = self._state(names)
        made = {f"{self.name}.{_GROUPS}": digest(encode(whole[_GROUPS], (self.name, _GROUPS)))}
        # What is no DTensor, of a parameter that is sharded: is it of this rank's shard, or of the whole?
        if plain := [(name, key, tensor) for name, key, tensor in _plain_ones(whole[_STATE], names)]:
            made[f"{self.name}.{_STATE}"] = digest(plain)
        return made

    def is_in(self, roots: Mapping[str, Mapping[str, Saved]]) -> bool:
        return self.name in roots

    def targets(self, roots: Mapping[str, dict[str, Saved]], saved_world: int) -> dict[str, Any]:
        self._roots = roots
        by_name = self._names().by_name
        made = {}
        for key, saved in roots.get(self.name, {}).items():
            place = _place(saved.path, by_name)
            made[key] = _target(saved, by_name.get(str(place[1])) if place[0] == _STATE and len(place) > 2 else None)
        return {**made, **dict.fromkeys(roots.get(shape_root(self.name), ()))}

    def adopt(self, loaded: Mapping[str, Any], saved_world: int) -> None:
        names = self._names()
        states, groups, plain = self._read(loaded, names)
        held = [[names.all_of(parameter) for parameter in group[_PARAMS]] for group in self.value.param_groups]
        options = matched(self.name, held, groups)
        if unknown := [name for name in states if isinstance(name, str) and "." in name and name not in names.by_name]:
            raise StateError(
                f"the checkpoint of optimizer {self.name!r} holds {listed(unknown)}, which it does not have now"
            )
        whole: dict[str, Any] = {_STATE: {}, _GROUPS: []}
        used = set()
        place = 0
        for group, chosen in zip(self.value.param_groups, options, strict=True):
            whole[_GROUPS].append({**_group(group, chosen), _PARAMS: list(range(place, place + len(group[_PARAMS])))})
            for parameter in group[_PARAMS]:
                name = next((name for name in names.all_of(parameter) if name in states), None)
                if name is not None:
                    used.add(name)
                    whole[_STATE][place] = _placed(states[name], parameter, {key for of, key in plain if of == name})
                place += 1
        whole[_STATE].update({key: state for key, state in states.items() if key not in used})
        self.value.load_state_dict(whole)
        self._keep_types(whole[_STATE])

    def _names(self) -> Names:
        parameters = _parameters(self.value)
        ids = tuple(map(id, parameters))
        if self._known is None or self._known[0] != ids:
            self._known = ids, Names(self.name, parameters, self._objects)
        return self._known[1]

    def _state(self, names: Names) -> dict[str, Any]:
        """The optimizer's state, by names instead of numbers."""
        given = self.value.state_dict()
        parameters = _parameters(self.value)
        written = [names.of(parameter) for parameter in parameters]
        state = {written[key] if type(key) is int else key: value for key, value in given[_STATE].items()}
        groups = [{**group, _PARAMS: [written[number] for number in group[_PARAMS]]} for group in given[_GROUPS]]
        return {_STATE: state, _GROUPS: groups}

    def _read(self, loaded: Mapping[str, Any], names: Names) -> tuple[dict[str, Any], list[Any], Any]:
        """States by name, groups, and which of their tensors were not spread as their parameter was."""
        shape, plain = saved_shape(self.name, self._roots, loaded) or ("", ())
        items = [(saved.path, loaded[key]) for key, saved in self._roots.get(self.name, {}).items()]
        if any(path[1] not in (_STATE, _GROUPS) for path, _ in items if len(path) > 1):
            places = [(_place(path, names.by_name), value) for path, value in items]
            held = [[names.all_of(parameter) for parameter in group[_PARAMS]] for group in self.value.param_groups]
            groups = flattened({place[1:]: value for place, value in places if place[0] == _GROUPS}, held)
            return nested([(place[1:], value) for place, value in places if place[0] == _STATE], {}), groups, ()
        whole = decode(nested([(path[1:], value) for path, value in items], {}), shape)
        return whole.get(_STATE, {}), whole.get(_GROUPS, []), plain

    def _keep_types(self, states: Mapping[Any, Any]) -> None:
        """torch casts what it loads to the parameter's type, which would halve the precision of a state in float32."""
        for place, parameter in enumerate(_parameters(self.value)):
            for key, value in states.get(place, {}).items():
                now = self.value.state[parameter].get(key)
                if key != "step" and now is not None:
                    self.value.state[parameter][key] = _as_saved(now, value)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group[_PARAMS]]


def _place(path: Path, by_name: Mapping[str, Any]) -> Path:
    """Where a value belongs: ("state", name, key, ...) or ("param_groups", ...), of stock's flattened form too."""
    kind, _, rest = str(path[1]).partition(".") if len(path) > 1 else ("", "", "")
    if not rest or kind not in (_STATE, _GROUPS):
        return path[1:]
    steps = rest.split(".")
    for end in range(len(steps), 0, -1):
        if (name := ".".join(steps[:end])) in by_name:
            return (kind, name, *steps[end:], *path[2:])
    raise StateError(f"the checkpoint of optimizer {path[0]!r} holds {rest!r}, which is of no parameter of it")


def _target(saved: Saved, parameter: Any) -> Any:
    """Memory for one value of the state of ``parameter``: spread as it is, if of its shape, else whole on each rank."""
    if not saved.is_tensor:
        return None
    if parameter is not None and tuple(parameter.shape) == saved.size:
        return torch.zeros_like(parameter.detach(), dtype=saved.dtype)
    device = parameter.device if parameter is not None and saved.size else None
    return torch.empty(saved.size, dtype=saved.dtype, device=device)


def _group(now: Mapping[str, Any], saved: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a group: those saved, and of its own what was not saved."""
    options = {**now, **(saved or {})}
    for key, value in options.items():
        here = now.get(key)
        if isinstance(value, torch.Tensor) and isinstance(here, torch.Tensor):
            options[key] = value.to(here.device)
    return options


def _placed(state: Any, parameter: Any, plain: set[str]) -> Any:
    """A parameter's state. If it is a DTensor, tensors of other shapes than its are too, unless they were not then."""
    if not isinstance(parameter, DTensor) or not isinstance(state, Mapping):
        return state
    mesh = parameter.device_mesh
    return {
        key: DTensor.from_local(value, mesh, [Replicate()] * mesh.ndim, run_check=False)
        if isinstance(value, torch.Tensor) and not isinstance(value, DTensor) and value.ndim and key not in plain
        else value
        for key, value in state.items()
    }


def _plain_ones(states: Mapping[str, Any], names: Names) -> Iterator[tuple[str, str, Any]]:
    for name, state in states.items():
        parameter = names.by_name.get(name)
        if is_sharded(parameter) and isinstance(state, Mapping):
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and not isinstance(value, DTensor) and value.ndim:
                    yield name, key, value


def _as_saved(now: Any, saved: Any) -> Any:
    if isinstance(now, torch.Tensor) and isinstance(saved, torch.Tensor):
        return now if now.dtype == saved.dtype else saved.to(now.device)
    if isinstance(now, dict) and isinstance(saved, Mapping):
        return {key: _as_saved(item, saved.get(key)) for key, item in now.items()}
    return now
