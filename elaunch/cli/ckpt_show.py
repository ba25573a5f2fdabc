"""Checkpoints as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from elaunch.checkpoint.records.contents import Contents, Tensor, Total
from elaunch.checkpoint.records.manifest import Manifest, Origin
from elaunch.checkpoint.records.removing import Removed
from elaunch.checkpoint.records.survey import Seen, Survey
from elaunch.checkpoint.records.verifying import Verdict
from elaunch.checkpoint.storages import layout
from elaunch.cli.table import plain, table

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SHOWN = 3
_AGES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def listing(found: Survey, url: str, now: float) -> str:
    """The table of ``elaunch ckpt ls``; ``now`` is seconds since the epoch."""
    lines = [f"{url}: no checkpoints"]
    if found.seen:
        rows = [_row(seen, now) for seen in found.seen]
        lines = [table((("STEP", "AGE", "SIZE", "WORLD", "SAVED BY", "STATE"), *rows), ">>><<<")]
    if found.claimed is not None and found.claimed.lives is not False:
        unsure = "" if found.claimed.lives else ", as far as can be seen"
        lines.append(f"{found.claimed.owner} writes there{unsure}")
    if found.claim_error:
        lines.append(f"who writes there is not to be seen: {found.claim_error}")
    if found.trash:
        lines.append(f"half deleted, for the next run to remove: {found.trash}")
    return plain("\n".join(lines))


def _row(seen: Seen, now: float) -> Sequence[str]:
    usual = seen.name == layout.step_name(seen.step) or seen.name.startswith(layout.PRIVATE)
    state = seen.health + (", newest" if seen.newest else "") + (f": {seen.reason}" if seen.reason else "")
    return (
        str(seen.step) if usual else seen.name,
        age(now - seen.origin.saved_at) if seen.origin.saved_at else "-",
        "-" if seen.size is None else size(seen.size),
        "-" if seen.world_size is None else world(seen.world_size, seen.meshes),
        _by(seen.origin) or "-",
        state,
    )


def _by(origin: Origin) -> str:
    return f"job {origin.job}, generation {origin.generation}" if origin.job else origin.host


def checkpoint(where: str, known: Manifest | None, held: Contents, now: float) -> str:
    """``elaunch ckpt show``; without a manifest for one that stock code wrote."""
    lines = [where, *(_origin(known, now) if known is not None else ["saved by torch.distributed.checkpoint itself"])]
    if held.tensors:
        lines += ["", table((("TENSOR", "TYPE", "SHAPE", "SIZE", "PLACEMENTS"), *map(_tensor, held.tensors)), "<<<><")]
    if held.values:
        lines += ["", "other values:", *(f"  {key}" for key in held.values)]
    if held.per_rank:
        lines += ["", "one for each rank:"]
        lines += [f"  {one.name}: {_spans(one.ranks)}" + _tensors(one.tensors) for one in held.per_rank]
    rows = [_total(one) for one in (*held.totals(), held.total())]
    return plain("\n".join([*lines, "", table((("STATE", "TENSORS", "ELEMENTS", "SIZE", "OTHERS"), *rows), "<>>>>")]))


def verdict(name: str, one: Verdict | None, error: Exception | None, done: str) -> str:
    """A line of ``elaunch ckpt verify``, and one for each damage."""
    after = f" ({done})" if done else ""
    if one is None:
        return plain(f"{name}: not verified\n  {error}")
    if not one.damages:
        return plain(f"{one.name}: ok, {one.files} files, {size(one.size)}{after}")
    return plain("\n".join([f"{one.name}: damaged{after}", *(f"  {why}" for why in one.damages)]))


def exported(name: str, out: str, tensors: int, length: int, left_out: Sequence[str]) -> str:
    """What ``elaunch ckpt export`` has done."""
    lines = [f"{out}: {tensors} tensors of {name}, {size(length)}"]
    if left_out:
        shown = ", ".join(left_out[:_SHOWN]) + (", ..." if len(left_out) > _SHOWN else "")
        lines.append(f"left out, as the format takes named tensors only: {len(left_out)} values ({shown})")
    return plain("\n".join(lines))


def removed(one: Removed) -> str:
    """A line of ``elaunch ckpt rm``."""
    if one.gone:
        return plain(f"{one.name}: was gone already")
    return plain(f"{one.name}: removed, {size(one.size)} freed" if one.size is not None else f"{one.name}: removed")


def _origin(known: Manifest, now: float) -> list[str]:
    origin = known.origin
    who = f"job {origin.job}, generation {origin.generation}, restart {origin.restart_count}, " if origin.job else ""
    when = f"{age(now - origin.saved_at)} ago" if origin.saved_at else "at a time unknown"
    return [
        f"step {known.step}, saved {when} by {who}host {origin.host or 'unknown'} "
        f"(elaunch {origin.elaunch or 'unknown'}, torch {origin.torch or 'unknown'})",
        f"world {world(known.world_size, known.meshes)}, {len(known.files)} files, {size(known.size)}",
    ]


def _tensor(tensor: Tensor) -> Sequence[str]:
    shape = "x".join(map(str, tensor.entry.shape)) or "scalar"
    return tensor.key, tensor.entry.dtype, shape, _size(tensor.size), tensor.entry.placements


def _total(total: Total) -> Sequence[str]:
    return total.name, f"{total.tensors:,}", f"{total.elements:,}", size(total.size), f"{total.values:,}"


def _tensors(number: int) -> str:
    return f" ({number} tensors)" if number else ""


def _spans(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    whole = ranks == tuple(range(len(ranks)))
    return f"ranks 0 to {len(ranks) - 1}" if whole else "ranks " + ", ".join(map(str, ranks))


def _size(number: int | None) -> str:
    return "-" if number is None else size(number)


def world(ranks: int, meshes: Iterable[Mapping[str, Any]]) -> str:
    """How many ranks, and how they were laid out: ``4 (dp 2 x tp 2)``."""
    laid = [_mesh(mesh) for mesh in meshes]
    return f"{ranks} ({', '.join(laid)})" if laid else str(ranks)


def _mesh(mesh: Mapping[str, Any]) -> str:
    sizes, names = list(mesh.get("shape", ())), list(mesh.get("names", ()))
    if len(sizes) != len(names):
        return " x ".join(map(str, sizes))
    return " x ".join(f"{name} {one}" for name, one in zip(names, sizes, strict=True))


def size(number: float) -> str:
    """Bytes for a person, in powers of ten: ``3.2 GB``."""
    unit, number = 0, min(number, 10**30)  # whatever a forged manifest says
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 or number >= 99.95 else f"{number:.1f} {_UNITS[unit]}"


def age(seconds: float) -> str:
    """A time span for a person: ``12 s``, ``5 min``."""
    for length, unit in _AGES:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
