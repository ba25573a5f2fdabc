"""Checkpoints as documents for machines: what ``elaunch ckpt ... --json`` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from elaunch.checkpoint.records.contents import Contents
from elaunch.checkpoint.records.manifest import Manifest
from elaunch.checkpoint.records.removing import Removed
from elaunch.checkpoint.records.survey import Seen, Survey
from elaunch.checkpoint.records.verifying import Verdict
from elaunch.errors import ElaunchError


def listing(found: Survey, url: str) -> dict[str, Any]:
    """Of ``ls``."""
    claimed = None
    if found.claimed is not None:
        claimed = {**asdict(found.claimed.owner), "claim": found.claimed.number, "lives": found.claimed.lives}
    return {
        "directory": url,
        "checkpoints": [_seen(seen) for seen in found.seen],
        "claimed_by": claimed,
        "claim_error": found.claim_error or None,
        "trash": found.trash,
    }


def _seen(seen: Seen) -> dict[str, Any]:
    return {
        "name": seen.name,
        "step": seen.step,
        "state": seen.health.replace(" ", "_"),
        "reason": seen.reason or None,
        "newest": seen.newest,
        "size": seen.size,
        "world_size": seen.world_size,
        "meshes": list(seen.meshes),
        "origin": asdict(seen.origin),
    }


def checkpoint(where: str, known: Manifest | None, held: Contents) -> dict[str, Any]:
    """Of ``show``."""
    total = held.total()
    return {
        "checkpoint": where,
        "step": known.step if known is not None else None,
        "world_size": known.world_size if known is not None else None,
        "meshes": list(known.meshes) if known is not None else [],
        "origin": asdict(known.origin) if known is not None else None,
        "files": {name: file.size for name, file in known.files.items()} if known is not None else None,
        "tensors": {
            tensor.key: {
                "dtype": tensor.entry.dtype,
                "shape": list(tensor.entry.shape),
                "placements": tensor.entry.placements or None,
                "size": tensor.size,
            }
            for tensor in held.tensors
        },
        "values": list(held.values),
        "per_rank": {one.name: {"ranks": list(one.ranks), "tensors": one.tensors} for one in held.per_rank},
        "totals": {one.name: _total(one) for one in held.totals()},
        **_total(total),
    }


def _total(total: Any) -> dict[str, int]:
    return {"tensor_count": total.tensors, "elements": total.elements, "bytes": total.size, "value_count": total.values}


def verdict(name: str, one: Verdict | None, error: ElaunchError | None, done: str) -> dict[str, Any]:
    """Of ``verify``, for each checkpoint; ``done`` is what was done about it."""
    return {
        "name": name,
        "ok": not one.damages if one is not None else None,
        "damages": list(one.damages) if one is not None else [],
        "files": one.files if one is not None else None,
        "size": one.size if one is not None else None,
        "error": {"error": error.code, "text": str(error)} if error is not None else None,
        "done": done or None,
    }


def removed(one: Removed) -> dict[str, Any]:
    """Of ``rm``, for each checkpoint."""
    return {"name": one.name, "size": one.size, "gone_before": one.gone}
