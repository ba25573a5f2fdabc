"""Hostile checkpoints: an error of ours for each, nothing is run, and no more memory or time than the file is worth.

Each is read in a child that may have little memory more than torch takes, and little time.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from elaunch.checkpoint.encoding.archive import load_value
from elaunch.checkpoint.encoding.plausible import check_metadata
from elaunch.checkpoint.encoding.unpickling import load_metadata
from elaunch.errors import DamagedCheckpointError

pytestmark = [pytest.mark.slow, pytest.mark.torch]
MORE_MEMORY = 4 << 30  # to ask for
MORE_USED = 160 << 20
SECONDS = 200  # with the import of torch; what is not refused takes as good as for ever
DCP = "torch.distributed.checkpoint.metadata"
RAN = "elaunch_hostile_code_ran"


class Calls:
    """Pickled as a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def archived(pickled: bytes, records: dict[str, bytes] | None = None, compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, data in {"byteorder": b"little", "version": b"3\n", **(records or {})}.items():
            archive.writestr(f"archive/{name}", data)
    return file.getvalue()


def nested(levels: int, kind: bytes = b"\x86") -> bytes:
    """A tuple of twice the one before, and so on."""
    return b"\x80\x02)" + b"".join(b"q" + bytes([n]) + b"h" + bytes([n]) + kind for n in range(levels))


def name(module: str, attribute: str) -> bytes:
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def number(value: int) -> bytes:
    data = value.to_bytes(16, "little")
    return b"\x8a" + bytes([len(data)]) + data


def tensor(size: bytes, stride: bytes, numel: int = 1, offset: bytes = b"K\x00") -> bytes:
    pid = (
        b"(X\x07\0\0\0storage" + name("torch", "FloatStorage") + b"X\x01\0\0\x000X\x03\0\0\0cpu" + number(numel) + b"tQ"
    )
    hooks = name("collections", "OrderedDict") + b")R"
    return (
        b"\x80\x02"
        + name("torch._utils", "_rebuild_tensor_v2")
        + b"("
        + pid
        + offset
        + size
        + stride
        + b"\x89"
        + hooks
        + b"tR."
    )


HUGE = number(10**12)
CODE = b"import os; os.environ['" + RAN.encode() + b"'] = '1'"
calls: dict[str, bytes] = {
    "system": pickle.dumps(Calls(os.system, f"touch {RAN}"), 2),
    "system, protocol 4": pickle.dumps(Calls(os.system, f"touch {RAN}"), 4),
    "exec": pickle.dumps(Calls(exec, CODE.decode()), 2),
    "eval of a name that is allowed": b"\x80\x02" + name("builtins", "eval") + b"X\x01\0\0\x001\x85R.",
    "getattr": pickle.dumps(Calls(getattr, "", "join"), 2),
    "a persistent name": b"\x80\x02X\x01\0\0\0xQ.",
    "INST": b"(S'1'\nios\nsystem\n.",
    "OBJ": b"(" + name("os", "system") + b"S'1'\no.",
    "an extension": b"\x80\x02\x82\x01.",
    "memory of bytearray": b"\x80\x02" + name("__builtin__", "bytearray") + HUGE + b"\x85R.",
    "BYTEARRAY8": b"\x80\x05\x96" + (10**12).to_bytes(8, "little") + b".",
    "BINBYTES8": b"\x80\x05\x8e" + (10**12).to_bytes(8, "little") + b".",
    "LONG_BINPUT": b"\x80\x02Nr\xff\xff\xff\xff",
    "FRAME": b"\x80\x04\x95" + (10**12).to_bytes(8, "little") + b".",
    "memory of Tensor": b"\x80\x02" + name("torch", "Tensor") + HUGE + b"\x85R.",
    "memory of FloatTensor": b"\x80\x02" + name("torch", "FloatTensor") + HUGE + b"\x85R.",
    "memory of UntypedStorage": b"\x80\x02" + name("torch.storage", "UntypedStorage") + HUGE + b"\x85R.",
    "a new Tensor": b"\x80\x02" + name("torch", "Tensor") + HUGE + b"\x85\x81.",
    "a tensor of the device meta": b"\x80\x02" + name("torch._utils", "_rebuild_meta_tensor_no_storage") + b")R.",
    "attributes of a class": b"\x80\x02" + name("torch", "Tensor") + b"}X\x01\0\0\0xK\x01sb.",
    "attributes of a function": b"\x80\x02" + name("torch", "Size") + b"}X\x01\0\0\0xK\x01sb.",
    "a key that is never hashed to its end": b"\x80\x02}" + nested(60)[2:] + b"K\x01s.",
    "a set of such": b"\x80\x04\x8f(" + nested(60)[2:] + b"\x90.",
    "a value of 2**60 parts": nested(60) + b".",
    "a list in itself": b"\x80\x02]q\0h\0a.",
    "100000 levels": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "100000 levels of tuples": b"\x80\x02)" + b"\x85" * 100_000 + b".",
    "bytes of a string many times": b"\x80\x02X" + (1 << 20).to_bytes(4, "little") + b"a" * (1 << 20) + b"q\0"
    + (name("_codecs", "encode") + b"h\0X\x06\0\0\0latin1\x86R") * 2000 + b".",
    "another encoding": b"\x80\x02" + name("_codecs", "encode") + b"X\x01\0\0\0aX\x08\0\0\0punycode\x86R.",
    "a huge tensor": tensor(HUGE + b"\x85", b"K\x00\x85"),
    "a tensor that repeats one element": tensor(number(10**9) + b"\x85", b"K\x00\x85"),
    "a tensor with a huge storage": tensor(HUGE + b"\x85", b"K\x01\x85", 10**12),
    "a tensor before its storage": tensor(b"K\x01\x85", b"K\x01\x85", 1, b"J\xff\xff\xff\xff"),
    "a tensor behind its storage": tensor(b"K\x01\x85", b"K\x01\x85", 1, HUGE),
    "a tensor of negative stride": tensor(b"K\x01\x85", b"J\xff\xff\xff\xff\x85"),
    "nothing": b"",
    "no end": b"\x80\x02N",
    "no stack": b"\x80\x02.",
    "text": b"hello",
}  # fmt: skip
RECORDS = {"data/0": bytes(4)}


def central(data: bytes, offset: int, value: bytes) -> bytes:
    """The archive with something else in the first entry of its central directory."""
    at = data.index(b"PK\x01\x02") + offset
    return data[:at] + value + data[at + len(value) :]


good = archived(b"\x80\x02N.")
archives: dict[str, bytes] = {
    **{what: archived(pickled, RECORDS) for what, pickled in calls.items()},
    "a zip bomb": archived(b"\x80\x02N.", {"data/0": bytes(50 << 20)}, zipfile.ZIP_DEFLATED),
    "a record that says it is larger": central(good, 20, b"\xff\xff\xff\x7f\xff\xff\xff\x7f"),
    "a record behind the end": central(good, 42, b"\xff\xff\xff\x7f"),
    "an encrypted record": central(good, 8, b"\x01"),
    "another byte order": archived(b"\x80\x02N.", {"byteorder": b"big"}),
    "no pickle": archived(b"").replace(b"data.pkl", b"date.pkl"),
    "an old file of torch.save": b"",
    "no archive": b"hello",
    "half of one": good[: len(good) // 2],
}
old = io.BytesIO()
torch.save({"a": torch.ones(2)}, old, _use_new_zipfile_serialization=False)
archives["an old file of torch.save"] = old.getvalue()


def described(**changes: Any) -> bytes:
    """DCP's metadata of one tensor in one file, but for some changes."""
    index = MetadataIndex("a", [0])
    whole: dict[str, Any] = {
        "size": torch.Size([4]),
        "chunks": [ChunkStorageMetadata(torch.Size([0]), torch.Size([4]))],
        "stored": {index: filesystem._StorageInfo("__0_0.distcp", 0, 100)},
        "planner_data": {"a": ("a",)},
        "dtype": torch.float32,
        "entries": {},
        **changes,
    }
    entry = TensorStorageMetadata(TensorProperties(whole["dtype"]), whole["size"], whole["chunks"])
    made = Metadata({"a": entry, **whole["entries"]}, whole["planner_data"], whole["stored"])
    return pickle.dumps(made)


def at(name: Any = "__0_0.distcp", offset: Any = 0, length: Any = 100) -> dict[Any, Any]:
    return {MetadataIndex("a", [0]): filesystem._StorageInfo(name, offset, length)}


many = [ChunkStorageMetadata(torch.Size([0]), torch.Size([4]))] * 5000
metadatas: dict[str, bytes] = {
    **calls,
    "another file": described(stored=at("__1_0.distcp")),
    "a file elsewhere": described(stored=at("../../../etc/passwd")),
    "an absolute path": described(stored=at("/etc/passwd")),
    "bytes in place of a name": described(stored=at(b"__0_0.distcp")),
    "beyond the end of the file": described(stored=at(offset=1)),
    "far beyond": described(stored=at(offset=1 << 62, length=1 << 62)),
    "before the start": described(stored=at(offset=-1)),
    "half a byte": described(stored=at(offset=0.5)),
    "a truth in place of a number": described(stored=at(offset=True)),
    "an item that is too small": described(stored=at(length=15)),
    "a size that overflows": described(
        size=torch.Size([1 << 62, 4]),
        chunks=[ChunkStorageMetadata((0, 0), (1 << 62, 4))],
        stored={MetadataIndex("a", [0, 0]): filesystem._StorageInfo("__0_0.distcp", 0, 100)},
    ),
    "more than is there": described(size=torch.Size([5])),
    "a part that reaches beyond": described(size=torch.Size([3])),
    "another number of dimensions": described(size=torch.Size([4, 1])),
    "a negative size": described(size=(-4,)),
    "a shape of 1000 dimensions": described(size=(1,) * 1000),
    "no chunks": described(chunks=[]),
    "chunks that are none": described(chunks=[1]),
    "a type that is none": described(dtype="float32"),
    "one place for many parts": described(chunks=many, entries={
        str(key): TensorStorageMetadata(TensorProperties(torch.float32), torch.Size([4]), many) for key in range(5000)
    }),
    "one range for many items": described(
        size=torch.Size([400]),
        chunks=[ChunkStorageMetadata(torch.Size([4 * n]), torch.Size([4])) for n in range(100)],
        stored={MetadataIndex("a", [4 * n]): filesystem._StorageInfo("__0_0.distcp", 0, 100) for n in range(100)},
    ),
    "a value in no file": described(entries={"b": BytesStorageMetadata()}),
    "something else in place of an entry": described(entries={"b": 1}),
    "a path that is none": described(planner_data={"a": (1.5,)}),
    "an empty path": described(planner_data={"a": ()}),
    "a path of a million steps": described(planner_data={"a": ("x",) * 1_000_000}),
    "a key that is none": described(planner_data={1: ("a",)}),
    "no metadata": pickle.dumps({}),
    "metadata without anything": b"\x80\x02" + name(DCP, "Metadata") + b")\x81.",
    "metadata without its parts": b"\x80\x02" + name(DCP, "Metadata") + b")\x81}b.",
    "an index without anything": b"\x80\x02" + name(DCP, "Metadata")
    + b")\x81}(X\x0c\0\0\0storage_data}" + name(DCP, "MetadataIndex") + b")\x81Nsub.",
}  # fmt: skip


def look_at_value(data: bytes) -> None:
    load_value(bytearray(data), "here")


def look_at_metadata(data: bytes) -> None:
    check_metadata(load_metadata(data, "here"), {"__0_0.distcp": 100}, "here")


LOOKS: dict[str, tuple[Callable[[bytes], None], dict[str, bytes]]] = {
    "values": (look_at_value, archives),
    "metadata": (look_at_metadata, metadatas),
}


def child(kind: str) -> None:
    """Read all of a kind; tell what came of each, and how much memory was used."""
    look, samples = LOOKS[kind]
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MORE_MEMORY, size + MORE_MEMORY))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = {}
    for what, data in samples.items():
        try:
            look(data)
            told[what] = "read"
        except DamagedCheckpointError as error:
            told[what] = f"refused: {error}"
        except BaseException as error:  # noqa: BLE001 - none but ours should come
            told[what] = repr(error)
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(json.dumps([told, used, RAN in os.environ]))


@pytest.mark.parametrize("kind", list(LOOKS))
def test_hostile_ones_are_refused(kind: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", f"from tests.checkpoint.test_hostile import child; child({kind!r})"],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    told, used, ran = json.loads(run.stdout)
    assert {what: how for what, how in told.items() if not how.startswith("refused: here")} == {}
    assert used < MORE_USED
    assert not ran
    assert not list(tmp_path.iterdir())


def test_the_good_ones_are_read() -> None:
    """Else all of the above would be refused for nothing."""
    assert load_value(bytearray(archived(tensor(b"K\x01\x85", b"K\x01\x85"), RECORDS)), "here").tolist() == [0.0]
    look_at_metadata(described())


def test_what_may_be_in_a_checkpoint_comes_back() -> None:
    value = {
        "plain": [
            None,
            True,
            -(2**70),
            0.5,
            1j,
            "\u00e4\ud800",
            b"\xff",
            b"",
            bytearray(b"\xff"),
            bytearray(),
            {1, (2, "a")},
        ],
        "torch": (torch.bfloat16, torch.device("cuda", 1), torch.device("cpu"), torch.Size([2, 3]), torch.Size([])),
        3: OrderedDict(a=1),
        (1, 2): {torch.float32: "key"},
    }
    file = io.BytesIO()
    torch.save(value, file)
    assert repr(load_value(bytearray(file.getvalue()), "here")) == repr(value)


@pytest.mark.parametrize(
    "made",
    [
        torch.arange(6.0).view(2, 3).t(),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.tensor(3, dtype=torch.uint16),
        torch.ones(2).to(torch.float8_e4m3fn),
        torch.empty(0, 3),
        torch.nn.Parameter(torch.ones(2)),
        torch.nn.Parameter(torch.ones(2), requires_grad=False),
    ],
    ids=str,
)
def test_tensors_come_back(made: torch.Tensor) -> None:
    file = io.BytesIO()
    torch.save((made, made), file)
    got, again = load_value(bytearray(file.getvalue()), "here")
    assert (got.dtype, got.shape, type(got), got.requires_grad) == (
        made.dtype,
        made.shape,
        type(made),
        made.requires_grad,
    )
    assert got.tolist() == made.tolist() if made.dtype != torch.float8_e4m3fn else got.float().tolist() == [1, 1]
    assert again is got


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_what_older_and_newer_torch_wrote_is_read(protocol: int) -> None:
    """TensorProperties came from another module, and objects had fewer attributes or will have more."""
    index, info = MetadataIndex("a", [0], 0), filesystem._StorageInfo("__0_0.distcp", 0, 100)
    whole = pickle.loads(described())
    whole.storage_data = {index: info}
    whole.storage_meta = StorageMeta(Path("/a/b"), "save", "load", [])
    vars(whole)["of the future"] = {"more": [1, 2]}
    vars(info)["of the future"] = None
    del whole.version, info.transform_descriptors
    data = pickle.dumps(whole, protocol)
    if protocol == 2:
        moved = b"torch.distributed._shard.sharded_tensor.metadata"
        for name_of_it in (b"TensorProperties", b"_MEM_FORMAT_ENCODING"):
            told = b"ctorch.distributed.checkpoint.metadata\n" + name_of_it
            assert told in data
            data = data.replace(told, b"c" + moved + b"\n" + name_of_it.removeprefix(b"_"))
    loaded = load_metadata(data, "here")
    assert loaded.state_dict_metadata == pickle.loads(described()).state_dict_metadata
    assert loaded.storage_data == {index: filesystem._StorageInfo("__0_0.distcp", 0, 100)}
    assert loaded.planner_data == {"a": ("a",)}
