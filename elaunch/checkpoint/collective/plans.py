"""Save plans between the ranks: DCP's write items as JSON, never as pickles."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType


def encode(plan: SavePlan, lowest: Collection[str]) -> bytes:
    """A local plan: what each rank tells rank 0. Of the keys ``lowest`` the lowest rank's value is to be stored."""
    return json.dumps(
        {
            "items": [_item(item) for item in plan.items],
            "paths": {k: list(v) for k, v in plan.planner_data.items()},
            "lowest": sorted(lowest),
        }
    ).encode()


def decode(data: bytes) -> tuple[SavePlan, frozenset[str]]:
    """The plan of a rank and its ``lowest``. Raises ValueError, KeyError or TypeError for anything else."""
    raw = json.loads(data)
    plan = SavePlan(
        items=[_item_of(item) for item in raw["items"]],
        planner_data={key: tuple(path) for key, path in raw["paths"].items()},
    )
    return plan, frozenset(raw["lowest"])


def of_lowest(everyone: Iterable[tuple[SavePlan, frozenset[str]]]) -> list[SavePlan]:
    """The plans without what a lower rank stores."""
    stored: set[str] = set()
    kept = []
    for plan, lowest in everyone:
        elsewhere = lowest & stored
        kept.append(replace(plan, items=[item for item in plan.items if item.index.fqn not in elsewhere]))
        stored |= lowest
    return kept


def encode_share(mine: SavePlan, share: SavePlan) -> bytes:
    """What rank 0 answers a rank: which of the items of its own plan it is to write."""
    wanted = {(item.index.fqn, item.index.offset) for item in share.items}
    return json.dumps(
        [number for number, item in enumerate(mine.items) if (item.index.fqn, item.index.offset) in wanted]
    ).encode()


def decode_share(mine: SavePlan, answer: bytes) -> SavePlan:
    """The plan that this rank is to carry out."""
    return replace(mine, items=[mine.items[number] for number in json.loads(answer)])


def _item(item: WriteItem) -> dict[str, Any]:
    if item.tensor_data is None:
        return {"key": item.index.fqn}
    data = item.tensor_data
    return {
        "key": item.index.fqn,
        "type": item.type.name,
        "at": None if item.index.offset is None else list(item.index.offset),
        "offsets": list(data.chunk.offsets),
        "sizes": list(data.chunk.sizes),
        "size": list(data.size),
        "dtype": str(data.properties.dtype).removeprefix("torch."),
        "grad": data.properties.requires_grad,
    }


def _item_of(raw: dict[str, Any]) -> WriteItem:
    if "type" not in raw:
        return WriteItem(index=MetadataIndex(raw["key"]), type=WriteItemType.BYTE_IO)
    return WriteItem(
        index=MetadataIndex(raw["key"], raw["at"]),
        type=WriteItemType[raw["type"]],
        tensor_data=TensorWriteData(
            chunk=ChunkStorageMetadata(torch.Size(raw["offsets"]), torch.Size(raw["sizes"])),
            properties=TensorProperties(dtype=dtype_of(raw["dtype"]), requires_grad=raw["grad"]),
            size=torch.Size(raw["size"]),
        ),
    )


def dtype_of(name: str) -> torch.dtype:
    """The type of this name, as in ``str(dtype)`` without ``torch.``. Raises ValueError for any other name."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name!r} is no torch.dtype")
    return dtype
