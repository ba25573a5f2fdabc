"""A job from start to end: the right environment in every rank, a right all-reduce, the right exit code."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import MakeJob
from tests.e2e.harness import Job
from tests.etcd.servers import free_port

pytestmark = [pytest.mark.slow, pytest.mark.torch]


def environments(job: Job, generation: int) -> dict[int, dict[str, str]]:
    return {e["rank"]: e["env"] for e in job.events("start", generation=generation)}


def check_world(job: Job, generation: int, local_sizes: list[int]) -> None:
    """Every rank of the generation has torchrun's variables, with the right values."""
    envs = environments(job, generation)
    world = sum(local_sizes)
    assert sorted(envs) == list(range(world))
    places = [(node, local) for node, size in enumerate(local_sizes) for local in range(size)]
    for rank, (node, local) in enumerate(places):
        env = envs[rank]
        expected = {
            "RANK": rank,
            "LOCAL_RANK": local,
            "WORLD_SIZE": world,
            "LOCAL_WORLD_SIZE": local_sizes[node],
            "GROUP_RANK": node,
            "GROUP_WORLD_SIZE": len(local_sizes),
            "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": world,
            "ROLE_NAME": "default",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
            "ELAUNCH_GENERATION": generation,
        }
        assert {name: env[name] for name in expected} == {name: str(value) for name, value in expected.items()}
    assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in envs.values()}) == 1


def test_four_ranks_on_one_node(job: MakeJob) -> None:
    one = job("--nproc-per-node=4", "--max-restarts=2")
    agent = one.agent()
    one.steps_in(1, 4)
    one.finish()
    assert agent.wait() == 0, agent.output()
    check_world(one, 1, [4])
    assert {e["env"]["TORCHELASTIC_MAX_RESTARTS"] for e in one.events("start")} == {"2"}
    assert {e["world"] for e in one.events("step")} == {4}
    assert len(one.events("end")) == 4


def test_two_agents_of_two_ranks(job: MakeJob, etcd: str) -> None:
    two = job("--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=two")
    agents = [two.agent(), two.agent()]
    two.steps_in(1, 4)
    two.finish()
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    check_world(two, 1, [2, 2])
    assert {e["env"]["TORCHELASTIC_RUN_ID"] for e in two.events("start")} == {"two"}


def test_three_agents_of_two_to_three(job: MakeJob) -> None:
    """On the embedded etcd, which the first agent of this host starts for all."""
    three = job(
        "--nnodes=2:3", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}",
        "--rdzv-id=three", "--rdzv-conf=last_call_timeout=20",
    )  # fmt: skip
    agents = [three.agent() for _ in range(3)]
    three.steps_in(1, 3)
    three.finish()
    assert [agent.wait() for agent in agents] == [0, 0, 0], three.outputs()
    check_world(three, 1, [1, 1, 1])
    assert not three.events(generation=2)


@pytest.mark.parametrize("address", ["localhost", "127.0.0.2"])
def test_nodes_that_meet_on_another_address_than_the_usual_loopback(job: MakeJob, etcd: str, address: str) -> None:
    """A name means every interface, as the address of a real network does; another loopback only itself."""
    two = job(
        "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id=at-{address}",
        f"--local-addr={address}",
    )  # fmt: skip
    agents = [two.agent(), two.agent()]
    two.steps_in(1, 2)
    two.finish()
    assert [agent.wait() for agent in agents] == [0, 0], two.outputs()
    assert {e["env"]["MASTER_ADDR"] for e in two.events("start")} == {address}


def test_an_etcd_whose_name_is_unknown_is_one_line(job: MakeJob) -> None:
    lost = job("--nnodes=2", "--rdzv-backend=etcd", "--rdzv-endpoint=no-such-host.invalid:2379", "--rdzv-id=lost")
    agent = lost.agent()
    assert agent.wait() == 2, agent.output()
    lines = [line for line in agent.output().splitlines() if "warning" not in line]
    assert len(lines) == 1, agent.output()
    assert "no-such-host.invalid:2379" in lines[0]


def test_who_waits_for_a_node_says_so_and_needs_no_etcd_to_be_understood(job: MakeJob) -> None:
    late = job("--nnodes=2", "--rdzv-id=late", "--rdzv-conf=read_timeout=2", "--start=exec", "--master-port=29511")
    agent = late.agent("--master-addr=no-such-host.invalid")
    assert agent.wait() == 2, agent.output()
    first, unknown, end = agent.output().splitlines()
    assert "waiting up to 2 s for the node that owns no-such-host.invalid:29511" in first
    assert "warning: rendezvous: the name no-such-host.invalid is not known here" in unknown
    assert end.startswith("elaunch: error: rendezvous: the node that owns no-such-host.invalid:29511 did not answer")
    assert "within 2 s (read_timeout): the name no-such-host.invalid is not known here; start that node" in end
    assert "etcd" not in agent.output()
