"""The units of deploy/systemd: systemd's own checks, and their command lines run as systemd would run them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from elaunch.rendezvous.binary import find_etcd
from tests.e2e.harness import ROOT
from tests.etcd.servers import Member, free_port, start_single

UNITS = ROOT / "deploy" / "systemd"
NAMES = ("elaunch-controller@.service", "elaunch-etcd.service")
MOST_EXPOSED = 2.0  # of 10, by systemd-analyze security: "OK" ends at 5
SECONDS = 90.0

analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (systemd)")


def settings(name: str) -> dict[str, list[str]]:
    """All values of each key of a unit."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def environment(example: str, **changed: str) -> dict[str, str]:
    """An environment file as systemd reads it."""
    lines = [line for line in (UNITS / example).read_text().splitlines() if "=" in line and not line.startswith("#")]
    return {**dict(line.split("=", 1) for line in lines), **changed}


def command(name: str, program: list[str], env: dict[str, str]) -> list[str]:
    """ExecStart with its variables filled in by systemd's rules, and ``program`` in the place of its first word."""
    (line,) = settings(name)["ExecStart"]
    words: list[str] = []
    for word in line.split()[1:]:
        if word.startswith("$") and word[1] != "{":
            words += shlex.split(env.get(word[1:], ""))
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda match: env.get(match[1], ""), word))
    return [*program, *words]


@dataclass
class Unit:
    """A unit's main process, and the socket at which it says how it is."""

    process: subprocess.Popen[bytes]
    listening: socket.socket
    log: Path

    def hears(self, wanted: str, seconds: float = SECONDS) -> list[str]:
        """The lines up to the one that begins with ``wanted``."""
        lines: list[str] = []
        deadline = time.monotonic() + seconds
        while not any(line.startswith(wanted) for line in lines):
            self.listening.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                lines += self.listening.recv(4096).decode().splitlines()
            except TimeoutError:
                raise AssertionError(f"no {wanted} in {lines}\n{self.log.read_text()}") from None
        return lines

    def is_silent(self, seconds: float) -> None:
        """Nothing is heard for so long, but for what was said before."""
        deadline = time.monotonic() + SECONDS
        while True:
            self.listening.settimeout(seconds)
            try:
                self.listening.recv(4096)
            except TimeoutError:
                return
            assert time.monotonic() < deadline, "it goes on"


@contextmanager
def running(folder: Path, name: str, argv: list[str], env: dict[str, str]) -> Iterator[Unit]:
    folder.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(folder / "notify"))
        given = dict(pair.split("=", 1) for pair in settings(name).get("Environment", []))
        given = {key: value.replace("%S", str(folder)) for key, value in given.items()}
        full = {"PATH": os.environ["PATH"], **given, **env, "NOTIFY_SOCKET": str(folder / "notify")}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(argv, env=full, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield Unit(process, listening, folder / "log")
        finally:
            process.kill()
            process.wait(SECONDS)


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    made = start_single(tmp_path)
    yield made
    made.kill()


@analyze
@pytest.mark.parametrize("name", NAMES)
def test_systemd_finds_nothing_to_say(name: str, tmp_path: Path) -> None:
    """But for the programs, which are not installed at their places here."""
    text = (UNITS / name).read_text()
    (line,) = settings(name)["ExecStart"]
    (tmp_path / name).write_text(text.replace(line.split()[0], "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name.replace("@", "@one"))],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    ours = [line for line in checked.stderr.splitlines() if "elaunch" in line]
    assert (checked.returncode, ours) == (0, []), checked.stderr


@analyze
@pytest.mark.parametrize("name", NAMES)
def test_it_may_do_no_more_than_it_must(name: str) -> None:
    words = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED * 10:.0f}", str(UNITS / name)]
    checked = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout[-400:]


@pytest.mark.slow
def test_a_controller_says_that_it_is_ready_alive_and_ending(tmp_path: Path, member: Member) -> None:
    name = NAMES[0]
    port = free_port()
    env = environment("controller.env.example", ELAUNCH_ETCD=member.endpoint, ELAUNCH_LISTEN=f"127.0.0.1:{port}")
    env |= {"ELAUNCH_OPTIONS": "--lease-ttl=2 --log-level=debug", "WATCHDOG_USEC": "900000", "PYTHONPATH": str(ROOT)}
    argv = command(name, [sys.executable, "-m", "elaunch"], env)
    assert argv[-2:] == ["--lease-ttl=2", "--log-level=debug"]
    with running(tmp_path / "unit", name, argv, env) as unit:
        assert f"STATUS=stands by at 127.0.0.1:{port}" in unit.hears("STATUS=")
        for _ in range(3):
            unit.hears("WATCHDOG=1")
        os.kill(unit.process.pid, signal.SIGSTOP)
        unit.is_silent(1.5)
        os.kill(unit.process.pid, signal.SIGCONT)
        unit.hears("WATCHDOG=1")
        unit.process.terminate()
        unit.hears("STOPPING=1")
        assert unit.process.wait(SECONDS) == 0
        assert unit.log.read_text().splitlines()[0].startswith("{"), "the journal gets JSON"


@pytest.mark.slow
def test_a_trio_is_ready_when_it_has_met(tmp_path: Path) -> None:
    name = NAMES[1]
    peers, clients = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
    cluster = ",".join(f"etcd{n}=http://127.0.0.1:{port}" for n, port in enumerate(peers))
    with ExitStack() as stack:
        units = []
        for n in range(3):
            peer, client = f"http://127.0.0.1:{peers[n]}", f"http://127.0.0.1:{clients[n]}"
            env = environment(
                "etcd.env.example",
                ETCD_NAME=f"etcd{n}",
                ETCD_INITIAL_CLUSTER=cluster,
                ETCD_LISTEN_PEER_URLS=peer,
                ETCD_INITIAL_ADVERTISE_PEER_URLS=peer,
                ETCD_LISTEN_CLIENT_URLS=client,
                ETCD_ADVERTISE_CLIENT_URLS=client,
            )
            argv = command(name, [str(find_etcd().path)], env)
            units.append(stack.enter_context(running(tmp_path / f"m{n}", name, argv, env)))
        for n, unit in enumerate(units):
            assert "READY=1" in unit.hears("READY=1")
            assert (tmp_path / f"m{n}" / "elaunch-etcd" / "member").is_dir(), "in its StateDirectory"
        for unit in units:
            unit.process.terminate()
            assert unit.process.wait(SECONDS) in (0, -signal.SIGTERM)


def test_the_examples_are_of_the_units() -> None:
    (line,) = settings(NAMES[0])["ExecStart"]
    assert set(re.findall(r"\$\{?(\w+)", line)) == set(environment("controller.env.example"))
    assert settings(NAMES[1])["EnvironmentFile"] == ["/etc/elaunch/etcd.env"]
