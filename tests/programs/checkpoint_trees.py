"""States of any shape for a crew: made from a description, saved by one world, restored and compared by another.

A description is JSON: ``{"dict": {...}}``, ``{"list": [...]}``, ``{"value": name}``, or a tensor. Its bytes come from
its seed, so that every rank of every world knows the whole of it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from elaunch.checkpoint import Checkpointer, PerRank
from elaunch.errors import StateError

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "int": -(2**70),
    "float": 0.1,
    "infinite": math.inf,
    "complex": 1 + 2j,
    "text": "\u00e4\ud800\n",
    "bytes": b"\0\xff",
    "bytearray": bytearray(b"\0\xff"),
    "tuple": (1, (2, "x"), None),
    "set": {1, 2},
    "dtype": torch.bfloat16,
    "size": torch.Size([2, 0]),
    "device": torch.device("cpu"),
    "empty dict": {},
    "empty list": [],
    "numbers": {1: "a", 2: "b"},
}


def save(rank: int, world: int, told: dict[str, Any]) -> list[Any]:
    with Checkpointer(told["path"], _objects(told, told["from"], rank, world, filled=True), timeout=20) as checkpointer:
        try:
            checkpointer.save(1)
        except StateError as error:  # {"a.b": 1, "a": {"b": 2}}
            return [False, str(error)]
        outcome = checkpointer.wait()
    return [outcome.committed, outcome.error]


def restore(rank: int, world: int, told: dict[str, Any]) -> list[Any]:
    """The step, and what differs."""
    wanted = _objects(told, told["to"], rank, world, filled=True)
    objects = _objects(told, told["to"], rank, world, filled=False)
    with Checkpointer(told["path"], objects, verify=told["verify"], timeout=20) as checkpointer:
        step = checkpointer.restore()
        got = checkpointer._states.values
    wrong = list(_differing(wanted["tree"], got["tree"], "tree"))
    wrong += _differing(wanted["module"].state_dict(), objects["module"].state_dict(), "module")
    own = {"rank": rank} if world == told["from"]["world"] else {"rank": [rank, list(range(told["from"]["world"]))]}
    return [step, wrong + list(_differing(own, objects["own"].obj, "own"))]


def _objects(told: dict[str, Any], place: dict[str, Any], rank: int, world: int, *, filled: bool) -> dict[str, Any]:
    mesh = _mesh(place, rank)
    module = nn.Module()
    for number, leaf in enumerate(_leaves(told["tree"])):
        module.register_buffer(f"b{number}", _tensor(leaf, place, mesh, filled))
    own = PerRank(
        {"rank": rank} if filled else {},
        reshard=lambda states, rank, _: {"rank": [rank, [one["rank"] for one in states]]},
    )
    return {"tree": _made(told["tree"], place, mesh, filled), "module": module, "own": own}


def _mesh(place: dict[str, Any], rank: int) -> DeviceMesh:
    """Without process groups: nothing is communicated."""
    return DeviceMesh("cpu", torch.arange(place["world"]).view(place["mesh"]), _init_backend=False, _rank=rank)


def _leaves(tree: dict[str, Any]) -> list[dict[str, Any]]:
    if "dict" in tree:
        return [leaf for item in tree["dict"].values() for leaf in _leaves(item)]
    if "list" in tree:
        return [leaf for item in tree["list"] for leaf in _leaves(item)]
    return [tree] if "dtype" in tree else []


def _made(tree: dict[str, Any], place: dict[str, Any], mesh: DeviceMesh, filled: bool) -> Any:
    if "dict" in tree:
        return {key: _made(item, place, mesh, filled) for key, item in tree["dict"].items()}
    if "list" in tree:
        return [_made(item, place, mesh, filled) for item in tree["list"]]
    if "value" in tree:
        return VALUES[tree["value"]] if filled else 7
    return _tensor(tree, place, mesh, filled)


def _tensor(leaf: dict[str, Any], place: dict[str, Any], mesh: DeviceMesh, filled: bool) -> Any:
    whole = _whole(leaf, filled)
    if not leaf["spread"]:
        return whole
    placements = _placements(leaf, place)
    local = _viewed(_local(whole, placements, place["mesh"], mesh.get_coordinate()), leaf["view"])
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride())


def _whole(leaf: dict[str, Any], filled: bool) -> torch.Tensor:
    dtype = getattr(torch, leaf["dtype"])
    size = math.prod(leaf["shape"]) * dtype.itemsize
    data = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(leaf["seed"]))
    data = data if filled else torch.full_like(data, 1)
    data = data % 2 if dtype == torch.bool else data
    whole = data.view(dtype).view(leaf["shape"]) if size else torch.empty(leaf["shape"], dtype=dtype)
    return whole if leaf["spread"] else _viewed(whole, leaf["view"])


def _viewed(whole: torch.Tensor, view: str) -> torch.Tensor:
    """The same values behind another view."""
    if view == "strided" and whole.dim():
        return torch.stack([whole, whole], dim=-1)[..., 0]
    if view == "transposed" and whole.dim() > 1:
        return whole.transpose(0, -1).contiguous().transpose(0, -1)
    if view == "conjugated" and whole.dtype in (torch.complex64, torch.complex128):
        return whole.conj().resolve_conj().conj()
    if view == "negated" and whole.dtype in (torch.float32, torch.float64, torch.complex64):
        return torch._neg_view(-whole)
    if view == "part":
        return torch.cat([whole.reshape(-1), whole.reshape(-1)])[: whole.numel()].view(whole.shape)
    return whole


def _placements(leaf: dict[str, Any], place: dict[str, Any]) -> list[Any]:
    """One for each dimension of the mesh: the dimension of the tensor that it cuts, or -1."""
    cuts = [cut if cut < len(leaf["shape"]) else -1 for cut in leaf["cuts"][: len(place["mesh"])]]
    if len(cuts) == 2 and cuts[0] == cuts[1] != -1:  # as FSDP over TP: the second is cut first
        return [_StridedShard(cuts[0], split_factor=place["mesh"][1]), Shard(cuts[1])]
    return [Replicate() if cut < 0 else Shard(cut) for cut in cuts]


def _local(whole: torch.Tensor, placements: list[Any], mesh: list[int], at: Any) -> torch.Tensor:
    dimensions = list(zip(placements, mesh, at, strict=True))
    if isinstance(placements[0], _StridedShard):
        dimensions.reverse()
    for placement, parts, number in dimensions:
        if not isinstance(placement, Replicate):
            length = whole.shape[placement.dim]
            each = -(-length // parts)
            start = min(number * each, length)
            whole = whole.narrow(placement.dim, start, min(each, length - start))
    return whole.contiguous()


def _differing(wanted: Any, got: Any, where: str) -> Any:
    if isinstance(wanted, torch.Tensor):
        if not isinstance(got, torch.Tensor) or _bytes(wanted) != _bytes(got):
            yield f"{where}: {wanted} became {got}"
    elif isinstance(wanted, dict):
        if not isinstance(got, dict) or list(wanted) != list(got):
            yield f"{where}: {wanted} became {got}"
            return
        for key in wanted:
            yield from _differing(wanted[key], got[key], f"{where}.{key}")
    elif isinstance(wanted, list | tuple):
        if type(wanted) is not type(got) or len(wanted) != len(got):
            yield f"{where}: {wanted} became {got}"
            return
        for number, (one, other) in enumerate(zip(wanted, got, strict=True)):
            yield from _differing(one, other, f"{where}.{number}")
    elif type(wanted) is not type(got) or wanted != got:
        yield f"{where}: {wanted!r} became {got!r}"


def _bytes(tensor: Any) -> Any:
    here = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    here = here.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    data = here.view(-1).view(torch.uint8).tolist() if here.numel() else []
    return str(tensor.dtype), list(tensor.shape), list(here.shape), data
