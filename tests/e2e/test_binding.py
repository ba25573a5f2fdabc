"""Ranks are started with what their machine has: servers of eight GPUs as trees of files, and agents that take them
for their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from elaunch.topology.host.addresses import read_addresses
from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.unit.topology.sysfs_tree import nic, switched, write, write_machine

pytestmark = [pytest.mark.slow]

OWN = next(
    (a for name, found in (read_addresses() or {}).items() if name != "lo" for a in found if a.count(".") == 3), ""
)
needs_address = pytest.mark.skipif(not OWN, reason="this host has no address but loopback")
needs_two_cpus = pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="CPUs 0 and 1 are not both allowed")
TOLD = str(PROGRAMS / "told.py")
LIBRARIES = ("NCCL_", "GLOO_", "UCX_", "FI_", "CUDA_", "ROCR_")
UUID = "GPU-00000000-0000-0000-0000-00000000000{}"


def server(root: Path, gpus: int) -> Path:
    """Two sockets of one CPU each, so that this machine can be bound as if it were that one."""
    functions, cards = switched(gpus, gpus)
    driver = {
        f"proc/driver/nvidia/gpus/{gpu.address}/information": f"Model: H100\nGPU UUID: {UUID.format(n)}"
        for n, gpu in enumerate(sorted(functions, key=lambda gpu: gpu.address))
    }
    ports = [c.__class__(c.function, c.rdma, link_layer="InfiniBand") for c in cards]
    return write_machine(root, functions, ports, nodes=("0", "1"), files=driver)


def turn_off(root: Path, *names: str) -> None:
    for each in names:
        for name, value in (("state", "1: DOWN"), ("phys_state", "2: Polling")):
            write(root, f"sys/class/infiniband/{each}/ports/1/{name}", value)


def environments(job: Job, generation: int, ranks: int) -> list[dict[str, str]]:
    """Of all ranks of a generation, in order, once they have started."""

    def found() -> list[Any]:
        events = job.events("start", generation=generation)
        return events if len(events) == ranks else []

    try:
        events = wait_until(f"{ranks} ranks of generation {generation}", found)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{job.outputs()}") from None
    return [{**e["env"], "cpus": e["cpus"]} for e in sorted(events, key=lambda e: e["rank"])]


def of_libraries(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(LIBRARIES)}


def two_nodes(job: MakeJob, etcd: str, name: str, *options: str, nodes: str = "2", ranks: int = 2) -> Job:
    where = ["--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", f"--rdzv-id=binding-{name}", f"--local-addr={OWN}"]
    size = [f"--nnodes={nodes}", f"--nproc-per-node={ranks}", "--rdzv-conf=last_call_timeout=1"]
    made = job(*size, *where, *options, program=(TOLD, "wait"))
    made.env.update(dict.fromkeys((), ""))
    return made


@needs_address
@needs_two_cpus
@pytest.mark.parametrize("start", ["exec", pytest.param("warm", marks=pytest.mark.torch)])
def test_a_large_server(job: MakeJob, etcd: str, tmp_path: Path, start: str) -> None:
    root = str(server(tmp_path / "machine", 8))
    made = two_nodes(
        job, etcd, f"large-{start}", f"--start={start}", "--cpu-bind=numa", "--virtual-local-rank", ranks=8
    )
    agents = [made.agent(ELAUNCH_SYSFS_ROOT=root) for _ in range(2)]
    envs = environments(made, 1, 16)
    made.finish()
    assert [agent.wait() for agent in agents] == [0, 0], made.outputs()
    for rank, env in enumerate(envs):
        local = rank % 8
        assert of_libraries(env) == {
            "NCCL_IB_HCA": "=mlx5_0,mlx5_4,mlx5_1,mlx5_5,mlx5_2,mlx5_6,mlx5_3,mlx5_7",
            "UCX_NET_DEVICES": "mlx5_0:1,mlx5_4:1,mlx5_1:1,mlx5_5:1,mlx5_2:1,mlx5_6:1,mlx5_3:1,mlx5_7:1",
            "CUDA_VISIBLE_DEVICES": UUID.format(local),
        }
        assert (env["LOCAL_RANK"], env["ELAUNCH_DEVICE_ID"]) == ("0", UUID.format(local))
        assert (env["ELAUNCH_NUMA"], env["cpus"]) == (str(local // 4), [local // 4])
    assert len({env["ELAUNCH_TOPOLOGY_DIGEST"] for env in envs}) == 1
    assert "exec_start" not in made.outputs()
    assert made.agents[0].output().count("info: binding: ") == 1


@needs_address
def test_a_port_that_has_gone_down_is_left_out_of_the_next_generation(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    root = server(tmp_path / "machine", 2)
    made = two_nodes(job, etcd, "down", "--start=exec", "--max-restarts=1")
    agents = [made.agent(ELAUNCH_SYSFS_ROOT=str(root)) for _ in range(2)]
    assert {env["NCCL_IB_HCA"] for env in environments(made, 1, 4)} == {"=mlx5_0,mlx5_1"}
    turn_off(root, "mlx5_0")
    os.kill(made.events("start", generation=1, rank=0)[0]["pid"], 9)
    envs = environments(made, 2, 4)
    made.finish()
    assert [agent.wait() for agent in agents] == [0, 0], made.outputs()
    assert {env["NCCL_IB_HCA"] for env in envs} == {"=mlx5_1"}
    assert "all ranks use mlx5_1:1; not used: mlx5_0:1 is down (Polling)" in agents[0].output()
    assert len({e["ELAUNCH_TOPOLOGY_DIGEST"] for e in (*envs, *environments(made, 1, 4))}) == 1


@needs_address
def test_a_job_that_needs_a_node_without_a_way_ends_and_says_why(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    well, cut_off = server(tmp_path / "well", 2), server(tmp_path / "cut_off", 2)
    turn_off(cut_off, "mlx5_0", "mlx5_1")
    made = two_nodes(job, etcd, "no-route", "--start=exec", "--max-restarts=3")
    agents = [made.agent(ELAUNCH_SYSFS_ROOT=str(root)) for root in (well, cut_off)]
    assert [agent.wait() for agent in agents] == [95, 95], made.outputs()
    for agent in agents:
        last = [line for line in agent.output().splitlines() if line.startswith("elaunch: error: ")]
        assert len(last) == 1
        assert "no port to reach other nodes over: 2 ports found, none usable: mlx5_0:1 is down (Polling)" in last[0]
    assert not made.events("start", generation=2)
    wait_until("nothing is left", lambda: not made.living())


@needs_address
def test_a_job_goes_on_without_a_node_that_has_no_way(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    well, cut_off = server(tmp_path / "well", 2), server(tmp_path / "cut_off", 2)
    turn_off(cut_off, "mlx5_0", "mlx5_1")
    made = two_nodes(job, etcd, "left-out", "--start=exec", nodes="1:2")
    agents = [made.agent(ELAUNCH_SYSFS_ROOT=str(root)) for root in (well, cut_off)]
    assert agents[1].wait() == 95, made.outputs()
    (generation,) = {e["generation"] for e in wait_until("two ranks", lambda: _worlds(made, 2))}
    envs = environments(made, generation, 2)
    made.finish()
    assert agents[0].wait() == 0, made.outputs()
    assert of_libraries(envs[0]) == {}  # of one node only


def _worlds(job: Job, size: int) -> list[Any]:
    """The newest generation, if it is of that size: the first may have been too, before the other node had come."""
    newest = max((e["generation"] for e in job.events("start")), default=0)
    found = [e for e in job.events("start", generation=newest) if e["env"]["WORLD_SIZE"] == str(size)]
    return found if len(found) == size else []


@needs_address
def test_the_users_own_list_wins_and_is_told_of_once(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    root = server(tmp_path / "machine", 2)
    turn_off(root, "mlx5_1")
    made = two_nodes(job, etcd, "user", "--start=exec", "--max-restarts=1")
    agents = [made.agent(ELAUNCH_SYSFS_ROOT=str(root), NCCL_IB_HCA="=mlx5_0,mlx5_1") for _ in range(2)]
    environments(made, 1, 4)
    os.kill(made.events("start", generation=1, rank=0)[0]["pid"], 9)
    envs = environments(made, 2, 4)
    made.finish()
    assert [agent.wait() for agent in agents] == [0, 0], made.outputs()
    assert {env["NCCL_IB_HCA"] for env in envs} == {"=mlx5_0,mlx5_1"}
    said = "warning: binding_remark: NCCL_IB_HCA==mlx5_0,mlx5_1 is set in the environment and stays: mlx5_1 is down"
    assert [agent.output().count(said) for agent in agents] == [1, 1]


def test_on_one_host_nothing_is_set(job: MakeJob, tmp_path: Path) -> None:
    made = job("--standalone", "--nproc-per-node=2", "--start=exec", program=(TOLD,))
    outer = {"ELAUNCH_NICS": "mlx5_7:1", "ELAUNCH_RAIL": "7"}
    agent = made.agent(ELAUNCH_SYSFS_ROOT=str(server(tmp_path / "machine", 2)), **outer)
    envs = environments(made, 1, 2)
    assert agent.wait() == 0, agent.output()
    assert [of_libraries(env) for env in envs] == [{}, {}]
    assert not outer.keys() & envs[0].keys()
    assert "binding" not in agent.output()


NCCL_FILE = """<system version="1">
  <cpu numaid="0" affinity="00000003" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"/>
      </pci>
      <pci busid="0000:12:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="262144" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
"""


def test_a_file_for_nccl_is_read_and_handed_on(job: MakeJob, tmp_path: Path) -> None:
    file = tmp_path / "topology.xml"
    file.write_text(NCCL_FILE)
    made = job("--standalone", "--start=exec", f"--topology={file}", "--nic-policy=local", program=(TOLD,))
    card = nic("mlx5_0", "pci0000:10/0000:12:00.0", link_layer="InfiniBand")  # the kernel shows no device
    agent = made.agent(ELAUNCH_SYSFS_ROOT=str(write_machine(tmp_path / "machine", nics=[card], nodes=("0", "1"))))
    (env,) = environments(made, 1, 1)
    assert agent.wait() == 0, agent.output()
    assert (env["NCCL_TOPO_FILE"], env["NCCL_IB_HCA"]) == (str(file), "=mlx5_0")
    assert env["ELAUNCH_DEVICE_ID"] == "0000:11:00.0"
    file.write_text(NCCL_FILE[:200])
    agent = made.agent()
    assert agent.wait() == 2
    assert agent.output().startswith(f"elaunch: error: --topology={file}: ")


def test_a_nic_that_is_not_there_is_refused(job: MakeJob, tmp_path: Path) -> None:
    made = job("--standalone", "--start=exec", "--nic-policy=0=mlx5_9", program=(TOLD,))
    agent = made.agent(ELAUNCH_SYSFS_ROOT=str(server(tmp_path / "machine", 2)))
    assert agent.wait() == 2
    assert "the map of NICs names mlx5_9, which this machine has not" in agent.output()
    assert not made.events("start")
