"""``elaunch ckpt`` with URLs: as in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from elaunch.checkpoint.storages import beats
from elaunch.checkpoint.storages.open_storage import open_storage
from elaunch.cli.main import main
from tests.checkpoint import buckets
from tests.checkpoint.stored import Told, Training

pytestmark = pytest.mark.torch
Ckpt = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ckpt(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ckpt:
    """Run a command in this process: exit code, stdout, stderr."""
    monkeypatch.setattr(beats, "INTERVAL", 0.3)
    monkeypatch.setattr(beats, "MISSED", 100)  # 30 s: who lives is seen at the next beat, however late that comes

    def run(*words: object) -> tuple[int, str, str]:
        code = main(["ckpt", *map(str, words)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.fixture(params=buckets.OBJECTS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return buckets.url(request.param, tmp_path, request)


def test_all_commands(ckpt: Ckpt, where: str, tmp_path: Path) -> None:
    training = Training(where, Told(1, "run7"))
    names = [training.save(step).name for step in (10, 20, 30)]
    code, out, err = ckpt("ls", where)
    assert (code, err) == (0, "")
    assert "job run7 generation 1" in out, "who writes there lives"
    assert [line.split()[0] for line in out.splitlines() if "step-" in line or line[:2].strip().isdigit()] != []
    code, _, err = ckpt("rm", where, "10", "--yes")
    assert code != 0
    assert "job run7 generation 1" in err, "it removes old ones itself"
    training.ckpt.close()

    assert json.loads(ckpt("ls", where, "--json")[1])["checkpoints"][-1]["state"] == "ok"
    assert "model.weight" in ckpt("show", where, "20")[1]
    assert ckpt("verify", where)[0] == 0
    out_file = tmp_path / "model.pt"
    assert ckpt("export", where, "20", out_file)[0] == 0
    weight = torch.load(out_file, weights_only=True)["model"]["weight"]
    assert weight[0, 1] == 20.5
    assert ckpt("rm", where, "10", "--yes")[0] == 0
    assert open_storage(where).checkpoints() == names[1:]

    storage = open_storage(where)
    path = f"{names[2]}/__0_0.distcp"
    data = bytearray(storage.read(path, 1 << 20))
    data[100] ^= 1
    storage.write(path, bytes(data))
    code, out, err = ckpt("verify", where)
    assert code == 65
    assert f"{path}: damaged" in out + err


@pytest.mark.parametrize(
    ("url", "change", "sentence"),
    [
        ("s3://no-such-bucket/run", {}, "no such directory"),
        ("s3://checkpoints/none", {}, "no such directory"),
        ("s3://checkpoints/none", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "not reached"),
        ("s3://checkpoints/none", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no credentials"),
        ("memory://none", {}, "no such directory"),
        ("nosuch://none", {}, "nosuch"),
    ],
)
def test_what_is_wrong_is_one_line(s3_server: str, url: str, change: dict[str, str], sentence: str) -> None:
    quiet = {"AWS_MAX_ATTEMPTS": "1", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    env = {**os.environ, **buckets.environment(s3_server), **quiet, **change}
    command = [sys.executable, "-m", "elaunch", "ckpt", "ls", url]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_no_torch_for_looking_and_no_fsspec_for_a_folder(tmp_path: Path, s3_server: str) -> None:
    program = """
import sys
from elaunch.cli.main import main
main(["ckpt", "ls", sys.argv[1]])
assert not {"torch", "fsspec", "s3fs"} & sys.modules.keys()
main(["ckpt", "ls", sys.argv[2]])
assert "s3fs" in sys.modules and "torch" not in sys.modules
"""
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-c", program, str(tmp_path / "empty"), "s3://checkpoints/none"]
    env = {**os.environ, **buckets.environment(s3_server)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
