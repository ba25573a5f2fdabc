"""Which saved options go to which of an optimizer's parameter groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from elaunch.checkpoint.state.modules import listed
from elaunch.checkpoint.state.saved import Path
from elaunch.errors import StateError

Group = Mapping[str, Any]


def matched(optimizer: str, groups: Sequence[Sequence[Sequence[str]]], saved: Sequence[Group]) -> list[Group | None]:
    """For each current group the saved one whose options it takes: that which held its parameters.

    Args:
        groups: of each group, of each parameter, all its names.
        saved: the saved groups, with the names of their parameters under "params".

    Returns:
        None for a group without parameters that the checkpoint has no counterpart for; it keeps its own options.

    Raises:
        StateError: parameters were not saved, or are no longer there, or were in groups with other options.
    """
    home = {name: place for place, group in enumerate(saved) for name in group["params"]}
    known = {name for group in groups for names in group for name in names}
    if gone := [name for name in home if name not in known]:
        raise StateError(f"the checkpoint of optimizer {optimizer!r} holds {listed(gone)}, which it does not have now")
    empty = [place for place, group in enumerate(saved) if not group["params"]]
    taken: list[Group | None] = []
    for place, group in enumerate(groups):
        if group:
            taken.append(_joined(optimizer, place, group, saved, home))
            continue
        found = place if place in empty else next(iter(empty), None)
        if found is not None:
            empty.remove(found)
        taken.append(None if found is None else saved[found])
    return taken


def _joined(
    optimizer: str, place: int, group: Sequence[Sequence[str]], saved: Sequence[Group], home: Mapping[str, int]
) -> Group:
    homes: dict[int, str] = {}
    lacking = []
    for names in group:
        found = next((home[name] for name in names if name in home), None)
        if found is None:
            lacking.append(names[0])
        else:
            homes.setdefault(found, names[0])
    if lacking:
        raise StateError(f"optimizer {optimizer!r} has {listed(lacking)}, which the checkpoint of it does not hold")
    first, *others = homes
    for other in others:
        if _options(saved[other]) != _options(saved[first]):
            raise StateError(
                f"group {place} of optimizer {optimizer!r} holds {homes[first]!r} and {homes[other]!r}, which were "
                "saved in groups with different options; make the groups as they were"
            )
    return saved[first]


def _options(group: Group) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in ("params", "param_names")}


def flattened(entries: Mapping[Path, Any], names: Sequence[Sequence[Sequence[str]]]) -> list[dict[str, Any]]:
    """The groups out of stock's flattened form, which repeats a group's options for each of its parameters.

    Args:
        entries: by (name of a parameter, option).
        names: of each current group, of each parameter, all its names.
    """
    options: dict[str, dict[str, Any]] = {}
    for (name, option), value in entries.items():
        options.setdefault(str(name), {})[str(option)] = value
    groups: list[dict[str, Any]] = []
    for group in names:
        held = [name for parameter in group for name in parameter if name in options]
        if held:
            groups.append({**options[held[0]], "params": held})
    return groups
