"""``elaunch ckpt export``: what was saved comes out in one file, whole or not at all, in little memory."""

from __future__ import annotations

import itertools
import json
import math
import resource
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from elaunch.checkpoint import RNG, Checkpointer, PerRank  # noqa: E402
from elaunch.checkpoint.encoding import shards  # noqa: E402
from elaunch.checkpoint.exporting.export import open_export  # noqa: E402
from elaunch.checkpoint.storages.posix import Posix  # noqa: E402
from elaunch.cli.main import main  # noqa: E402
from tests.checkpoint.sharded import rows, write  # noqa: E402
from tests.unit.checkpoint.made import flip  # noqa: E402

pytestmark = pytest.mark.torch

Ckpt = Callable[..., tuple[int, str, str]]
_DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


@pytest.fixture
def ckpt(capsys: pytest.CaptureFixture[str]) -> Ckpt:
    """Run a command in this process: exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        code = main(["ckpt", *map(str, words)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def _same(one: Any, other: Any) -> bool:
    """Equal in every bit, and of the same classes."""
    if isinstance(one, torch.Tensor):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and torch.equal(
            one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8)
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _random(shape: tuple[int, ...], dtype: Any) -> Any:
    if dtype == torch.bool:
        return torch.randint(0, 2, shape).bool()
    size = math.prod(shape) * dtype.itemsize
    return (
        torch.randint(0, 256, (size,), dtype=torch.uint8).view(dtype).view(shape)
        if size
        else torch.empty(shape, dtype=dtype)
    )


@st.composite
def _sharded(draw: st.DrawFn) -> dict[str, Any]:
    """Tensors of any type and shape, each cut along every dimension into a grid of chunks, some of them empty."""
    made = {}
    for number in range(draw(st.integers(1, 4))):
        shape = tuple(draw(st.lists(st.integers(0, 7), max_size=3)))
        cuts = []
        for length in shape:
            inner = sorted(draw(st.lists(st.integers(0, length), max_size=2)))
            cuts.append(list(itertools.pairwise((0, *inner, length))))
        grid = list(itertools.product(*cuts))
        chunks = [([a for a, _ in cell], [b - a for a, b in cell]) for cell in dict.fromkeys(grid)]
        offsets = [tuple(at) for at, _ in chunks]  # an empty chunk stands at the same place as the one after it
        chunks = [chunk for place, chunk in enumerate(chunks) if tuple(chunk[0]) not in offsets[place + 1 :]]
        made[f"model.{number}"] = _random(shape, draw(st.sampled_from(_DTYPES))), chunks
    return made


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_sharded(), st.sampled_from([1, 16, 100, 8 << 20]))
def test_any_tensors_cut_in_any_way(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, tensors: Any, piece: int
) -> None:
    monkeypatch.setattr(shards, "PIECE", piece)
    root = tmp_path_factory.mktemp("any")
    name = write(root, 7, tensors, {"lr": 0.5})
    opened = open_export(Posix(root), name, is_stock=False)
    for out in (root / "x.pt", root / "x.safetensors"):
        opened.write(out, "model", False, lambda _: None)
    loaded = torch.load(root / "x.pt", weights_only=True)
    read = safetensors.load_file(root / "x.safetensors")
    for key, (tensor, _) in tensors.items():
        assert _same(loaded[key.removeprefix("model.")], tensor)
        assert _same(read[key.removeprefix("model.")], tensor)
    assert zipfile.ZipFile(root / "x.pt").testzip() is None


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A directory that a program has saved to, and what it should come out as."""
    numpy = pytest.importorskip("numpy")
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
    optim = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(4, 8)).sum().backward()
    optim.step()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optim, [3, 9])
    tree = {
        "empty": {},
        "none": None,
        "ordered": OrderedDict(b=1, a=torch.zeros(0, 3)),
        "tuple": (1, torch.ones(2, dtype=torch.bfloat16)),
        3: [True, 2.5, {"x": torch.arange(4)}],
    }
    mine = {"seen": torch.arange(5), "text": "x"}
    objects = {
        "model": model,
        "optim": optim,
        "lr": scheduler,
        "tree": {**tree, "array": numpy.arange(3.0)},
        "step": [7],
        "mine": PerRank(mine),
        "rng": RNG(),
    }
    root = tmp_path_factory.mktemp("program") / "run"
    with Checkpointer(root, objects) as saver:
        saver.save(100)
        assert saver.wait().committed
    names = [name for name, _ in model.named_parameters()]
    state = optim.state_dict()
    groups = [{**group, "params": [names[place] for place in group["params"]]} for group in state["param_groups"]]
    expected = {
        "model": dict(model.state_dict()),
        "optim": {"state": {names[place]: one for place, one in state["state"].items()}, "param_groups": groups},
        "lr": scheduler.state_dict(),
        "tree": {**tree, "array": torch.arange(3.0, dtype=torch.float64)},
        "step": [7],
        "mine": [mine],
    }
    return root, expected


def test_a_program_s_states_come_out_as_they_were(ckpt: Ckpt, program: Any, tmp_path: Path) -> None:
    root, expected = program
    code, text, _ = ckpt("export", root, tmp_path / "all.pt")
    assert code == 0
    assert text.startswith(f"{tmp_path}/all.pt: ")
    loaded = torch.load(tmp_path / "all.pt", weights_only=True)
    assert set(loaded) == {*expected, "rng"}
    assert [name for name in expected if not _same(loaded[name], expected[name])] == []
    assert len(loaded["rng"]) == 1


def test_one_state_by_itself_fits_the_object(ckpt: Ckpt, program: Any, tmp_path: Path) -> None:
    root, expected = program
    for out in ("model.pt", "model.safetensors"):
        assert ckpt("export", root, "--only", "model", 100, tmp_path / out)[0] == 0
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))
    model.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert _same(dict(model.state_dict()), expected["model"])
    model.load_state_dict(safetensors.load_file(tmp_path / "model.safetensors"))
    assert _same(dict(model.state_dict()), expected["model"])
    with safetensors.safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "checkpoint": "step-00000100", "step": "100"}
    assert ckpt("export", root, "--only", "step", tmp_path / "step.pt")[0] == 0
    assert torch.load(tmp_path / "step.pt", weights_only=True) == [7]


def test_what_safetensors_cannot_hold_is_named(ckpt: Ckpt, program: Any, tmp_path: Path) -> None:
    root, expected = program
    code, text, _ = ckpt("export", root, tmp_path / "all.safetensors")
    assert (code, "left out, as the format takes named tensors only:" in text) == (0, True)
    told = json.loads(ckpt("export", root, tmp_path / "all.safetensors", "--force", "--json")[1])
    assert {"optim.param_groups.0.lr", "elaunch.per_rank.0.mine.value", "step"} <= set(told["left_out"])
    read = safetensors.load_file(tmp_path / "all.safetensors")
    assert _same(read["tree.tuple.1"], expected["tree"]["tuple"][1])
    assert told["tensors"] == len(read)
    write(tmp_path / "wide", 1, {"model.w": (torch.zeros(2, dtype=torch.complex128), [((0,), (2,))])})
    code, _, error = ckpt("export", tmp_path / "wide", tmp_path / "wide.safetensors")
    assert (code, "model.w is of type complex128, which safetensors does not have" in error) == (2, True)
    assert ckpt("export", tmp_path / "wide", tmp_path / "wide.pt")[0] == 0


def test_the_file_is_torch_save_s_own(program: Any, tmp_path: Path) -> None:
    """Byte for byte, but for the number that torch draws for each file."""
    root, expected = program
    open_export(Posix(root), "step-00000100", False).write(tmp_path / "x.pt", "model", False, lambda _: None)
    with (tmp_path / "own.pt").open("wb") as file:
        torch.save(expected["model"], file)
    ours, own = (zipfile.ZipFile(tmp_path / name) for name in ("x.pt", "own.pt"))
    drawn = "archive/.data/serialization_id"
    assert [one.filename for one in ours.infolist()] == [one.filename for one in own.infolist()]
    for info, other in zip(ours.infolist(), own.infolist(), strict=True):
        assert info.filename == drawn or (info.CRC, info.header_offset) == (other.CRC, other.header_offset)
        assert info.filename == drawn or ours.read(info) == own.read(other)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_what_stock_code_wrote(ckpt: Ckpt, tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    state = {"model": {"w": torch.randn(100, 7), "b": torch.ones(3, dtype=torch.bfloat16)}, "n": {"epoch": 3}}
    dcp.save(state, checkpoint_id=tmp_path / "stock", no_dist=True)
    assert (
        "no sums: no manifest.json: torch.distributed.checkpoint itself wrote it" in ckpt("ls", tmp_path / "stock")[1]
    )
    code, text, _ = ckpt("show", tmp_path / "stock")
    assert (code, "model.w" in text, "n.epoch" in text) == (0, True, True)
    code, text, _ = ckpt("verify", tmp_path / "stock")
    assert (code, "has no sums" in text) == (68, True)
    assert ckpt("export", tmp_path / "stock", tmp_path / "x.pt")[0] == 0
    assert _same(torch.load(tmp_path / "x.pt", weights_only=True), state)
    assert ckpt("export", tmp_path / "stock", tmp_path / "x.safetensors", "--only", "model")[0] == 0
    assert _same(safetensors.load_file(tmp_path / "x.safetensors")["w"], state["model"]["w"])


def test_a_hostile_metadata_is_refused(ckpt: Ckpt, tmp_path: Path) -> None:
    (tmp_path / "stock").mkdir()
    (tmp_path / "stock" / ".metadata").write_bytes(b"cos\nsystem\n(S'touch /tmp/owned'\ntR.")
    for words in (["show", tmp_path / "stock"], ["export", tmp_path / "stock", tmp_path / "x.pt"]):
        code, _, error = ckpt(*words)
        assert (code, len(error.splitlines())) == (65, 1)
        assert "posix.system has no place" in error or "os.system has no place" in error


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A checkpoint of four ranks with a tensor of 10 MB."""
    tensor = torch.arange(2_500_000, dtype=torch.float32).view(-1, 100)
    write(tmp_path / "run", 100, {"model.w": (tensor, rows(tensor, 4))})
    return tmp_path / "run"


def test_damage_leaves_no_file_behind(ckpt: Ckpt, wide: Path, tmp_path: Path) -> None:
    flip(wide / "step-00000100" / "__2_0.distcp", 1_500_000)
    for out in ("x.pt", "x.safetensors"):
        code, _, error = ckpt("export", wide, tmp_path / out)
        assert (code, "step-00000100/__2_0.distcp: damaged between bytes 0 and" in error) == (65, True)
    (wide / "step-00000100" / "__1_0.distcp").unlink()
    code, _, error = ckpt("export", wide, 100, tmp_path / "x.pt")
    assert (code, "__1_0.distcp: is missing" in error) == (65, True)
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("room", [10, 1000, 4_000_000])
def test_a_full_disk_leaves_what_was_there(ckpt: Ckpt, wide: Path, tmp_path: Path, room: int) -> None:
    (tmp_path / "x.pt").write_text("the old one")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        told = [ckpt("export", wide, tmp_path / out, "--force") for out in ("x.pt", "x.safetensors")]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(code, "File too large" in error, len(error.splitlines())) for code, _, error in told] == [
        (74, True, 1)
    ] * 2
    assert (tmp_path / "x.pt").read_text() == "the old one"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run", "x.pt"]


def test_a_file_that_comes_to_be_meanwhile_is_not_written_over(wide: Path, tmp_path: Path) -> None:
    from elaunch.errors import CheckpointRefusedError

    out = tmp_path / "x.safetensors"
    opened = open_export(Posix(wide), "step-00000100", False)
    with pytest.raises(CheckpointRefusedError, match="has come to be meanwhile"):
        opened.write(out, "", False, lambda _: out.write_text("another's"))
    assert out.read_text() == "another's"
    opened.write(out, "", True, lambda _: None)
    assert torch.equal(safetensors.load_file(out)["model.w"].view(-1), torch.arange(2_500_000, dtype=torch.float32))


def test_nothing_removes_it_meanwhile(wide: Path, tmp_path: Path) -> None:
    storage, seen = Posix(wide), set()
    opened = open_export(storage, "step-00000100", False)
    opened.write(tmp_path / "x.pt", "", False, lambda _: seen.add(storage.is_read("step-00000100/manifest.json")))
    assert seen == {True}
    assert not storage.is_read("step-00000100/manifest.json")


def test_a_gap_between_the_shards_is_found(ckpt: Ckpt, tmp_path: Path) -> None:
    write(tmp_path / "run", 1, {"w": (torch.arange(8.0), [((0,), (5,)), ((1,), (6,))])})
    for out in ("x.pt", "x.safetensors"):
        assert ckpt("export", tmp_path / "run", tmp_path / out)[0] == 65
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


_MEASURED = """
import sys
from pathlib import Path
from elaunch.checkpoint.exporting.export import open_export
from elaunch.checkpoint.storages.posix import Posix

def most():  # kB
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])

out, before = Path(sys.argv[2]), 0
for suffix in (".pt", ".safetensors"):
    for name in ("step-00000001", "step-00000002"):  # the small one first, for what torch takes once
        before = before or most() if name == "step-00000002" else before
        path = out / (name + suffix)
        open_export(Posix(Path(sys.argv[1])), name, False).write(path, "", False, lambda _: None)
print(most() - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_state(tmp_path: Path) -> None:
    """256 MB in four files, by rows and columns: what is held is some pieces, and one block of each file."""
    whole = torch.arange(64_000_000, dtype=torch.float32).view(8000, 8000)
    for step, tensor in ((1, whole[:100]), (2, whole)):
        half = len(tensor) // 2
        cells = [((row, column), (half, 4000)) for row in (0, half) for column in (0, 4000)]
        write(tmp_path / "run", step, {"w": (tensor, cells)})
    command = [sys.executable, "-c", _MEASURED, str(tmp_path / "run"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 110_000, "less than two of the files; the allocator makes 50 to 75 MB of what is held"
    assert (tmp_path / "step-00000002.pt").stat().st_size > 256_000_000
