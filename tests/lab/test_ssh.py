"""``elaunch ssh`` with a real sshd on three hosts."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import MARK, PROGRAMS, Agent, Job, gone, wait_until
from tests.lab.network import Network
from tests.lab.sshd import Daemons, missing

PROGRAM = str(PROGRAMS / "told_by_ssh.py")
ODD = ("two words", "it's", 'a "quote"', "line\nline", "", "$HOME `id` \\ *", "--hosts", "é")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sshd(three: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    if why := missing():
        pytest.skip(why)
    with Daemons(three, tmp_path_factory.mktemp("sshd")) as running:
        yield running


class SshJob:
    """A job of one test by ssh; it is over when nothing of it is left on any host."""

    def __init__(self, job: Job, sshd: Daemons) -> None:
        self.job, self.sshd, self.net = job, sshd, sshd.net

    def start(
        self, *options: str, how: str = "end", arguments: tuple[str, ...] = (), hosts: str = "", **env: str
    ) -> Agent:
        hosts = hosts or ",".join(self.net.control(number) for number in (1, 2, 3))
        words = [
            "ssh",
            f"--hosts={hosts}",
            *self.sshd.options,
            f"--ssh-env=OUT,TMPDIR,XDG_STATE_HOME,{MARK}",
            "--start=exec",
        ]
        return self.job.agent(*words, *options, program=(PROGRAM, how, *arguments), **env)

    def told(self, generation: int = 1) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.job.out.glob(f"{generation}-*.json"))]

    def up(self, world: int, generation: int = 1) -> list[dict[str, Any]]:
        def all_there() -> list[dict[str, Any]]:
            assert self.job.agents[-1].process.poll() is None, self.job.outputs()
            return told if len(told := self.told(generation)) == world else []

        try:
            return wait_until(f"{world} ranks of generation {generation}", all_there)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job.outputs()}") from None

    def all_gone(self, seconds: float = 45.0) -> None:
        """Well before a host ends its part because it hears nothing (--ssh-silence)."""
        wait_until(lambda: f"nothing left: {self.job.living()}", lambda: not self.job.living(), seconds)  # type: ignore[arg-type]

    def ssh_to(self, number: int) -> psutil.Process:
        (found,) = [
            child for child in self.job.agents[-1].children()
            if child.name() == "ssh" and self.net.control(number) in child.cmdline()
        ]  # fmt: skip
        return found


@pytest.fixture
def ssh(job: MakeJob, sshd: Daemons) -> SshJob:
    return SshJob(job(), sshd)


def test_a_job_of_three_hosts(ssh: SshJob, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    lines = [f"{ssh.net.control(number)}:22 slots=2" for number in (1, 2, 3)]
    file.write_text("# three\n" + "\n".join(lines) + "  # the last\n\n")
    agent = ssh.start("--ssh-env", "SECRET", arguments=ODD, hosts=str(file), SECRET="s e'c\nret")
    assert agent.wait() == 0, agent.output()
    told = ssh.told()
    assert [one["rank"] for one in told] == list(range(6))
    assert {one["host"] for one in told} == {ssh.net.host(number) for number in (1, 2, 3)}
    assert all(one["world"] == 6 and tuple(one["arguments"]) == ODD for one in told)
    assert {one["secret"] for one in told} == {"s e'c\nret"}
    assert {one["cwd"] for one in told} == {os.getcwd()}
    assert [one["host"] for one in told[::2]] == [ssh.net.host(number) for number in (1, 2, 3)], "as in the file"
    for one in told:
        number = next(n for n in (1, 2, 3) if ssh.net.host(n) == one["host"])
        assert f"{ssh.net.control(number)} | rank {one['rank']} says hello\n" in agent.output()
        assert f"{ssh.net.control(number)} | rank {one['rank']} complains\n" in agent.output()
    ssh.all_gone()


def test_the_code_is_that_of_the_rank_that_failed(ssh: SshJob) -> None:
    agent = ssh.start(how="fail")
    assert agent.wait() == 7, agent.output()
    assert "told_by_ssh.py FAILED" in agent.output()
    ssh.all_gone()


def test_no_secret_is_on_a_command_line(ssh: SshJob) -> None:
    agent = ssh.start("--ssh-env=SECRET", how="stay", SECRET="open sesame")
    ssh.up(3)
    lines = []
    for process in ssh.job.living():
        with suppress(psutil.Error):  # it has just ended
            lines.append(" ".join(process.cmdline()))
    assert len(lines) > 6
    assert not [line for line in lines if "sesame" in line]
    ssh.job.finish()
    assert agent.wait() == 0
    ssh.all_gone()


def test_a_host_whose_ssh_is_killed_is_left_out(ssh: SshJob) -> None:
    agent = ssh.start("--min-nodes=2", "--max-restarts=2", "--rdzv-conf=last_call_timeout=90", how="stay")
    ranks = ssh.up(3)
    ssh.ssh_to(3).kill()
    ssh.up(2, generation=2)
    (lost,) = [one for one in ranks if one["host"] == ssh.net.host(3)]
    wait_until("the rank there is gone", lambda: gone(lost["pid"]))
    said = f"ssh to {ssh.net.control(3)} failed: the ssh process was ended by SIGKILL"
    wait_until("it is said", lambda: said in agent.output())
    ssh.job.finish()
    assert agent.wait() == 0, agent.output()
    ssh.all_gone()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_everywhere(ssh: SshJob, signum: signal.Signals, code: int) -> None:
    agent = ssh.start(how="stay")
    ssh.up(3)
    agent.kill(signum)
    assert agent.wait() == code, agent.output()
    ssh.all_gone()


def test_nothing_outlives_the_machine_that_started_it(ssh: SshJob) -> None:
    """The launcher is frozen, as a machine without power would be: the connections stand, and nobody speaks."""
    agent = ssh.start("--ssh-silence=5", "--grace-period=2", "--rdzv-conf=close_timeout=5", how="stay")
    pids = [one["pid"] for one in ssh.up(3)]
    agent.kill(signal.SIGSTOP)
    wait_until("the ranks are gone", lambda: all(gone(pid) for pid in pids), 80)
    agent.kill(signal.SIGKILL)
    agent.wait()
    ssh.all_gone()


def test_nothing_outlives_a_launcher_that_is_killed(ssh: SshJob) -> None:
    agent = ssh.start("--grace-period=2", "--rdzv-conf=close_timeout=5", how="stay")
    ssh.up(3)
    agent.kill(signal.SIGKILL)
    agent.wait()
    ssh.all_gone()


def test_a_host_that_is_not_there(ssh: SshJob) -> None:
    hosts = ",".join([ssh.net.control(1), ssh.net.control(2), f"{ssh.net.control(3)}:9"])
    began = time.monotonic()
    agent = ssh.start(hosts=hosts)
    assert agent.wait() == 75
    (line,) = [line for line in agent.output().splitlines() if "error" in line]
    assert (
        f"ssh to {ssh.net.control(3)} failed: ssh: connect to host {ssh.net.control(3)} port 9: Connection refused"
        in line
    )
    assert "the job needs all of them" in line
    assert time.monotonic() - began < 60
    agent = ssh.start("--min-nodes=2", "--rdzv-conf=last_call_timeout=1", hosts=hosts)
    assert agent.wait() == 0, agent.output()
    assert {one["world"] for one in ssh.told()} == {2}


def test_a_python_that_is_not_there(ssh: SshJob) -> None:
    agent = ssh.start("--ssh-python=/no/python")
    assert agent.wait() == 75
    assert "elaunch was not started there, exit code 127" in agent.output()
    assert "/no/python" in agent.output()
