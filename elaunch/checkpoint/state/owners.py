"""Whose parameters an optimizer has: found by identity among the program's modules, named as in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from elaunch.checkpoint.state.modules import parameter_names
from elaunch.errors import StateError


class Names:
    """The names of an optimizer's parameters.

    They are those in the module, if one module has them all. Else the name of the module stands before them. A tied
    parameter has several names, of which the first is written and each is understood.
    """

    def __init__(self, optimizer: str, parameters: list[Any], objects: Mapping[str, object]) -> None:
        owners: dict[str, dict[int, list[str]]] = {}
        for name, held in objects.items():
            if isinstance(held, nn.Module):
                owned = owners.setdefault(name, {})
                for parameter_name, parameter in parameter_names(held):
                    owned.setdefault(id(parameter), []).append(parameter_name)
        wanted = [id(parameter) for parameter in parameters]
        whole = next((owned for owned in owners.values() if all(one in owned for one in wanted)), None)
        self._names = whole if whole is not None else _prefixed(owners, objects)
        for place, one in enumerate(wanted):
            if one not in self._names:
                raise StateError(
                    f"parameter {place} of optimizer {optimizer!r}, of shape {tuple(parameters[place].shape)}, "
                    "belongs to no module of the checkpoint; give it the module, wrapped as when the optimizer was made"
                )
        self.by_name = {name: parameter for parameter in parameters for name in self._names[id(parameter)]}

    def of(self, parameter: Any) -> str:
        """The name that is written."""
        return self._names[id(parameter)][0]

    def all_of(self, parameter: Any) -> list[str]:
        """Every name that is understood."""
        return self._names[id(parameter)]


def _prefixed(owners: Mapping[str, dict[int, list[str]]], objects: Mapping[str, object]) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for name, held in objects.items():
        if isinstance(held, torch.Tensor):
            names.setdefault(id(held), []).append(name)
        for one, inside in owners.get(name, {}).items():
            if one not in names:
                names[one] = [f"{name}.{inner}" for inner in inside]
    return names
