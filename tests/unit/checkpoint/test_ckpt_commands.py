"""``elaunch ckpt`` on directories that were made without torch: what it says, what it does, how it ends."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elaunch.checkpoint.records import attempts, removing, sums
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.manifest import Manifest
from elaunch.checkpoint.records.survey import survey
from elaunch.checkpoint.storages import layout
from elaunch.checkpoint.storages.posix import Posix
from elaunch.cli.main import main
from elaunch.cli.progress_bar import ProgressBar
from elaunch.errors import CheckpointRefusedError
from tests.unit.checkpoint.made import add, claimed, flip

Ckpt = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ckpt(capsys: pytest.CaptureFixture[str]) -> Ckpt:
    """Run a command in this process: exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        code = main(["ckpt", *map(str, words)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.fixture(scope="module")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "run"
    hold = claimed(root)
    for step in (100, 200, 300):
        add(root, step, size=5000)
    hold.release()
    return root


@pytest.fixture
def directory(tmp_path: Path, _template: Path) -> Path:
    """Three good checkpoints of a job that is gone."""
    return Path(shutil.copytree(_template, tmp_path / "run"))


def _row(text: str, first: str) -> str:
    return next(line for line in text.splitlines() if line.split()[:1] == [first])


def test_ls_shows_step_age_size_world_origin_and_marks_the_newest(ckpt: Ckpt, directory: Path) -> None:
    code, text, _ = ckpt("ls", directory)
    assert code == 0
    assert re.search(r"90 s|2 min", row := _row(text, "300"))
    assert re.search(r"1\d\.\d kB", row)
    assert "2 (dp 2)" in row
    assert "job run7, generation 3" in row
    assert row.endswith("ok, newest")
    assert _row(text, "200").endswith("ok")


def test_ls_tells_the_state_of_health_of_each(ckpt: Ckpt, directory: Path) -> None:
    for step in (400, 500, 600, 700):
        add(directory, step, size=5000)
    storage = Posix(directory)
    Catalog(storage).mark("step-00000300", "its sums did not fit")
    (directory / "step-00000400" / "__1_0.distcp").unlink()
    os.truncate(directory / "step-00000500" / "__0_0.distcp", 4999)
    (directory / "step-00000600" / "manifest.json").unlink()
    flip(directory / "step-00000700" / "manifest.json", 20)
    for _ in range(attempts.LIMIT):
        attempts.begun(storage, 200)
    text = ckpt("ls", directory)[1]
    assert _row(text, "100").endswith("ok, newest")
    assert "suspect: 3 starts from it came to no save" in _row(text, "200")
    assert _row(text, "300").endswith("set aside: its sums did not fit")
    assert _row(text, "400").endswith("partial: step-00000400/__1_0.distcp: is missing")
    assert _row(text, "500").endswith("partial: step-00000500/__0_0.distcp: has 4999 bytes, 5000 were written")
    assert _row(text, "600").endswith("partial: step-00000600: has no manifest.json")
    assert "damaged: step-00000700/manifest.json: damaged or cut off" in _row(text, "700")
    states = {one["step"]: one["state"] for one in json.loads(ckpt("ls", directory, "--json")[1])["checkpoints"]}
    assert list(states.values()) == ["ok", "suspect", "set_aside", "partial", "partial", "partial", "damaged"]


def test_ls_tells_a_save_that_is_written_from_one_that_was_left(ckpt: Ckpt, directory: Path) -> None:
    hold = claimed(directory, generation=4)
    storage = Posix(directory)
    storage.make(storage.staging(400, 4, hold.number))
    try:
        text = ckpt("ls", directory)[1]
        assert f"being written: by job run7 generation 4 on gpu-01 (pid {os.getpid()})" in _row(text, "400")
        assert text.splitlines()[-1].endswith("writes there")
    finally:
        hold.release()
    assert "left over: of job run7 generation 4 on gpu-01" in _row(ckpt("ls", directory)[1], "400")
    storage.make(storage.staging(350, 1, 1))
    assert "left over: of a run that is over; the next one removes it" in _row(ckpt("ls", directory)[1], "350")


def test_a_step_that_two_runs_have_saved_is_told_by_name(ckpt: Ckpt, directory: Path) -> None:
    name = add(directory, 200, size=5000, number=2)
    text = ckpt("ls", directory)[1]
    assert _row(text, name).endswith("ok, newest")  # later history, though not a later step
    assert ckpt("show", directory, 200)[1].startswith(f"{directory}/{name}\n")
    code, _, error = ckpt("rm", directory, 200, "--yes")
    assert (code, "was saved more than once; name the checkpoint: step-00000200, step-00000200.claim-2" in error) == (
        2,
        True,
    )
    assert ckpt("rm", directory, "step-00000200", "--yes")[0] == 0
    assert (directory / name).is_dir()


def test_show(ckpt: Ckpt, directory: Path) -> None:
    code, text, _ = ckpt("show", directory)
    assert code == 0
    assert text.startswith(f"{directory}/step-00000300\nstep 300, saved ")
    assert "by job run7, generation 3, restart 2, host gpu-01 (elaunch 0.1.0, torch 2.13.0)" in text
    assert _row(text, "model.weight").split() == ["model.weight", "float32", "1024x1024", "4.2", "MB", "Shard(dim=0)"]
    assert _row(text, "model.scale").split()[1:3] == ["bfloat16", "scalar"]
    assert "rng: ranks 0 to 1 (2 tensors)" in text
    assert "elaunch.shape" not in text
    assert _row(text, "total").split() == ["total", "2", "1,048,577", "4.2", "MB", "1"]
    assert ckpt("show", directory / "step-00000200")[1].splitlines()[1].startswith("step 200")
    assert ckpt("show", directory, 100)[1].splitlines()[1].startswith("step 100")


def test_show_as_a_document(ckpt: Ckpt, directory: Path) -> None:
    told = json.loads(ckpt("show", directory, "--json")[1])
    assert told["step"] == 300
    assert told["elements"] == 1024 * 1024 + 1
    assert told["tensors"]["model.weight"] == {
        "dtype": "float32",
        "shape": [1024, 1024],
        "placements": "Shard(dim=0)",
        "size": 4 << 20,
    }
    assert told["per_rank"] == {"rng": {"ranks": [0, 1], "tensors": 2}}
    assert (told["origin"]["job"], told["files"]["__0_0.distcp"]) == ("run7", 5000)


def test_a_name_does_not_move_the_cursor(ckpt: Ckpt, directory: Path) -> None:
    from elaunch.checkpoint.records.manifest import Entry

    add(directory, 400, size=10, entries={"model.\x1b[2J": Entry("float32", (1,))})
    assert "model.\\x1b[2J" in ckpt("show", directory)[1]


def test_verify_says_all_that_is_damaged_and_ends_with_65(ckpt: Ckpt, directory: Path) -> None:
    assert ckpt("verify", directory)[:2] == (
        0,
        "".join(f"step-00000{step}: ok, 3 files, 10.0 kB\n" for step in (100, 200, 300)),
    )
    flip(directory / "step-00000200" / "__0_0.distcp", 4000)
    (directory / "step-00000200" / "__1_0.distcp").unlink()
    code, text, _ = ckpt("verify", directory, 200, 300)
    assert (code, text.splitlines()) == (
        65,
        [
            "step-00000200: damaged",
            "  step-00000200/__0_0.distcp: damaged between bytes 0 and 5000: their sum does not fit",
            "  step-00000200/__1_0.distcp: is missing",
            "step-00000300: ok, 3 files, 10.0 kB",
        ],
    )
    told = json.loads(ckpt("verify", directory, "--json")[1])
    assert [(one["ok"], len(one["damages"])) for one in told] == [(True, 0), (False, 2), (True, 0)]
    assert Catalog(Posix(directory)).marks() == {}


def test_verify_sets_aside_and_takes_the_mark_away_when_asked(ckpt: Ckpt, directory: Path) -> None:
    data = directory / "step-00000300" / "__0_0.distcp"
    flip(data, 7)
    assert ckpt("verify", directory, 300, "--mark")[1].startswith("step-00000300: damaged (set aside)")
    assert "their sum does not fit" in Catalog(Posix(directory)).marks()["step-00000300"]
    assert _row(ckpt("ls", directory)[1], "200").endswith("ok, newest")
    assert ckpt("verify", directory, 300, "--unmark")[0] == 65
    flip(data, 7)
    assert ckpt("verify", directory, 300, "--mark") == (0, "step-00000300: ok, 3 files, 10.0 kB\n", "")
    assert "step-00000300" in Catalog(Posix(directory)).marks()
    assert "(no longer set aside)" in ckpt("verify", directory / "step-00000300", "--unmark")[1]
    assert Catalog(Posix(directory)).marks() == {}


def test_verify_goes_on_after_one_that_cannot_be_read(
    ckpt: Ckpt, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reading(storage: Posix, name: str) -> Any:
        if name.startswith("step-00000200"):
            raise OSError(5, "Input/output error", f"{storage.root}/{name}")
        return real(storage, name)

    real = Posix.reading
    monkeypatch.setattr(Posix, "reading", reading)
    code, text, _ = ckpt("verify", directory)
    assert code == 74
    assert [line.split(":")[1] for line in text.splitlines() if line.startswith("step")] == [
        " ok, 3 files, 10.0 kB",
        " not verified",
        " ok, 3 files, 10.0 kB",
    ]


def test_what_is_verified_is_not_removed_meanwhile(directory: Path) -> None:
    from elaunch.checkpoint.records.verifying import verify

    seen = []
    verify(
        Posix(directory),
        "step-00000300",
        lambda _: seen.append(Posix(directory).is_read(f"step-00000300/{layout.MANIFEST}")),
    )
    assert seen == [True] * 3
    assert not Posix(directory).is_read(f"step-00000300/{layout.MANIFEST}")
    assert verify(Posix(directory), "step-00000999", lambda _: None) is None


def test_rm_removes_and_says_what_was_freed(ckpt: Ckpt, directory: Path) -> None:
    Catalog(Posix(directory)).mark("step-00000100", "x")
    code, text, _ = ckpt("rm", directory, 100, 200, 100, "--yes")
    assert code == 0
    assert [re.sub(r"1\d\.\d kB", "N kB", line) for line in text.splitlines()] == [
        "step-00000100: removed, N kB freed",
        "step-00000200: removed, N kB freed",
    ]
    assert Catalog(Posix(directory)).names() == ["step-00000300"]
    assert Catalog(Posix(directory)).marks() == {}
    assert list((directory / layout.REMOVING).iterdir()) == list((directory / layout.TRASH).iterdir()) == []


def test_rm_asks_at_a_terminal_and_nowhere_else(ckpt: Ckpt, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    code, _, error = ckpt("rm", directory, 100)
    assert (code, "--yes" in error) == (2, True)
    for answer, kept in (("n", True), ("", True), ("y", False)):
        stdin = io.StringIO(f"{answer}\n")
        stdin.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdin", stdin)
        code, _, error = ckpt("rm", directory, 100)
        assert (code, (directory / "step-00000100").is_dir()) == (68 if kept else 0, kept)
        assert "remove step-00000100 from" in error


def test_rm_keeps_the_last_good_one(ckpt: Ckpt, directory: Path) -> None:
    flip(directory / "step-00000100" / "manifest.json", 9)
    Catalog(Posix(directory)).mark("step-00000200", "x")
    code, _, error = ckpt("rm", directory, 300, "--yes")
    assert (code, "no good checkpoint would be left; --force removes it all the same" in error) == (68, True)
    assert ckpt("rm", directory, 100, "--yes")[0] == 0  # a damaged one may go
    assert ckpt("rm", directory, 300, "--yes", "--force")[0] == 0


def test_rm_leaves_a_directory_alone_that_is_written_to(ckpt: Ckpt, directory: Path) -> None:
    hold = claimed(directory, generation=4)
    try:
        code, _, error = ckpt("rm", directory, 100, "--yes")
        assert (code, "job run7 generation 4 on gpu-01" in error, "--force" in error) == (68, True, True)
        assert ckpt("rm", directory, 100, "--yes", "--force")[0] == 0
    finally:
        hold.release()
    assert ckpt("rm", directory, 200, "--yes")[0] == 0


def test_rm_never_removes_what_is_being_read(ckpt: Ckpt, directory: Path) -> None:
    hold = Posix(directory).reading(f"step-00000100/{layout.MANIFEST}")
    try:
        code, _, error = ckpt("rm", directory, 200, 100, "--yes", "--force")
        assert (code, "step-00000100: is being read now" in error) == (68, True)
        assert len(Catalog(Posix(directory)).names()) == 3
    finally:
        hold.release()


def test_rm_that_finds_a_reader_at_the_last_moment(
    ckpt: Ckpt, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removing, "_refuse_read", lambda *_: None)
    hold = Posix(directory).reading(f"step-00000100/{layout.MANIFEST}")
    try:
        code, _, error = ckpt("rm", directory, 100, "--yes")
        assert (code, "step-00000100: is being read now" in error) == (68, True)
        assert _row(ckpt("ls", directory)[1], "100").endswith("ok")
    finally:
        hold.release()


def test_a_partial_one_is_removed_whole(ckpt: Ckpt, directory: Path) -> None:
    (directory / "step-00000200" / "manifest.json").unlink()
    assert ckpt("rm", directory, 200, "--yes")[:2] == (0, "step-00000200: removed\n")
    assert not (directory / "step-00000200").exists()
    assert list((directory / layout.TRASH).iterdir()) == []


def test_of_two_that_together_would_remove_all_one_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes when the first has looked, and has not removed anything yet."""
    real = removing._refuse_last
    second: list[Any] = []

    def refuse_last(*arguments: Any) -> None:
        real(*arguments)
        if not second:
            second.append(None)
            with pytest.raises(CheckpointRefusedError, match="another elaunch ckpt rm removes the rest"):
                list(removing.remove(Posix(directory), ["step-00000200", "step-00000300"], force=False))
            second.extend(removing.remove(Posix(directory), ["step-00000200"], force=False))

    monkeypatch.setattr(removing, "_refuse_last", refuse_last)
    list(removing.remove(Posix(directory), ["step-00000100"], force=False))
    assert Catalog(Posix(directory)).names() == ["step-00000300"]
    assert second[1].name == "step-00000200"


def test_two_that_remove_the_same_at_once(directory: Path) -> None:
    told: list[removing.Removed] = []
    barrier = threading.Barrier(2)

    def run() -> None:
        barrier.wait(10)
        told.extend(removing.remove(Posix(directory), ["step-00000100"], force=False))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(told) == 2
    assert Catalog(Posix(directory)).names() == ["step-00000200", "step-00000300"]


def test_what_a_killed_rm_was_about_to_remove_counts_again(ckpt: Ckpt, directory: Path) -> None:
    (directory / layout.REMOVING).mkdir()
    (directory / layout.REMOVING / "0123.json").write_text('["step-00000200", "step-00000300"]')
    assert ckpt("rm", directory, 100, "--yes")[0] == 0
    assert list((directory / layout.REMOVING).iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ([], 2, "ckpt: a command is missing; expected ls, show, verify, rm, export"),
        (["frob"], 2, "ckpt: 'frob' is not one of its commands"),
        (["ls"], 2, "ckpt ls: the following arguments are required: DIR"),
        (["ls", "ROOT", "--frob"], 2, "ckpt ls: unrecognized arguments: --frob"),
        (["ls", ""], 2, "'' is no name of a checkpoint directory"),
        (["ls", "s4://bucket/run"], 2, "s4://bucket/run"),
        (["ls", "file://elsewhere/run"], 2, "expected file:///PATH"),
        (["ls", "ROOT/nope"], 66, "ROOT/nope: no such directory"),
        (["ls", "ROOT/foreign/readme.md"], 66, "is no directory; expected the one that a Checkpointer writes to"),
        (["ls", "ROOT/foreign"], 66, "ROOT/foreign: holds no checkpoints, but 'readme.md'"),
        (["show", "ROOT/empty"], 66, "ROOT/empty: holds no checkpoint"),
        (["verify", "ROOT/empty"], 66, "ROOT/empty: holds no checkpoint"),
        (["show", "ROOT/run", "150"], 66, "ROOT/run: no checkpoint 150; there are: 100, 200, 300"),
        (["show", "ROOT/run", "step-00000150"], 66, "no checkpoint step-00000150"),
        (["show", "ROOT/run", "newest"], 2, "'newest' is neither a step nor the name of a checkpoint"),
        (["show", "ROOT/half"], 66, "holds no good checkpoint (step-00000001: step-00000001: has no manifest.json)"),
        (["show", "ROOT/half/step-00000001"], 65, "step-00000001: has no manifest.json"),
        (["rm", "ROOT/run"], 2, "ckpt rm: the following arguments are required: STEP"),
        (["rm", "ROOT/run", "150", "--yes"], 66, "no checkpoint 150"),
        (["rm", "ROOT/run/step-00000100", "100", "--yes"], 2, "is one checkpoint; expected the directory of a run"),
        (["verify", "ROOT/alone/step-00000100", "--mark"], 2, "is no directory of a run; marks are kept there"),
        (["export", "ROOT/run"], 2, "ckpt export: the following arguments are required: OUT"),
        (["export", "ROOT/run", "100", "ROOT/x.bin"], 2, "expected a name that ends in .pt, .pth, .safetensors"),
        (["export", "ROOT/run", "ROOT/none/x.pt"], 2, "ROOT/none is no directory; make it first"),
        (["export", "ROOT/run", "ROOT/there.pt"], 68, "ROOT/there.pt: is there already; --force writes over it"),
        (["export", "ROOT/run", "ROOT/folder.pt", "--force"], 2, "is a directory; expected a file name"),
    ],
)
def test_bad_input_is_one_sentence(ckpt: Ckpt, directory: Path, words: list[str], code: int, sentence: str) -> None:
    root = directory.parent
    for name in ("foreign", "empty", "half/step-00000001", "half/.elaunch", "folder.pt", "alone"):
        (root / name).mkdir(parents=True)
    (root / "half/step-00000001/__0_0.distcp").write_bytes(b"half")
    (root / "foreign/readme.md").touch()
    (root / "there.pt").touch()
    (directory / "step-00000100").rename(root / "alone/step-00000100")
    add(directory, 100, size=10)
    told, out, error = ckpt(*(word.replace("ROOT", str(root)) for word in words))
    assert (told, out) == (code, "")
    assert len(error.splitlines()) == 1
    assert error.startswith("elaunch: error: ")
    assert sentence.replace("ROOT", str(root)) in error


_ODD: list[Any] = [None, -1, 1 << 70, 10**4000, "\x1b[2J", [[]], {"a": 1}, float("inf"), "9" * 5000]


def test_a_forged_manifest_is_one_sentence(ckpt: Ckpt, directory: Path) -> None:
    """Any value of it replaced by any other, with sums that fit."""
    path = directory / "step-00000300" / "manifest.json"
    good = json.loads(path.read_bytes())
    good["entries"] = {key: good["entries"][key] for key in ("model.weight", "lr.last_epoch")}
    good["entries"]["many"] = {"dtype": "float32", "shape": [1 << 62] * 64}
    good["files"] = {"__0_0.distcp": good["files"]["__0_0.distcp"]}
    for place in _places(good):
        for odd in _ODD:
            forged = json.loads(json.dumps(good))
            holder = forged
            for step in place[:-1]:
                holder = holder[step]
            holder[place[-1]] = odd
            forged.pop("sum", None)
            head = json.dumps(forged, indent=1).rstrip().removesuffix("}").rstrip() + ',\n "sum": "'
            path.write_text(f'{head}{sums.whole(head.encode())}"\n}}\n')
            for command in ("ls", "show"):
                code, text, error = ckpt(command, directory, *([300] if command != "ls" else []))
                assert code in (0, 65, 74), (place, odd, error)
                assert len(error.splitlines()) <= 1
                assert "\x1b" not in text + error


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*place, key))


def test_a_file_of_a_checkpoint_s_name_is_none(ckpt: Ckpt, directory: Path) -> None:
    (directory / "step-00000400").touch()
    assert "unreadable: " in _row(ckpt("ls", directory)[1], "400")
    assert ckpt("show", directory)[1].splitlines()[1].startswith("step 300")


def test_an_empty_directory_is_listed_as_one(ckpt: Ckpt, tmp_path: Path) -> None:
    assert ckpt("ls", tmp_path) == (0, f"{tmp_path}: no checkpoints\n", "")
    assert ckpt("ls", tmp_path.as_uri())[0] == 0


def test_an_error_is_a_document_too(ckpt: Ckpt, tmp_path: Path) -> None:
    code, text, _ = ckpt("show", tmp_path, "--json")
    assert code == 66
    assert json.loads(text) == {
        "error": "checkpoint_not_found",
        "text": f"{tmp_path}: holds no checkpoint",
        "exit_code": 66,
    }


_AS_NOBODY = """
import os, sys
import locale
import elaunch.agent.console, elaunch.cli.ckpt
from elaunch.cli.main import main
os.setgid(65534); os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
@pytest.mark.parametrize("inner", [False, True])
def test_what_may_not_be_read_is_said_with_77(tmp_path: Path, directory: Path, inner: bool) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:  # of which nobody is shut out above
        root = Path(folder) / "run"
        directory.rename(root)
        Path(folder).chmod(0o755)
        (root / "step-00000200" if inner else root).chmod(0)
        command = [sys.executable, "-c", _AS_NOBODY, "ckpt"]
        path = {**os.environ, "PYTHONPATH": os.getcwd()}
        done = subprocess.run([*command, "ls", str(root)], capture_output=True, text=True, env=path, timeout=60)
        if inner:
            assert done.returncode == 0
            assert "unreadable: " in _row(done.stdout, "200")
            assert _row(done.stdout, "300").endswith("newest")
        else:
            assert (done.returncode, "Permission denied" in done.stderr) == (77, True)
            assert len(done.stderr.splitlines()) == 1
        done = subprocess.run(
            [*command, "rm", str(root), "100", "--yes"], capture_output=True, text=True, env=path, timeout=60
        )
        assert (done.returncode, len(done.stderr.splitlines())) == (77, 1)


def test_a_bar_is_drawn_on_a_terminal_and_wiped_away() -> None:
    leader, follower = pty.openpty()
    now = [0.0]
    with os.fdopen(follower, "w") as stream:
        with ProgressBar(stream, "step-00000100", 1000, clock=lambda: now[0]) as bar:
            for _ in range(4):
                now[0] += 1.0
                bar.advance(250)
        shown = ""
        while not shown.endswith(" \r"):  # a terminal gives what it has so far
            shown += os.read(leader, 10_000).decode()
    os.close(leader)
    assert "step-00000100 [############............]  50%  500 B of 1.0 kB, 250 B/s" in shown
    assert "100%" in shown


def test_nothing_is_drawn_where_nobody_looks() -> None:
    stream = io.StringIO()
    with ProgressBar(stream, "x", 10, clock=iter(range(100)).__next__) as bar:
        bar.advance(10)
    assert stream.getvalue() == ""


def test_no_torch_for_looking_verifying_and_removing(directory: Path) -> None:
    program = """
import sys
from elaunch.cli.main import main
root = sys.argv[1]
commands = (["ls", root], ["show", root], ["verify", root], ["rm", root, "100", "--yes"])
codes = [main(["ckpt", *words, "--json"]) for words in commands]
assert codes == [0] * 4, codes
assert not {"torch", "grpc"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", program, str(directory)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_who_reads_no_more_ends_it_quietly(directory: Path) -> None:
    command = f"{sys.executable} -m elaunch ckpt show {directory} | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


def test_an_object_store(ckpt: Ckpt, directory: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fs = fsspec.filesystem("memory")
    url = f"memory://{directory.parent.name}"
    for step in (100, 200):
        fs.put(str(directory / f"step-00000{step}"), f"{url}/step-00000{step}.claim-1", recursive=True)
    fs.pipe(f"{url}/step-00000300.claim-1/__0_0.distcp", b"half")
    try:
        text = ckpt("ls", url)[1]
        assert _row(text, "step-00000200.claim-1").endswith("ok, newest")
        assert "left over: of a run that is over" in _row(text, "step-00000300.claim-1")
        assert ckpt("show", f"{url}/step-00000100.claim-1")[1].splitlines()[1].startswith("step 100")
        assert ckpt("verify", url)[0] == 0
        assert ckpt("rm", url, "step-00000100.claim-1", "--yes")[0] == 0
        assert ckpt("rm", url, "200", "--yes")[0] == 68
        assert ckpt("verify", url)[1] == "step-00000200.claim-1: ok, 3 files, 10.0 kB\n"
        assert ckpt("ls", f"{url}/nothing")[0] == 66
    finally:
        fs.rm(url, recursive=True)


def test_what_is_committed_or_removed_while_it_is_listed_is_no_left_over_and_not_damaged(
    ckpt: Ckpt, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, other = sorted(directory.glob("step-*"))[-1], sorted(directory.glob("step-*"))[0]
    away = directory / "away"
    newest.rename(away)
    checkpoints, check_sizes = Posix.checkpoints, Catalog.check_sizes

    def listed(self: Posix) -> list[str]:
        names = checkpoints(self)
        if away.exists():
            away.rename(newest)
        return names

    def checked(self: Catalog, name: str, known: Manifest) -> None:
        if name == other.name and other.exists():
            shutil.rmtree(other)
        check_sizes(self, name, known)

    monkeypatch.setattr(Posix, "checkpoints", listed)
    monkeypatch.setattr(Catalog, "check_sizes", checked)
    states = {one.name: one.health for one in survey(Posix(directory)).seen}
    assert newest.name not in states
    assert other.name not in states


def test_a_checkpoint_that_was_removed_meanwhile_is_missing_and_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not there any more"):
        Catalog(Posix(tmp_path)).manifest("step-00000001")


def test_a_checkpoint_that_goes_between_two_looks_is_missing_and_not_damaged(directory: Path) -> None:
    catalog = Catalog(Posix(directory))
    known = catalog.manifest("step-00000300")
    (directory / "step-00000300").rename(directory / "gone")
    with pytest.raises(FileNotFoundError, match="is not there any more"):
        catalog.check_sizes("step-00000300", known)
