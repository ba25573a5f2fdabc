"""What the machine and its user do to a job: odd names, full disks, closed or blocked streams, lost helpers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, ROOT, wait_until
from tests.e2e.test_launch import free_port

pytestmark = [pytest.mark.slow]

SIGNALLED = (str(PROGRAMS / "signalled.py"),)
ONE = ("--standalone", "--start=exec")


def program(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(text)
    return (str(path),)


def elaunch(tmp_path: Path, *args: str, shell: str = 'exec "$@"', **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end from a shell that prepares its streams or limits."""
    full = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), **env}
    argv = ["bash", "-c", shell, "bash", sys.executable, "-m", "elaunch", *args]
    return subprocess.run(argv, env=full, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)


@pytest.mark.parametrize("name", ["日本語 ü%s'\"$(x)", "x" * 5000, "é" * 5000, "a/../../b"])
def test_any_name_for_a_job(tmp_path: Path, name: str) -> None:
    done = elaunch(tmp_path, *ONE, "-r3", f"--rdzv-id={name}", *program(tmp_path / "p.py", "print('hello')"))
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stderr.splitlines()) < 12, done.stderr.decode()


@pytest.mark.parametrize(
    "options",
    [
        ("--rdzv-backend=c10d", "--rdzv-conf=read_timeout=1", "--rdzv-endpoint=no.such.host.invalid:2"),
        ("--rdzv-backend=etcd", "--rdzv-endpoint=no.such.host.invalid:2"),
        ("--rdzv-conf=read_timeout=1", "--master-addr=no.such.host.invalid"),
        ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:2", "--local-addr=no.such.host.invalid"),
        ("--nproc-per-node=99999999999",),
        ("--nnodes=99999999999",),
        ("--rdzv-conf=lease_ttl=99999999999999999999",),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = elaunch(tmp_path, "--nnodes=1:2", "--rdzv-id=x", "--start=exec", *options, SIGNALLED[0])
    assert done.returncode == 2, done.stderr.decode()
    lines = [line for line in done.stderr.splitlines() if b" info: " not in line and b" warning: " not in line]
    assert len(lines) == 1
    assert options[-1].partition("=")[2].partition("=")[0].encode() in done.stderr


def test_an_agent_that_is_reached_by_other_names_than_loopback(tmp_path: Path) -> None:
    end = f"--rdzv-endpoint=localhost:{free_port()}"
    few = ("--nnodes=1:2", "--rdzv-backend=c10d", end, "--rdzv-id=x", "--rdzv-conf=last_call_timeout=0.2")
    done = elaunch(tmp_path, "--start=exec", *few, "--local-addr=localhost", *program(tmp_path / "p.py", "print(1)"))
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    "shell",
    [
        '"$@" 2>&1 | head -1 >&2; exit ${PIPESTATUS[0]}',
        'exec "$@" >&-',
        'exec "$@" >&- 2>&- <&-',
        'exec "$@" >/dev/full 2>/dev/full',
        'ulimit -Sn 64; exec "$@"',
    ],
    ids=["head", "no-stdout", "no-streams", "full", "few-files"],
)
def test_streams_and_limits_end_no_job(tmp_path: Path, shell: str) -> None:
    done = elaunch(
        tmp_path, *ONE, "-t3", "--nproc-per-node=2", f"--log-dir={tmp_path}/logs",
        *program(tmp_path / "p.py", "for n in range(3000): print('line', n)"), shell=shell,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert not list(tmp_path.glob("elaunch*"))


def test_a_console_that_nobody_reads_blocks_neither_agent_nor_end(job: MakeJob, tmp_path: Path) -> None:
    one = job(*ONE, "-t3", "--log-level=debug", program=program(tmp_path / "p.py", "print('x' * 1000000)"))
    reader, writer = os.pipe()
    env = {**os.environ, **one.env, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "elaunch", *one.options, f"--log-dir={tmp_path}/logs", *one.program]
    with subprocess.Popen(argv, env=env, stdout=writer, stderr=writer, stdin=subprocess.DEVNULL) as process:
        try:
            assert process.wait(120) == 0
        finally:
            process.kill()
            os.close(reader)
            os.close(writer)


def test_a_full_disk_is_named_and_its_data_are_kept(tmp_path: Path) -> None:
    """A disk that is full is no damage of etcd's data: the generation numbers are in there."""
    small = tmp_path / "small"
    small.mkdir()
    if os.getuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=9m", "none", small]).returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        port = free_port()
        data = small / "elaunch" / f"x-{port}" / "data"
        data.mkdir(parents=True)
        (data / "kept").touch()
        where = ("--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=x")
        done = elaunch(tmp_path, "--nnodes=1:2", *where, "--start=exec", SIGNALLED[0], XDG_STATE_HOME=str(small))
        assert done.returncode == 2, done.stderr.decode()
        assert b"MB are free" in done.stderr.splitlines()[-1]
        assert (data / "kept").exists()
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize("left", ["os.mkfifo(path)", "open(path, 'w').write('[' * 100000)", "os.mkdir(path)"])
def test_an_error_file_that_is_none(tmp_path: Path, left: str) -> None:
    text = f"import os, sys\npath = os.environ['TORCHELASTIC_ERROR_FILE']\n{left}\nsys.exit(9)\n"
    own = tmp_path / "own.json"
    done = elaunch(
        tmp_path, *ONE, f"--log-dir={tmp_path}/logs", *program(tmp_path / "p.py", text),
        TORCHELASTIC_ERROR_FILE=str(own),
    )  # fmt: skip
    assert done.returncode == 9, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert own.exists()


def test_a_spawner_process_killed_while_it_stops_ranks_costs_no_job(job: MakeJob) -> None:
    one = job(
        *ONE, "--nproc-per-node=2", "--max-restarts=2", "--shutdown-timeout=90", "--log-level=debug",
        program=SIGNALLED, env={"MODE": "deaf"},
    )  # fmt: skip
    agent = one.agent()
    first = wait_until("two ranks", lambda: len(e := one.events("ready", generation=1)) == 2 and e)
    os.kill(first[0]["pid"], signal.SIGKILL)
    wait_until("the abort", lambda: "aborting" in agent.output())
    agent.child("spawner_process").kill()
    began = time.monotonic()
    wait_until("the next generation", lambda: len(one.events("ready", generation=2)) == 2, 60.0)
    assert time.monotonic() - began < 60
    one.finish()
    assert agent.wait() == 0, agent.output()


@pytest.mark.torch
def test_a_preload_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    done = elaunch(tmp_path, "--standalone", "--preload=broken", SIGNALLED[0], PYTHONPATH=path)
    assert done.returncode == 71, done.stderr.decode()
    assert b"no_such_module" in done.stderr.splitlines()[-1]
