"""A Slurm of the tests' own on this machine: slurmctld, and a slurmd on each of some hosts that can crash.

A host is a network, a UTS, a mount and a PID namespace: it has its name, its address on a bridge, its /tmp, and all of
it dies with its first process. That one, like all daemons here, dies with the process of the tests, however that ends.
Nothing that belongs to the system is touched: munge's key and socket and Slurm's configuration are in a folder that is
removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
HOMES = Path("/var/tmp")  # not /tmp, of which each host has its own
NEEDED = {path for path in (ROOT, Path(sys.prefix).resolve()) if path.is_relative_to("/tmp")}
PREFIX = "elaunch-slurm-"
COMMANDS = ("slurmctld", "slurmd", "munged", "srun", "ip", "nsenter", "unshare")
PORTS = 26_000  # from here on
FULL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_names = itertools.count()
_libc = ctypes.CDLL(None)


def missing() -> str:
    """Why there can be no Slurm on this machine, after what is missing was installed where that is ours to do."""
    if os.geteuid() != 0:
        return "network namespaces and slurmd need root"
    if _absent():
        subprocess.run([str(ROOT / "tools/system-packages.sh")], check=False, capture_output=True, timeout=300)
    if absent := _absent():
        return f"not installed, and could not be: {', '.join(absent)}"
    probe = f"elp{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], check=False, capture_output=True).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", probe], check=False, capture_output=True)
    return "" if made else "this machine lets us make no network namespaces"


def _absent() -> list[str]:
    return [command for command in COMMANDS if shutil.which(command, path=FULL_PATH) is None]


def wait_until(what: str, condition: Callable[[], Any], seconds: float = 120.0, pause: float = 0.1) -> Any:
    """The first true value of ``condition``; fails with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for: {what() if callable(what) else what}")
        time.sleep(pause)


@dataclass
class Cluster:
    """``count`` hosts ``n1`` and on, up from entering to leaving the context."""

    count: int = 4
    gpus: int = 2
    name: str = field(default_factory=lambda: f"es{os.getpid() % 100000}{next(_names)}")

    def __enter__(self) -> Cluster:
        _clear_what_killed_runs_left()
        self.home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=HOMES))
        (self.home / "owner").write_text(f"{os.getpid()} {self.name} {self.count}")
        self.port, self.network = _place()
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._hosts: dict[int, subprocess.Popen[bytes]] = {}
        try:
            self._write_files()
            _make_networks(self.name, self.network, self.count)
            self._start_daemons()
            for number in range(1, self.count + 1):
                self.start(number)
            self._await_idle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self._hosts.values(), *reversed(self._daemons)):
            process.kill()
            process.wait(10)
        _unmake_networks(self.name, self.count)
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def environ(self) -> dict[str, str]:
        """For Slurm's commands and for batch scripts: ``elaunch`` is this tree's."""
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH", "SRUN", "PYTEST", "ELAUNCH"))
        }
        return {
            **kept,
            "SLURM_CONF": str(self.home / "slurm.conf"),
            "PATH": f"{self.home / 'bin'}:{FULL_PATH}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.home / "home"),
            "OMP_NUM_THREADS": "1",
            "ELAUNCH_LOG_FORMAT": "console",
        }

    def run(self, *words: str, timeout: float = 240.0, check: bool = True, **env: str) -> str:
        """The output of one of Slurm's commands, or of a command under one of them."""
        done = subprocess.run(
            words,
            env={**self.environ, **env},
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def start(self, number: int) -> None:
        """A host that is down comes up, with an empty /tmp."""
        name, home = f"n{number}", self.home
        tmp, spool = home / f"tmp.{name}", home / f"spool.{name}"
        for folder in (tmp, spool):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        tmp.chmod(0o1777)
        subprocess.run(["ip", "link", "set", f"{self.name}v{number}", "up"], check=True, timeout=10)
        seen = ""
        for folder in sorted(NEEDED):  # a checkout below /tmp is there on every host, as on a shared file system
            (place := tmp / folder.relative_to("/tmp")).mkdir(parents=True, exist_ok=True)
            seen += f"mount --bind {shlex.quote(str(folder))} {shlex.quote(str(place))}; "
        inside = (
            f"hostname {name}; mount --bind {home}/hosts /etc/hosts; {seen}mount --rbind {tmp} /tmp; "
            f"slurmd -D -N {name} & while :; do wait; sleep 0.2; done"  # as the first process it has to reap all others
        )
        space = ["nsenter", f"--net=/run/netns/{self.name}n{number}"]
        own = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", inside]
        self._hosts[number] = self.daemon([*space, *own], f"host.{name}")

    def crash(self, number: int) -> None:
        """A host loses its power: nothing of it says good-bye."""
        subprocess.run(["ip", "link", "set", f"{self.name}v{number}", "down"], check=True, timeout=10)
        self._hosts[number].kill()
        self._hosts.pop(number).wait(10)

    def back(self) -> None:
        """Hosts that crashed come back, and are in service again."""
        for number in range(1, self.count + 1):
            if number not in self._hosts:
                self.start(number)
        self.run("scontrol", "update", f"nodename=n[1-{self.count}]", "state=resume", check=False)
        self._await_idle()

    def programs(self, job: str) -> list[str]:
        """What runs of a job, on whichever host."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                env = process.environ()
                ours = env.get("SLURM_CONF") == str(self.home / "slurm.conf") and env.get("SLURM_JOB_ID") == job
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid} {' '.join(process.cmdline())[:150]}")
        return found

    def daemon(self, words: list[str], log: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{log}.log").open("ab") as file:
            return subprocess.Popen(
                words,
                env=self.environ,
                cwd=self.home,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=lambda: _libc.prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG
            )

    def _start_daemons(self) -> None:
        munge = self.home / "munge"
        files = [f"--{kind}-file={munge / kind}" for kind in ("key", "pid", "log", "seed")]
        words = ["munged", "-F", "--force", f"--socket={munge / 'sock'}", "--num-threads=2", *files]
        self._daemons.append(self.daemon(words, "munged"))
        wait_until("munged's socket", (munge / "sock").exists, 60)
        self._daemons.append(self.daemon(["slurmctld", "-D", "-c"], "slurmctld"))

    def _await_idle(self) -> None:
        def idle() -> bool:
            lines = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %t", check=False).split("\n")
            return sum(line.endswith(" idle") for line in lines) == len(self._hosts)

        try:
            wait_until("all hosts idle", idle, 120)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.run('sinfo', '-N', '-l', check=False)}{self.logs()}") from None

    def logs(self) -> str:
        return "\n".join(f"--- {p.name}\n{p.read_text(errors='replace')[-2000:]}" for p in self.home.glob("*.log"))

    def _write_files(self) -> None:
        home = self.home
        home.chmod(0o755)
        for folder in ("munge", "state", "home", "bin", "dev", "out"):
            (home / folder).mkdir()
        (home / "munge" / "key").write_bytes(os.urandom(128))
        (home / "munge" / "key").chmod(0o400)
        hosts = [f"{self.network}.{n} n{n}" for n in range(1, self.count + 1)]
        own = os.uname().nodename
        lines = ["127.0.0.1 localhost", "::1 localhost", f"{self.network}.254 {own}", *hosts]
        (home / "hosts").write_text("\n".join(lines) + "\n")
        for gpu in range(self.gpus):  # a GPU without a device file counts as none
            os.mknod(home / "dev" / f"gpu{gpu}", 0o20666, os.makedev(1, 3))
        where = f"{home}/dev/gpu[0-{self.gpus - 1}]"
        (home / "gres.conf").write_text(f"NodeName=n[1-{self.count}] Name=gpu File={where}\n" if self.gpus else "")
        (home / "slurm.conf").write_text(self._conf(own))
        shim = home / "bin" / "elaunch"
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m elaunch "$@"\n')
        shim.chmod(0o755)

    def _conf(self, controller: str) -> str:
        home, gres = self.home, f"Gres=gpu:{self.gpus}" if self.gpus else ""
        nodes = "\n".join(
            f"NodeName=n{n} NodeHostname=n{n} NodeAddr={self.network}.{n} Port={self.port + 1} "
            f"CPUs=4 RealMemory=4000 {gres}"
            for n in range(1, self.count + 1)
        )
        return _CONF.format(
            home=home, controller=controller, address=f"{self.network}.254", port=self.port, nodes=nodes
        )


_CONF = """\
ClusterName=tests
SlurmctldHost={controller}({address})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge/sock
CredType=cred/munge
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool.%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={home}/jobs.txt
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=100000,requeue_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=6
SlurmctldTimeout=10
MessageTimeout=5
TCPTimeout=2
InactiveLimit=0
KillWait=20
WaitTime=0
MinJobAge=300
JobRequeue=1
CommunicationParameters=NoAddrCache
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=10
PartitionName=first Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""


def _place() -> tuple[int, str]:
    """A port, free like the nine after it, and a network that no interface here has."""
    known = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=True, timeout=10).stdout
    for own in range(os.getpid(), os.getpid() + 256):
        port, network = PORTS + 10 * (own % 400), f"198.19.{own % 256}"
        if f" {network}." not in known and not any(_taken(port + n) for n in range(10)):
            return port, network
    raise AssertionError("no network is free for a Slurm")


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _make_networks(name: str, network: str, count: int) -> None:
    commands = [f"link add {name}b type bridge", f"addr add {network}.254/24 dev {name}b", f"link set {name}b up"]
    for n in range(1, count + 1):
        commands += [
            f"netns add {name}n{n}",
            f"-n {name}n{n} link set lo up",
            f"link add {name}v{n} type veth peer name eth0 netns {name}n{n}",
            f"link set {name}v{n} master {name}b up",
            f"-n {name}n{n} addr add {network}.{n}/24 dev eth0",
            f"-n {name}n{n} link set eth0 up",
        ]
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True, capture_output=True, timeout=10)


def _unmake_networks(name: str, count: int) -> None:
    links = [f"link del {name}v{n}" for n in range(1, count + 1)]
    for command in (*links, *(f"netns del {name}n{n}" for n in range(1, count + 1)), f"link del {name}b"):
        subprocess.run(["ip", *command.split()], check=False, capture_output=True, timeout=10)


def _clear_what_killed_runs_left() -> None:
    """Their processes died with them; their folders and networks did not."""
    for owner in _owners():
        pid, name, count = owner.read_text().split()
        if not psutil.pid_exists(int(pid)):
            _unmake_networks(name, int(count))
            shutil.rmtree(owner.parent, ignore_errors=True)


def _owners() -> Iterator[Path]:
    for owner in HOMES.glob(f"{PREFIX}*/owner"):
        if re.fullmatch(r"\d+ es\d+ \d+", owner.read_text()):
            yield owner
