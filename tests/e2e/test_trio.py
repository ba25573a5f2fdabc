"""Three hosts with nothing but an endpoint: the job's etcd has a member on each, and outlives every one of them.

Each host of these tests is a loopback address of its own, with an agent, its ranks, a keeper and an etcd.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from dataclasses import dataclass

import psutil
import pytest

from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.store import ClusterMember
from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Agent, Event, Job, gone, wait_until
from tests.etcd.servers import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SIGNALLED = (str(PROGRAMS / "signalled.py"),)
PROMPT = "--rdzv-conf=lease_ttl=6,etcd_timeout=3"
KEEPER = "elaunch.rendezvous.keeper"
WHOLE = 120.0  # seconds for the trio to be whole: etcd itself takes in nobody within 5 s of a change


def _words(process: psutil.Process) -> list[str]:
    """Its command line, empty where it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def address(host: int) -> str:
    return f"127.0.0.{host + 10}"


@dataclass
class Hosts:
    """A job's hosts, by number."""

    job: Job
    port: int

    def start(self, host: int, *endpoints: int, **options: str) -> Agent:
        """An agent on ``host`` that knows ``endpoints`` only."""
        named = ",".join(f"{address(one)}:{self.port}" for one in endpoints)
        return self.job.agent(f"--rdzv-endpoint={named}", f"--local-addr={address(host)}", **options)

    def lose(self, host: int, agent: Agent) -> None:
        """Everything on this host at once, as when it loses power."""
        keeper = self.keeper(host)
        everything = {psutil.Process(agent.pid), *agent.children(), keeper, *keeper.children()}
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for process in everything:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signum)
        agent.process.wait(10)
        psutil.wait_procs(list(everything), timeout=10)

    def keeper(self, host: int) -> psutil.Process:
        """The keeper of the member on ``host``."""
        listening = f'"listen": ["{address(host)}:'
        (found,) = [p for p in self.job.living() if (words := _words(p))[2:3] == [KEEPER] and listening in words[3]]
        return found

    def voters(self, *hosts: int) -> list[ClusterMember]:
        """The members with a vote, as a member on ``hosts`` knows them; none while none of them answers."""
        return asyncio.run(self._voters([f"{address(host)}:{self.port}" for host in hosts]))

    async def _voters(self, endpoints: list[str]) -> list[ClusterMember]:
        store = EtcdStore(endpoints, deadline=10.0)
        try:
            return [member for member in await store.members() if not member.learner]
        except Exception:  # noqa: BLE001 - asked again until it answers
            return []
        finally:
            await store.close()

    def whole(self, *hosts: int) -> None:
        """Wait until exactly these hosts have the members."""
        wanted = sorted(f"{address(host)}:{self.port}" for host in hosts)

        def members() -> list[str]:
            return sorted(endpoint for member in self.voters(*hosts) for endpoint in member.endpoints)

        try:
            wait_until(f"members at {wanted}", lambda: members() == wanted, WHOLE)
        except AssertionError as error:
            raise AssertionError(f"{error}, found {members()}\n{self.job.outputs()}") from None

    def runs(self, generation: int, world: int) -> list[Event]:
        """Wait until all ranks of a generation run."""

        def ready() -> list[Event]:
            found = self.job.events("ready", generation=generation)
            return found if len(found) == world else []

        try:
            return wait_until(f"generation {generation} on {world} ranks", ready)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job.outputs()}") from None


@pytest.fixture
def hosts(job: MakeJob) -> Hosts:
    # Never more than three at a time: so the first generation is of all three, however late one of them comes.
    options = ("--nnodes=2:3", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=trio", "--start=exec", PROMPT)
    return Hosts(job(*options, program=SIGNALLED), free_port())


def test_a_rolling_loss_of_all_first_hosts(hosts: Hosts) -> None:
    """The host of the endpoint first. Each time another one joins through a survivor, and the trio is whole again.

    One of them is the first host, back with its old data and its old command line: it must not start an etcd beside.
    """
    agents = {host: hosts.start(host, 0) for host in range(3)}
    hosts.runs(1, 3)
    hosts.whole(0, 1, 2)
    generations = itertools.count(2)
    for lost, new, through in ((0, 3, (1,)), (1, 0, (0,)), (2, 4, (1, 3))):
        hosts.lose(lost, agents.pop(lost))
        hosts.runs(next(generations), 2)
        agents[new] = hosts.start(new, *through)
        hosts.runs(next(generations), 3)
        hosts.whole(*agents)
    hosts.job.finish()
    assert [agent.wait() for agent in agents.values()] == [0, 0, 0], hosts.job.outputs()
    assert {e["env"]["TORCHELASTIC_RESTART_COUNT"] for e in hosts.job.events("start")} == {"0"}


def test_members_outlive_their_agents_and_not_their_use(hosts: Hosts) -> None:
    agents = {host: hosts.start(host, 0) for host in range(3)}
    hosts.runs(1, 3)
    hosts.whole(0, 1, 2)
    before = {member.id for member in hosts.voters(0)}

    agents[1].kill()  # the next agent of this host takes its member over, by the endpoint of either
    hosts.runs(2, 2)
    agents[1] = hosts.start(1, 1)
    hosts.runs(3, 3)
    hosts.whole(0, 1, 2)
    assert {member.id for member in hosts.voters(0)} == before

    keeper = hosts.keeper(0)
    agents[0].kill(signal.SIGTERM)  # a host that is drained: its member serves until another can
    assert agents.pop(0).wait() == 143
    hosts.runs(4, 2)
    hosts.whole(0, 1, 2)
    agents[3] = hosts.start(3, 0)
    hosts.runs(5, 3)
    hosts.whole(1, 2, 3)
    wait_until("the end of a keeper that is of no use any more", lambda: gone(keeper.pid))

    (killed,) = [member.id for member in hosts.voters(1) if member.endpoints == (f"{address(3)}:{hosts.port}",)]
    hosts.keeper(3).children()[0].kill()  # etcd itself, of a version that may not be started again on its data
    wait_until("another member", lambda: (now := hosts.voters(1)) and killed not in {member.id for member in now})
    hosts.whole(1, 2, 3)

    started = len(hosts.job.events("start"))
    assert started == 3 + 2 + 3 + 2 + 3, f"only who came or went disturbs the ranks\n{hosts.job.outputs()}"

    for lost in (1, 2):  # two of three: there is nobody left to decide anything
        hosts.lose(lost, agents[lost])
    assert agents[3].wait() == 69, hosts.job.outputs()
    assert "2 of the 3 members of this job's etcd do not answer" in agents[3].output()


def test_hosts_that_are_given_the_endpoint_of_all_of_them(hosts: Hosts) -> None:
    """127.0.0.1 is every such host's own: one starts the etcd, wherever it comes first, and the others join it."""
    everybody = f"--rdzv-endpoint=127.0.0.1:{hosts.port}"
    agents = [hosts.job.agent(everybody, f"--local-addr={address(host)}") for host in range(3)]
    hosts.runs(1, 3)
    hosts.whole(0, 1, 2)
    hosts.job.finish()
    assert [agent.wait() for agent in agents] == [0, 0, 0], hosts.job.outputs()
