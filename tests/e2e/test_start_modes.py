"""Warm and exec start cannot be told apart by the program (docs/warm-start.md says what stays different)."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elaunch.agent.confinement import memory_refused
from elaunch.agent.program import Program
from elaunch.agent.start import RankStart
from tests.e2e.spawning import PROGRAMS, Bench, Result, environment, python
from tests.etcd.servers import free_port
from tests.programs import endings

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ENDINGS = [
    name
    for name, value in vars(endings).items()
    if callable(value) and getattr(value, "__module__", "") == endings.__name__ and isinstance(value, type(lambda: 0))
]


@pytest.fixture(scope="module")
def warm() -> Iterator[Bench]:
    bench = Bench("warm", preload=["numpy"])
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def exec_() -> Iterator[Bench]:
    bench = Bench("exec")
    yield bench
    bench.close()


@pytest.fixture(params=["forked", "standby"])
def stand_by(request: pytest.FixtureRequest, warm: Bench, tmp_path: Path) -> Callable[[int], set[int]]:
    """Sees to standbys for so many ranks where the start is to use them; their pids."""

    def see(count: int) -> set[int]:
        if request.param == "forked":
            return set()
        warm.start([python("module", "tests.programs.inline", "pass")] * count, tmp_path / "before")
        for _ in range(count):  # one that has been taken looks like a standby until it has begun, and may be counted
            warm.exit()
        ready = warm.await_standbys(count + 1)
        warm.stop()
        return ready

    return see


Both = Callable[..., tuple[list[Result], list[Result]]]


@pytest.fixture
def both(warm: Bench, exec_: Bench, tmp_path: Path) -> Both:
    """Runs the same programs forked and exec'd."""

    def run(*programs: Program, **env: str) -> tuple[list[Result], list[Result]]:
        warm.notes.clear()
        results = warm.run(programs, tmp_path / "warm", **env), exec_.run(programs, tmp_path / "exec", **env)
        assert warm.notes == []
        return results

    return run


StandBy = Callable[[int], set[int]]


def dump(bench: Bench, program: Program, seen: Path, folder: Path) -> dict[str, Any]:
    """What the battery writes under this start."""
    (result,) = bench.run([program], folder)
    assert result.exit_code == 0, result.err
    dumped: dict[str, Any] = json.loads(seen.read_text())
    dumped["at exit"] = Path(f"{seen}.exit").read_text()
    dumped["printed"] = [result.out, result.err]
    return dumped


@pytest.mark.parametrize("kind", ["script", "module"])
def test_a_program_sees_the_same(kind: Any, warm: Bench, exec_: Bench, stand_by: StandBy, tmp_path: Path) -> None:
    target = "tests.programs.battery" if kind == "module" else os.path.relpath(PROGRAMS / "battery.py")
    seen = tmp_path / "seen.json"
    program = python(kind, target, str(seen), "--lr", "1e-3")
    warm.notes.clear()
    ready = stand_by(1)
    forked = dump(warm, program, seen, tmp_path / "warm")
    assert warm.notes == []
    assert not ready or ready - warm.standbys()
    execed = dump(exec_, program, seen, tmp_path / "exec")
    for part in execed:
        assert forked[part] == execed[part], part


@pytest.mark.skipif(bool(memory_refused(0)), reason=f"no memory policy here: {memory_refused(0)}")
def test_a_rank_is_bound_before_its_first_line(warm: Bench, exec_: Bench, stand_by: StandBy, tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    program = python("script", PROGRAMS / "confined.py")
    places: list[tuple[tuple[int, ...], int]] = [((allowed[-1],), 0), ((9999,), 900)]
    ready = stand_by(2)
    for bench, folder in ((warm, tmp_path / "warm"), (exec_, tmp_path / "exec")):
        folder.mkdir()
        files = [(folder / f"{n}.out", folder / f"{n}.err") for n in range(2)]
        starts = [
            RankStart(n, n, program, {**bench.env, "RANK": str(n)}, out, err, *places[n])
            for n, (out, err) in enumerate(files)
        ]
        bench.do(bench.spawner.start(starts, None, 2, number=8))
        ends = {bench.exit().exit_code for _ in starts}
        bench.stop()
        bound, unbound = (json.loads(out.read_text()) for out, _ in files)
        assert ends == {0}
        assert bound == {"cpus": [allowed[-1]], "mode": 1, "nodes": 1}
        assert (unbound["cpus"], unbound["mode"]) == (allowed, 0)
        assert files[0][1].read_text() == ""
        said = files[1][1].read_text().splitlines()
        assert said[0].startswith("elaunch: warning: local rank 1: none of the CPUs 9999 is allowed here")
        assert said[1].startswith("elaunch: warning: local rank 1: memory of NUMA node 900 cannot be preferred")
    assert not ready or ready - warm.standbys()


def test_a_program_ends_the_same(both: Both, stand_by: StandBy) -> None:
    programs = [python("script", PROGRAMS / "endings.py", name) for name in ENDINGS]
    stand_by(len(programs))
    forked, execed = both(*programs)
    for name, of_fork, of_exec in zip(ENDINGS, forked, execed, strict=True):
        assert _comparable(of_fork) == _comparable(of_exec), name


def _comparable(result: Result) -> Result:
    """Without the addresses of objects."""
    return dataclasses.replace(result, err=re.sub(r" at 0x[0-9a-f]+", "", result.err))


def test_errors_before_the_first_line_are_the_same(both: Both, tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("x = 1\nif x\n    pass\n")
    latin = tmp_path / "latin.py"
    latin.write_bytes(b"# -*- coding: latin-1 -*-\nprint(len('\xe9\xe8'))\n")
    null = tmp_path / "null.py"
    null.write_bytes(b"print(1)\n\xff\n")
    programs = [python("script", path) for path in (bad, latin, null)]
    programs.append(python("module", "tests.programs.no_such_module"))
    programs.append(python("module", "tests"))
    forked, execed = both(*programs)
    assert forked == execed
    assert [r.exit_code for r in execed] == [1, 0, 1, 1, 1]


def test_ranks_draw_random_numbers_of_their_own(warm: Bench, stand_by: StandBy, tmp_path: Path) -> None:
    program = tmp_path / "draw.py"
    program.write_text(
        "import random, uuid, multiprocessing as m, numpy, tempfile, torch\n"
        "print(random.random(), numpy.random.rand(), torch.initial_seed(), torch.rand(1).item(), uuid.uuid4(),"
        " m.current_process().authkey.hex(),"
        " next(tempfile._get_candidate_names()))\n"
    )
    stand_by(2)
    first, second = warm.run([python("script", program)] * 2, tmp_path / "out")
    assert first.exit_code == second.exit_code == 0
    assert not set(first.out.split()) & set(second.out.split())


def test_a_program_changed_on_disk_runs_its_new_text(warm: Bench, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    part = tmp_path / "its_part.py"
    program.write_text("import its_part; print('one', its_part.x)")
    part.write_text("x = 1")
    assert warm.run([python("script", program)], tmp_path / "out")[0].out == "one 1\n"
    program.write_text("import its_part; print('two', its_part.x)")
    part.write_text("x = 222")
    assert warm.run([python("script", program)], tmp_path / "out")[0].out == "two 222\n"


@pytest.mark.parametrize("name", ["queue.py", "random.py", "numpy/__init__.py"])
def test_a_shadowed_module_is_the_users(name: str, warm: Bench, tmp_path: Path) -> None:
    shadow = tmp_path / name
    shadow.parent.mkdir(exist_ok=True)
    shadow.write_text("mine = True")
    program = tmp_path / "train.py"
    module = name.split("/")[0].removesuffix(".py")
    program.write_text(f"import {module}; print({module}.mine)")
    warm.notes.clear()
    (result,) = warm.run([python("script", program)], tmp_path / "out")
    assert result.out == "True\n", result.err
    (note,) = warm.notes
    assert note.startswith("local rank 0 is started by exec: ")
    assert os.path.join(str(tmp_path), module) in note


def test_folders_without_code_shadow_nothing(warm: Bench, tmp_path: Path) -> None:
    (tmp_path / "numpy").mkdir()
    program = tmp_path / "train.py"
    program.write_text("import numpy; print(numpy.ones(1).sum())")
    warm.notes.clear()
    (result,) = warm.run([python("script", program)], tmp_path / "out")
    assert (result.out, warm.notes) == ("1.0\n", [])


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "PYTHONUTF8", "TORCH_LOGS"])
def test_a_variable_read_at_import_is_honoured(name: str, warm: Bench, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(f"import os; print(os.environ[{name!r}])")
    warm.notes.clear()
    (result,) = warm.run([python("script", program)], tmp_path / "out", **{name: "0"})
    assert result.out == "0\n", result.err
    assert warm.notes == [
        f"local rank 0 is started by exec: {name} is read at import time and differs from the warm process's"
    ]


def test_what_is_no_python_source_is_execed(warm: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "__main__.py").write_text("import sys; print('folder', sys.argv)")
    archive = shutil.make_archive(str(tmp_path / "archive"), "zip", folder)
    programs = [
        python("script", folder),
        python("script", archive),
        python("script", tmp_path / "missing.py"),
        python("command", "echo", "hello"),
        python("command", "no-such-command"),
        python("run_path", folder, "x"),
    ]
    results = warm.run(programs, tmp_path / "out")
    assert [r.exit_code for r in results] == [0, 0, 2, 0, 127, 0]
    outs = [
        f"folder ['{folder}']\n",
        f"folder ['{archive}']\n",
        "",
        "hello\n",
        "",
        f"folder ['{folder}', 'x']\n",
    ]
    assert [r.out for r in results] == outs
    assert results[4].err == "elaunch: cannot run 'no-such-command': No such file or directory\n"


def test_fault_handler_works_in_a_fork(both: Both, tmp_path: Path) -> None:
    program = tmp_path / "fault.py"
    program.write_text("import faulthandler, ctypes; faulthandler.enable(); ctypes.string_at(0)")
    forked, execed = both(python("script", program))
    assert [r.exit_code for r in (*forked, *execed)] == [-11, -11]
    assert forked[0].err.startswith("Fatal Python error: Segmentation fault")
    assert f'File "{program}", line 1 in <module>' in forked[0].err


def test_a_preload_with_threads_makes_starts_exec(tmp_path: Path) -> None:
    (tmp_path / "threaded.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    program = tmp_path / "elsewhere" / "train.py"
    program.parent.mkdir()
    program.write_text("import threading; print(threading.active_count())")
    bench = Bench("warm", ["threaded"], environment(PYTHONPATH=str(tmp_path)))
    try:
        (result,) = bench.run([python("script", program)], tmp_path / "out")
    finally:
        bench.close()
    assert result.out == "1\n"
    assert bench.notes == ["local rank 0 is started by exec: a preloaded module has started threads (1)"]


@pytest.mark.parametrize("start", ["warm", "exec"])
def test_a_program_can_open_a_store_at_a_port_of_its_own(start: str, warm: Bench, exec_: Bench, tmp_path: Path) -> None:
    """torchrun hangs here: its ranks are clients at any port."""
    program = tmp_path / "own.py"
    program.write_text(
        "import os, sys, torch, torch.distributed as d\n"
        "from elaunch.worker.autoload import autoload; autoload()\n"  # what an installed elaunch's entry point does
        "os.environ['MASTER_PORT'] = sys.argv[1]\n"
        "d.init_process_group('gloo', f'tcp://127.0.0.1:{sys.argv[1]}', rank=int(os.environ['RANK']), world_size=2)\n"
        "t = torch.ones(1); d.all_reduce(t); print(t.item()); d.destroy_process_group()\n"
        "d.init_process_group('gloo', rank=int(os.environ['RANK']), world_size=2)\n"
        "t = torch.ones(1); d.all_reduce(t); print(t.item()); d.destroy_process_group()\n"
    )
    port = free_port()
    more = {"TORCHELASTIC_USE_AGENT_STORE": "True", "ELAUNCH_GENERATION": "1", "ELAUNCH_STORE_PORT": "1"}
    bench = warm if start == "warm" else exec_
    results = bench.run([python("script", program, str(port))] * 2, tmp_path / "out", **more, MASTER_ADDR="127.0.0.1")
    assert [(r.exit_code, r.out) for r in results] == [(0, "2.0\n2.0\n")] * 2, results


def test_the_store_is_hosted(warm: Bench, stand_by: StandBy, tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    program = tmp_path / "meet.py"
    program.write_text(
        "import os, signal\n"
        "from torch.distributed import TCPStore\n"
        f"store = TCPStore('127.0.0.1', {port}, 2, is_master=False)\n"
        "store.set(os.environ['RANK'], 'x'); store.wait(['0', '1']); print('met')\n"
    )
    ready = stand_by(2)
    pids = warm.start([python("script", program)] * 2, tmp_path / "out", listener)
    assert {*pids.values()} <= ready or not ready
    assert [warm.exit().exit_code, warm.exit().exit_code] == [0, 0]
    assert not ready & warm.standbys()
    warm.stop()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_functions_work(warm: Bench, tmp_path: Path) -> None:
    program = tmp_path / "compiled.py"
    program.write_text(
        "import torch\n"
        "@torch.compile\n"
        "def f(x): return (x * 2 + 1).relu().sum()\n"
        "print(f(torch.arange(-8.0, 8.0)).item())\n"
    )
    (result,) = warm.run([python("script", program)], tmp_path / "out")
    assert (result.exit_code, result.out) == (0, "64.0\n"), result.err
