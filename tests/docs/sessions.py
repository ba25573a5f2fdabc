"""What is done with each block of commands: the sessions that run them, and the few that can only be read.

A session is one bash that runs blocks as they stand, one after the other, as a reader would. ``swaps`` put this
machine in the place of a site's hosts, ports and names, and send to the background what a reader leaves in another
terminal; ``waits`` are the reader's patience: shell lines before those that begin so, in the order of these. train.py
is ``tests/docs/train.py``, which needs no torch.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Part:
    """Blocks of a page, each known by how its first line begins."""

    page: str
    first: tuple[str, ...]
    swaps: Mapping[str, str] = field(default_factory=dict)
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Session:
    """``before`` and ``after`` are shell lines around the blocks, ``torch`` says that ranks need it."""

    parts: tuple[Part, ...]
    before: str = ":"
    after: str = ":"
    torch: bool = False


_CONTROLLER = {"a:2379,b:2379,c:2379": "$ETCD", "0.0.0.0:7070": "127.0.0.1:$PORT1"}
_PAGE = _CONTROLLER | {"controller-1:8080": "127.0.0.1:$PORT2", "gpu-07": socket.gethostname()}

_COMMITTED = "until_says checkpoint_committed elaunch events"

SESSIONS: dict[str, Session] = {
    "plug-in": Session(
        (
            Part(
                "docs/torchrun-plugin.md",
                ("pip install elaunch",),
                {"pip install elaunch": "touch stop", "etcd-0:2379,etcd-1:2379,etcd-2:2379": "$ETCD", "1:2": "1:1"},
            ),
        ),
    ),
    "two nodes": Session(
        (
            Part(
                "README.md",
                ("elaunch --nnodes=1:2",),
                {
                    "elaunch --nnodes": "for terminal in 1 2; do elaunch --nnodes",
                    "localhost:29400": "localhost:$PORT1",
                    "train.py": "train.py > $terminal.log 2>&1 & done",
                },
            ),
        ),
        after="until_says '4 ranks on 2 nodes' elaunch events run7; touch stop; wait",
    ),
    "checkpoints": Session(
        (Part("docs/checkpoints.md", ("elaunch ckpt ls", "elaunch ckpt export")),),
        before="python $TESTS/saves.py runs/a",
        after="ls all.pt model.pt model.safetensors",
    ),
    "etcd": Session(
        (
            Part("docs/etcd.md", ("etcdctl role add",), {"user add trainer": "user add trainer:secret"}),
            Part("docs/high-availability.md", ("etcdctl role grant",)),
            Part("docs/etcd.md", ("etcdctl get",), {"<job>": "job"}),
        ),
        before="export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=$ETCD",
    ),
    "trio": Session(
        (
            Part(
                "docs/etcd.md",
                ("for host in",),
                {"29400": "$PORT1"},
                {"etcdctl": ("until_says '^3$' members_started",)},
            ),
        ),
        before="export ETCDCTL_API=3\n"
        "members_started() { etcdctl --endpoints=127.0.0.12:$PORT1 member list | grep -c ', started,'; }",
        after="touch stop; wait",
    ),
    "controller": Session(
        (
            Part(
                "docs/metrics.md",
                ("elaunch controller --etcd",),
                _PAGE
                | {
                    "0.0.0.0:8080": "127.0.0.1:$PORT2 & serves $PORT2",
                    "curl ": 'curl --fail -H "Authorization: Bearer $TOKEN" ',
                },
            ),
            Part(
                "docs/web.md",
                ("curl",),
                _PAGE | {"curl ": "curl --silent ", "llm/commands": "llm/commands | grep 'would end'"},
            ),
        ),
        before="umask 077; TOKEN=0123456789abcdef; echo operator $TOKEN > tokens\n"
        "export ELAUNCH_TOKEN_FILE=$PWD/tokens\n"
        "elaunch --rdzv-backend=etcd --rdzv-endpoint=$ETCD --rdzv-id=llm train.py & job=$!\n"
        "until_says llm elaunch ps --etcd $ETCD",
        after="touch stop; wait $job; ends",
    ),
    "web": Session(
        (
            Part(
                "docs/high-availability.md",
                ("elaunch controller",),
                {**_CONTROLLER, "0.0.0.0:7070": "127.0.0.1:$PORT1 & serves $PORT1; ends"},
            ),
            Part(
                "docs/web.md",
                ("elaunch controller",),
                {**_CONTROLLER, "0.0.0.0:8080": "127.0.0.1:$PORT2 & serves $PORT2; ends", "--web 8080": "--web $PORT3"},
            ),
        ),
        before="touch stop",
    ),
    "operator": Session(
        (
            Part(
                "docs/operator.md",
                ("elaunch status run7", "elaunch top run7"),
                {"elaunch top": "timeout 3 elaunch top", "top run7": "top run7 || [ $? = 124 ]"},
            ),
            Part(
                "docs/inject.md",
                ("elaunch --rdzv-id=try",),
                {"--allow-injection train.py": "--allow-injection train.py > try.log 2>&1 &"},
                {
                    "elaunch inject try kill --rank 3": ("until_says job_running elaunch events try",),
                    "elaunch inject try kill --rank 1": ("until_says 'generation 2 runs' elaunch events try",),
                },
            ),
        ),
        before="elaunch --rdzv-id=run7 train.py > run7.log 2>&1 & until_says job_running elaunch events run7",
        after="touch stop; wait",
    ),
    "hosts": Session(
        (
            Part(
                "docs/ssh.md",
                ("elaunch ssh --hosts hosts.txt", "elaunch ssh --hosts gpu"),
                {"gpu[01-04]": "gpu[01-04] --ssh-dry-run"},
            ),
            Part("docs/security.md", ("openssl",), {" ... train.py": " train.py"}),
            Part("docs/topology.md", ("elaunch topo ",)),
            Part("deploy/README.md", ("elaunch slurm render", "run=")),
            Part("docs/kubernetes.md", ("elaunch kubernetes submit --image",), {"submit": "submit --dry-run=client"}),
        ),
        before="touch stop; echo localhost > hosts.txt; elaunch topo --nccl-xml dump.xml",
    ),
    "tutorial": Session(
        (
            Part(
                "docs/tutorial.md",
                ("torchrun ", "elaunch --nproc-per-node=2 examples/train_ddp.py"),
                {"--epochs 2": "--steps 20"},
            ),
            Part(
                "docs/tutorial.md",
                ("elaunch --nproc-per-node=2 --max-restarts", "elaunch status first", "elaunch signal", "elaunch ckpt"),
                waits={
                    "elaunch status first": (f"until_in first.log 'step 30 '; {_COMMITTED} first",),
                    "elaunch events first": ("until_in first.log 'generation 2 .*after step [1-9]'",),
                    "elaunch ckpt verify": ("wait || true",),
                },
            ),
            Part(
                "docs/tutorial.md",
                ("two=", "elaunch status two", "elaunch events two", "elaunch $two", "elaunch status two"),
                {"localhost:29400": "localhost:$PORT1"},
                {
                    "elaunch status two": (
                        f"until_in 'node?.log' 'step .*world 4'; {_COMMITTED} two",
                        "until_in 'node?.log' 'step .*generation 3 .*world 4'",
                    ),
                    "elaunch events two": ("until_in node1.log 'generation 2 .*after step [1-9]'",),
                },
            ),
        ),
        after="wait || true; ls runs/two",
        torch=True,
    ),
}

# Only read: the page, how the first line begins, and why it is not run here.
READ: dict[tuple[str, str], str] = {
    ("README.md", "make demo"): "both are CI's own steps, and take minutes",
    ("docs/tutorial.md", "make demo"): "CI's own step, and takes minutes; what it leads to is on PATH here",
    ("README.md", "pip install ."): "fetches what is installed already",
    ("docs/metrics.md", "pip install"): "fetches packages, and exports to a collector",
    ("docs/elastic-job.md", "kubectl get ej"): "needs a cluster with the operator: tests/kubernetes",
    ("docs/kubernetes.md", "for image in"): "builds images and pushes them",
    ("docs/kubernetes.md", "cat > Dockerfile.train"): "builds an image and pushes it",
    ("docs/kubernetes.md", "mkdir site"): "needs a cluster; what is applied is held by tests/unit/deploy",
    ("docs/kubernetes.md", "elaunch kubernetes submit --name=llm"): "needs a cluster and operator: tests/kubernetes",
    ("docs/reachability.md", "elaunch doctor --job"): "needs two hosts: tests/lab/test_probed_jobs.py",
    ("docs/qualify.md", "elaunch qualify"): "takes minutes: tests/{e2e,lab}/test_qualify.py",
    ("docs/soak.md", "python bench/soak.py"): "takes ten minutes: tests/lab/test_soak.py",
    ("docs/slurm.md", "srun"): "needs a Slurm: tests/slurm/test_step.py",
    ("docs/slurm.md", "elaunch qualify --hosts"): "needs a Slurm: tests/slurm/test_step.py",
    ("deploy/systemd/README.md", "python3 -m venv"): "changes the machine; tests/etcd/test_systemd.py runs the units",
}
