from elaunch.controller.commands import Abort, End, Start, command_for
from elaunch.controller.job import NodeStatus, Policy, RankExit, RunPhase
from elaunch.controller.state import NodeJoined, NodeLost, PlanCommitted, StatusReceived, resume, step
from elaunch.rendezvous.records import Node, Phase


def node(i, n=2):
    return Node(f"n{i}", f"h{i}", "127.0.0.1", n, 1000 + i, f"127.0.0.1:{i}", joined=i)


def up(job, i, now=0.0):
    job = step(job, NodeJoined(node(i)), now)
    return step(job, StatusReceived(NodeStatus(f"n{i}", store_port=1000 + i)), now)


def test_restart():
    job = resume(Policy(2, 2, 1), None, None, [], 0.0)
    job = up(up(job, 0), 1)
    assert job.phase is Phase.STARTING and job.uncommitted
    job = step(job, PlanCommitted(1), 0.1)
    c = command_for(job, job.nodes["n1"])
    assert isinstance(c, Start) and c.rank0 == 2 and c.world_size == 4
    for i in (0, 1):
        job = step(job, StatusReceived(NodeStatus(f"n{i}", 1, RunPhase.RUNNING, store_port=2000 + i)), 0.2)
    assert job.phase is Phase.RUNNING
    job = step(job, StatusReceived(NodeStatus("n1", 1, RunPhase.FAILED, (RankExit(0, 2, 5, -9, 0.0),), 2001)), 0.3)
    assert job.phase is Phase.ABORTING and isinstance(command_for(job, job.nodes["n0"]), Abort)
    job = step(job, StatusReceived(NodeStatus("n1", 1, RunPhase.STOPPED, (RankExit(0, 2, 5, -9, 0.0),), 2001)), 0.3)
    job = step(job, StatusReceived(NodeStatus("n0", 1, RunPhase.STOPPED, (), 2000)), 0.3)
    assert (
        job.phase is Phase.STARTING and job.generation == 2 and job.restart_count == 1 and job.plan.store_port == 2000
    )
    job = step(job, PlanCommitted(2), 0.3)
    job = step(job, NodeLost("n1"), 0.4)
    assert job.phase is Phase.ABORTING
    job = step(job, StatusReceived(NodeStatus("n0", 2, RunPhase.STOPPED, (), 3000)), 0.5)
    assert job.phase is Phase.WAITING
    job = step(job, NodeJoined(node(0)), 700.0)
    assert job.phase is Phase.FAILED and job.exit_code == 75
    assert isinstance(command_for(job, job.nodes["n0"]), End)
