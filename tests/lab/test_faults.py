"""Faults of networks, etcd members and controllers, each once: what it does to packets and to a job, and its end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from elaunch.errors import CommandRefusedError
from elaunch.inject import KINDS, Fault, Planned
from elaunch.lab import Injection, Lab, Watched, impossible
from elaunch.lab.controllers import environment
from tests.e2e.harness import PROGRAMS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

_ASK = """
import json, socket, sys, time
address, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.settimeout(float(sys.argv[4]))
for number in range(count):
    sent = time.perf_counter()
    try:
        link.sendto(b"%06d" % number + bytes(size), (address, 9999))
        while int((answer := link.recv(9000))[:6]) != number:
            continue  # that came too late
        print(json.dumps([number, time.perf_counter() - sent]))
    except OSError:
        continue
"""
_ANSWER = """
import socket
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.bind(("0.0.0.0", 9999))
print("ready", flush=True)
while True:
    data, whence = link.recvfrom(9000)
    link.sendto(data, whence)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two hosts, three members, two controllers. A test leaves them as it has found them."""
    if why := impossible():
        pytest.skip(why)
    with Lab(2) as made:
        yield made


@dataclass
class Course:
    """A job on both hosts, of one rank each, that goes on in steps."""

    lab: Lab
    name: str
    out: Any
    watched: Watched

    def steps(self, generation: int) -> dict[int, int]:
        """The last step of each rank."""
        found = {}
        for path in self.out.glob(f"{generation}-*.jsonl"):
            lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
            steps = [line["step"] for line in lines if line["event"] == "step"]
            if steps:
                found[int(path.stem.split("-")[1])] = steps[-1]
        return found

    def generation(self) -> int:
        state = self.watched.look().state
        return state.generation if state is not None else 0

    def goes_on(self) -> int:
        """Wait until both ranks of the newest generation have done a step from now on; which it is."""
        seen: tuple[int, dict[int, int]] = (0, {})

        def on() -> int:
            nonlocal seen
            generation = self.generation()
            steps = self.steps(generation)
            if generation != seen[0] or len(seen[1]) < 2:
                seen = generation, steps
                return 0
            return generation if all(steps[rank] > before for rank, before in seen[1].items()) else 0

        return self.watched.until("both ranks go on", lambda _: on(), 120.0)

    def told(self, fault: Fault, where: str) -> None:
        """Both events of a fault come to stand in the history."""
        wanted = {("injection_began", f"{where}: {fault}"), ("injection_ended", f"{where}: {fault}: undone")}

        def stand() -> bool:
            return wanted <= {(line.code, line.text) for line in self.watched.events(*(code for code, _ in wanted))}

        wait_until(f"both ends of {fault}", stand)


@pytest.fixture(scope="module")
def course(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    out = tmp_path_factory.mktemp("course")
    agents = [
        lab.agent(
            host, "course", "--nnodes=1:2", "--start=exec", "--allow-injection", "--quarantine-faults=0",
            "--rdzv-conf=lease_ttl=12,last_call_timeout=2", "--max-restarts=50", "--crash-loop=0", "--probe=off",
            str(PROGRAMS / "injected.py"), OUT=str(out), PACE="0.05",
        )
        for host in (1, 2)
    ]  # fmt: skip
    with lab.watched("course") as watched:
        made = Course(lab, "course", out, watched)
        watched.running()
        made.goes_on()
        yield made
        (out / "stop").touch()
        assert [agent.wait(120.0) for agent in agents] == [0, 0], lab.outputs()


PATIENT = 5.0  # seconds for an answer that comes,
SHORTLY = 0.25  # and for one that does not


class Pinger:
    """Datagrams from host 1 to host 2 and back, over the first rail."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.server = subprocess.Popen(
            [*self._in(2), sys.executable, "-c", _ANSWER], stdout=subprocess.PIPE, env=environment()
        )
        assert self.server.stdout is not None
        self.server.stdout.readline()

    def _in(self, host: int) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.lab.net.host(host)}"]

    def ask(self, count: int = 12, size: int = 10, patience: float = PATIENT) -> tuple[float, float]:
        """The share of those that came back within so many seconds, and the least of the seconds that they took."""
        numbers = map(str, (count, size, patience))
        argv = [*self._in(1), sys.executable, "-c", _ASK, self.lab.net.address(2, 0), *numbers]
        out = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60, env=environment()).stdout
        times = [json.loads(line)[1] for line in out.splitlines()]
        return len(times) / count, min(times, default=0.0)

    def close(self) -> None:
        self.server.kill()
        self.server.wait(10)
        assert self.server.stdout is not None
        self.server.stdout.close()


@pytest.fixture(scope="module")
def pinger(lab: Lab) -> Iterator[Pinger]:
    made = Pinger(lab)
    yield made
    made.close()


def test_every_fault_of_the_laboratory_is_tried_here() -> None:
    tried = {*NETWORK, *ETCD, *CONTROLLER, "loss", "partition", "reset"}
    assert tried | {name for name, kind in KINDS.items() if "job" in kind.carriers} == set(KINDS)


NETWORK = ("delay", "reorder", "rate", "one-way", "interface-down", "address-gone", "mtu")
ETCD = ("etcd-kill", "etcd-freeze", "etcd-disk-full", "etcd-clock-jump")
CONTROLLER = ("controller-kill", "controller-freeze", "controller-cut")


@pytest.mark.parametrize("kind", NETWORK)
def test_a_network_s_fault_and_its_end(lab: Lab, pinger: Pinger, kind: str) -> None:
    fault = Fault(kind, share=0.5, delay=0.03, mbit=0.1)
    lost = kind in ("one-way", "interface-down", "address-gone")
    assert pinger.ask(4)[0] == 1.0
    with lab.fault(fault, 2, 0):
        share, seconds = pinger.ask(16 if kind in ("reorder", "rate") else 6, patience=SHORTLY if lost else PATIENT)
        big, slowly = pinger.ask(4, 1300, SHORTLY if lost or kind == "mtu" else PATIENT)
    if lost:
        assert share == 0.0
    elif kind == "delay":
        assert seconds > 0.02
    elif kind == "rate":
        assert slowly > seconds * 2
    elif kind == "reorder":
        assert share == 1.0
        assert slowly < 0.2
    elif kind == "mtu":
        assert (share, big) == (1.0, 0.0)

    def as_before() -> bool:
        share, seconds = pinger.ask(4, 1300, 1.0)
        return share == 1.0 and seconds < 0.1

    wait_until("it is as before", lambda: pinger.ask(4, patience=1.0)[0] == 1.0)
    wait_until("it is as fast as before", as_before)


def test_some_packets_are_lost_and_some_are_not(lab: Lab, pinger: Pinger) -> None:
    """By chance: of few datagrams all may be lost, or none."""
    with lab.fault(Fault("loss", share=0.5), 2, 0):
        wait_until("one is lost, and one is not", lambda: 0.0 < pinger.ask(patience=SHORTLY)[0] < 1.0)
    wait_until("it is as before", lambda: pinger.ask(12)[0] == 1.0)


def test_connections_are_reset_on_both_sides(lab: Lab) -> None:
    net = lab.net
    serve = "import socket,sys; s=socket.create_server(('0.0.0.0',7700)); print('r',flush=True); c,_=s.accept()\n"
    dial = f"import socket; c=socket.create_connection(('{net.address(2, 0)}',7700)); print('r',flush=True)\n"
    wait = "try: c.recv(1)\nexcept OSError as error: print(type(error).__name__,flush=True)"
    ends = []
    for host, text in ((2, serve), (1, dial)):
        argv = ["nsenter", f"--net=/run/netns/{net.host(host)}", sys.executable, "-c", text + wait]
        ends.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        assert ends[-1].stdout is not None
        assert ends[-1].stdout.readline() == "r\n"
    lab.fault(Fault("reset"), 2, 0).wait()
    assert [end.communicate(timeout=20)[0] for end in ends] == ["ConnectionAbortedError\n", "ConnectionResetError\n"]


def test_a_fault_ends_after_its_duration(lab: Lab, pinger: Pinger) -> None:
    lab.fault(Fault("one-way", seconds=0.5), 2, 0).wait()
    assert pinger.ask(4)[0] == 1.0


def hit(lab: Lab, kind: str) -> bool:
    """Whether the second member is in the state that a fault brings about."""
    member = lab.etcd[1]
    if kind == "etcd-disk-full":
        return shutil.disk_usage(member.disk).free == 0
    if member.process is None:
        return kind == "etcd-kill"
    if kind == "etcd-freeze":
        return psutil.Process(member.process.pid).status() == psutil.STATUS_STOPPED
    if kind == "etcd-clock-jump":
        return "3600" in Path(f"/proc/{member.process.pid}/timens_offsets").read_text()
    return False


@pytest.mark.parametrize("kind", [*ETCD, *CONTROLLER])
def test_a_job_bears_the_loss_of_a_member_or_a_controller(lab: Lab, course: Course, kind: str) -> None:
    """No rank is disturbed, the job goes on while it lasts, and both ends of it stand in the history."""
    before = course.goes_on()
    which, epoch = 2, 0
    if kind in CONTROLLER:
        hosts = {lab.net.control(c.host): number for number, c in enumerate(lab.controllers, 1)}

        def leads(watched: Watched) -> tuple[int, int] | None:
            seen = watched.look()
            number = hosts.get(seen.leader.address.rpartition(":")[0]) if seen.leader is not None else None
            return (number, seen.epoch) if number is not None else None

        found = course.watched.until("a controller leads", leads, 60.0)
        assert found is not None
        which, epoch = found
    fault = Fault(kind)
    injected = lab.fault(fault, which, job=course.watched)
    if kind in ETCD:
        wait_until("it does what it says", lambda: hit(lab, kind))
    if kind in CONTROLLER:
        course.watched.until("another leads", lambda w: w.look().epoch > epoch, 60.0)
    assert course.goes_on() == before
    assert course.watched.command("signal", signal=10, rank=0).answer, "a command is carried out meanwhile"
    stood_by = sum(one.log.read_text().count("standing_by") for one in lab.controllers)
    injected.end()
    wait_until("it is undone", lambda: not hit(lab, kind))
    if kind == "controller-kill":
        again = sum(one.log.read_text().count("standing_by") for one in lab.controllers)
        assert again > stood_by, "the controller stands by again"
    course.told(fault, lab.name_of(fault, which))
    assert course.goes_on() == before


def test_a_host_that_is_cut_off_is_lost_and_comes_back(lab: Lab, course: Course) -> None:
    fault = Fault("partition")
    before = course.goes_on()
    with lab.fault(fault, 2, job=course.watched):  # until the others have gone on
        course.watched.running(before + 1, 120.0)
        plan = course.watched.look().plan
        assert plan is not None
        assert plan.reason.code == "node_lost"
        assert lab.net.host(2) in plan.reason.text
    course.watched.until("both again", lambda w: (p := w.look().plan) is not None and len(p.members) == 2, 120.0)
    assert course.goes_on() > before + 1
    course.told(fault, lab.net.host(2))


def test_a_course_is_carried_out_by_whoever_can(lab: Lab, course: Course) -> None:
    """Of a schedule: what hits ranks and nodes goes over the job, the rest is the laboratory's."""
    before = course.goes_on()
    faults = (
        Fault("stop", rank=0, seconds=0.3),
        Fault("agent-freeze", seconds=0.3),
        Fault("delay", delay=0.01, seconds=0.3),
        Fault("etcd-freeze", seconds=0.3),
    )
    for fault in faults:
        done = lab.bring_about(Planned(0.0, fault, 2), course.watched)
        if isinstance(done, Injection):
            done.wait()
        wait_until(
            f"both ends of {fault}",
            lambda fault=fault: len([e for e in _told(course) if str(fault) in e]) >= 2,
        )
    assert any(e.startswith(f"injection_began {lab.net.host(2)}: agent-freeze") for e in _told(course))
    assert course.goes_on() == before


def _told(course: Course) -> list[str]:
    return [f"{line.code} {line.text}" for line in course.watched.events("injection_began", "injection_ended")]


def test_a_job_s_own_faults_are_not_the_laboratory_s(lab: Lab, course: Course) -> None:
    with pytest.raises(ValueError, match="by the job itself"):
        lab.fault(Fault("kill", rank=0), 1)
    with pytest.raises(CommandRefusedError, match="from outside"):
        course.watched.inject(Fault("partition"))


@pytest.mark.torch
def test_a_training_whose_rail_fails_is_stopped_and_goes_on(lab: Lab, tmp_path: Path) -> None:
    """Collectives go over the data interfaces. With these cut and the control network whole, the job says so."""
    for host in (1, 2):
        lab.agent(
            host, "rails", "--nnodes=2", "--allow-injection", "--quarantine-faults=0", "--max-restarts=5",
            "--hang-timeout=8", "--rdzv-conf=last_call_timeout=2", str(PROGRAMS / "injected_training.py"),
            OUT=str(tmp_path), TELL="1", GLOO_SOCKET_IFNAME="nic0,nic1",
        )  # fmt: skip

    def ranks(generation: int) -> set[str]:
        found = tmp_path.glob(f"{generation}-*.jsonl")
        return {path.stem for path in found if '"event": "step"' in path.read_text()}

    with lab.watched("rails") as watched:
        watched.running(1, 90.0)
        wait_until("the first steps", lambda: len(ranks(1)) == 2, 90.0)
        before = sum(lab.net.sent(1, name) for name in ("nic0", "nic1"))
        wait_until("traffic on the rails", lambda: sum(lab.net.sent(1, n) for n in ("nic0", "nic1")) > before + 10_000)
        with lab.fault(Fault("interface-down"), 2, job=watched):  # until it is noticed
            watched.until("the generation ends", lambda w: w.events("job_aborting"), 90.0)
            (line, *_) = watched.events("job_aborting")
        assert any(word in line.text for word in ("rank", "waits", "port", "interface")), line.text
        watched.until("the next one", lambda w: (s := w.look().state) is not None and s.generation > 1, 60.0)
        wait_until("it goes on", lambda: any(len(ranks(g)) == 2 for g in range(2, 7)), 120.0)
        (tmp_path / "stop").touch()
    assert [agent.wait(90.0) for agent in lab.agents[-2:]] == [0, 0], lab.outputs()
