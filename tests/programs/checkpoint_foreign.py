"""Stock torch.distributed.checkpoint and elaunch's, each reading what the other wrote, for a crew."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard

from elaunch.checkpoint import Checkpointer, PerRank
from elaunch.checkpoint.collective.launcher import NoLauncher
from elaunch.errors import CheckpointError
from tests.programs.checkpoint_trees import _bytes
from tests.programs.checkpoint_trees import _differing as _strictly_differing

DTYPES = [
    *("bfloat16", "float16", "float32", "float64", "complex64", "complex128", "bool", "float8_e4m3fn", "float8_e5m2"),
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
]


class Told(NoLauncher):
    """Keeps what would be logged."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def tell(self, kind: str, sentence: str) -> None:
        self.sentences.append(f"{kind}: {sentence}")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(5, 7)
        self.down = nn.Linear(7, 3)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> Any:
        return self.down(self.up(x).tanh())


def training(world: int, seed: int, steps: int) -> tuple[Any, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = Net()
    if world > 1:
        fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01 * seed, foreach=False)
    for step in range(steps):
        model(torch.ones(2, 5) * step).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        model.seen += 1
    return model, optimizer


def whole(value: Any) -> Any:
    """Of a state, what all ranks hold together."""
    if isinstance(value, DTensor):
        return value.full_tensor()
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list) else value


def state(model: Any, optimizer: Any) -> dict[str, Any]:
    return whole({"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer)})


def plain(filled: bool) -> dict[str, Any]:
    made = {}
    for name in DTYPES:
        dtype = getattr(torch, name)
        data = torch.arange(24 * dtype.itemsize, dtype=torch.int32).to(torch.uint8)
        data = data % 2 if dtype == torch.bool else data
        made[name] = (data if filled else torch.zeros_like(data)).view(dtype).view(4, 6)
    made |= {"scalar": torch.tensor(3.5 if filled else 0.0), "empty": torch.empty(0, 2)}
    text = {"epoch": 3, "name": "x" * 3, "list": [1, {"a": (1, 2)}], "bytes": b"\xff", "array": bytearray(b"1")}
    return {"tensors": made, "more": text if filled else {"epoch": 0}}


def stock_writes(rank: int, world: int, told: dict[str, Any]) -> None:
    """With every kind of stock writer."""
    model, optimizer = training(world, 1, 3)
    given = {"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer), **plain(True)}
    if told["how"] == "async":
        dcp.async_save(given, checkpoint_id=told["path"]).result()
        return
    options = {
        "plain": {},
        "files": {"single_file_per_rank": False},
        "threads": {"thread_count": 3, "single_file_per_rank": False},
        "no crc": {},
    }[told["how"]]
    torch.serialization.set_crc32_options(told["how"] != "no crc")
    dcp.save(given, storage_writer=dcp.FileSystemWriter(told["path"], **options))
    torch.serialization.set_crc32_options(True)


def we_load(rank: int, world: int, told: dict[str, Any]) -> list[str]:
    """What differs after that."""
    wanted = state(*training(world, 1, 3))
    model, optimizer = training(world, 2, 0)
    objects = {"model": model, "optim": optimizer, **plain(False)}
    with Checkpointer(told["path"] + ".ours", objects) as checkpointer:
        checkpointer.load(told["path"])
    expected = plain(True)
    wrong = list(_differing(expected["more"], objects["more"], "more"))
    wrong += _differing(expected["tensors"], objects["tensors"], "tensors")
    return wrong + _near(wanted, state(model, optimizer), "state")


def we_write(rank: int, world: int, told: dict[str, Any]) -> str:
    model, optimizer = training(world, 1, 3)
    with Checkpointer(told["path"], {"model": model, "optim": optimizer, **plain(True)}) as checkpointer:
        checkpointer.save(1)
        return checkpointer.wait().error


def stock_loads(rank: int, world: int, told: dict[str, Any]) -> list[str]:
    """What differs after that; on rank 0 also of what stock code makes of it for torch.load."""
    path = f"{told['path']}/step-00000001"
    model, optimizer = training(world, 2, 1)
    got = {"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer), **plain(True)}
    for value in (*got["tensors"].values(), *got["model"].values()):
        value.zero_()
    got["more"] = dict.fromkeys(got["more"])
    got["more"]["list"] = [None, {"a": None}]
    dcp.load(got, checkpoint_id=path)
    wanted = {**plain(True), **state(*training(world, 1, 3))}
    wrong = _near(
        {key: wanted[key] for key in ("model", "optim")}, whole({key: got[key] for key in ("model", "optim")}), ""
    )
    wrong += _differing(wanted["tensors"], got["tensors"], "tensors")
    wrong += _differing(wanted["more"], got["more"], "more")
    if rank == 0:
        dcp_to_torch_save(path, told["path"] + ".pt")
        made = torch.load(told["path"] + ".pt", weights_only=True)
        wrong += _differing(wanted["tensors"], made["tensors"], "torch.save")
        wrong += _near(wanted["model"], made["model"], "torch.save")
        os.unlink(told["path"] + ".pt")
    return wrong


def _differing(wanted: Any, got: Any, where: str) -> list[str]:
    """Without the order of what stands in dicts, which stock code does not keep."""
    return list(_strictly_differing(dict(sorted(wanted.items())), dict(sorted(got.items())), where))


def _near(wanted: Any, got: Any, where: str) -> list[str]:
    if isinstance(wanted, torch.Tensor):
        return [] if torch.allclose(wanted, got) else [f"{where}: {wanted} became {got}"]
    if isinstance(wanted, dict):
        missing = [f"{where}: lacks {key}" for key in wanted if key not in got]
        return missing + [
            text for key in wanted if key in got for text in _near(wanted[key], got[key], f"{where}.{key}")
        ]
    return [] if wanted == got or isinstance(wanted, list) else [f"{where}: {wanted} became {got}"]


def save_two(rank: int, world: int, told: dict[str, Any]) -> None:
    """Steps 1 and 2, of which each rank has its part."""
    for step in (1, 2):
        with Checkpointer(told["path"], _spread(world, step)) as checkpointer:
            checkpointer.save(step)
            assert checkpointer.wait().committed


def restore(rank: int, world: int, told: dict[str, Any]) -> list[Any]:
    """The step, the error, whether all of it is of that step, and what was told."""
    launcher, objects, step, error = Told(), _spread(world, 0), -1, ""
    with Checkpointer(told["path"], objects, verify=told["verify"], launcher=launcher) as checkpointer:
        try:
            step = checkpointer.restore()
        except CheckpointError as problem:
            error = f"{problem.code}: {problem}"
    wanted = _spread(world, step)
    fits = _bytes(wanted["w"]) == _bytes(objects["w"])
    fits = fits and {**wanted["own"].obj, "only 0": ""} == objects["own"].obj
    return [step, error, fits, launcher.sentences]


def _spread(world: int, step: int) -> dict[str, Any]:
    """What each rank reads from its own file, so that only one rank meets damage to one file."""
    rank = dist.get_rank() if world > 1 else 0
    mesh = DeviceMesh("cpu", torch.arange(world), _init_backend=False, _rank=rank)
    whole = torch.arange(3000.0).view(6, 500) * step
    local = whole.chunk(world)[rank].clone()
    placed = DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=whole.shape, stride=whole.stride())
    return {"w": placed, "own": PerRank({"step": step, f"only {step}": "x" * 1000 * step})}
