"""``elaunch kubernetes``: a job's manifest from a few wishes, the job in a cluster, its logs; and the operator."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from elaunch.agent.slurm_commands import ask
from elaunch.cli.wish_file import wished
from elaunch.errors import ElaunchError, UsageError
from elaunch.schedulers.kubectl_words import Complaint, complaint
from elaunch.schedulers.manifests import JOB, ROLE, documents_of
from elaunch.schedulers.pod_wishes import KINDS, LABEL, LISTS, NAMES, WHOLE, Wishes, wishes_of
from elaunch.schedulers.yaml_text import documents

SECONDS = 60.0  # for each answer of the cluster
_HELP = {
    "kind": f"what makes the pods: {', '.join(KINDS)} (elasticjob)",
    "options": "of elaunch, separated by spaces",
    "name": "of the job (elaunch)",
    "namespace": "of the job (that of kubectl's context)",
    "image": "that holds elaunch and the program",
    "nodes": "pods that train (1)",
    "spares": "more pods, that wait for one to fail (0)",
    "min_nodes": "go on with so few (all)",
    "gpus": "of each pod, and as many ranks",
    "gpu_resource": "what a GPU is called there (nvidia.com/gpu)",
    "cpus": "of each pod (1)",
    "memory": "of each pod (2Gi)",
    "shm": "of it for /dev/shm (all)",
    "grace": "seconds that a pod has to save and leave (60)",
    "retries": "pods that may be replaced because of faults (20)",
    "etcd": "HOST:PORT,... of yours, at which the pods meet",
    "etcd_storage": "the ElasticJob's own etcd has three members, each with a volume of this size",
    "volumes": "CLAIM:/PATH to be mounted: may be given again",
    "env": "NAME=VALUE: may be given again",
    "node_selector": "LABEL=VALUE of machines: may be given again",
    "tolerate": "the key of a taint: may be given again",
    "queue": "of Kueue",
    "priority": "class",
    "service_account": "of the pods; it is not mounted",
}
_TEXT = {
    "render": "print the manifest",
    "submit": "create the job, and print its name",
    "logs": "what the job's pods print, each line after its pod's name",
    "delete": "delete the job and all that belongs to it",
}


class ClusterError(ElaunchError):
    """The cluster did not do what it was asked for; the exit code says in what way."""

    def __init__(self, what: str, found: Complaint) -> None:
        super().__init__(f"kubernetes {what}: {found.text}")
        self.exit_code = found.exit_code  # type: ignore[misc]  # one error, several ways


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"kubernetes: {message.removeprefix('argument ')}; elaunch kubernetes --help shows how")


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code. Raises UsageError and ClusterError."""
    if arguments[:1] == ["operator"]:
        from elaunch.cli.kubernetes_operator import run as operate

        return operate(arguments[1:], environ)
    given = _parser().parse_args(arguments)
    if given.what in ("render", "submit"):
        return _make(given)
    if given.what == "delete":
        return _delete(given)
    from elaunch.agent.pod_logs import Selection, show

    where = Selection(
        tuple(_kubectl(given)), f"{JOB}={_name(given)},{ROLE}=worker", given.follow, given.tail, given.since
    )
    found = show(where, sys.stdout)
    if found is not None:
        raise ClusterError("logs", found)
    return 0


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its parser, with one for each part."""
    return {"kubernetes": _parser()}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="elaunch kubernetes", description="Jobs in Kubernetes; kubectl is asked to do it.")
    whats = parser.add_subparsers(dest="what", required=True, metavar="render|submit|logs|delete|operator|probe")
    for what in ("render", "submit"):
        _add_wishes(
            whats.add_parser(what, help=_TEXT[what], description=f"{_TEXT[what].capitalize()}.", allow_abbrev=False),
            what,
        )
    logs, delete = (
        whats.add_parser(w, help=_TEXT[w], description=f"{_TEXT[w].capitalize()}.") for w in ("logs", "delete")
    )
    for one in (logs, delete):
        one.add_argument("name", metavar="JOB", help="its name")
        one.add_argument("--namespace", "-n", default="", metavar="NAME", help=_HELP["namespace"])
        _add_place(one)
    logs.add_argument("--follow", "-f", action="store_true", help="go on with what they print, and with new pods")
    logs.add_argument("--tail", type=int, default=-1, metavar="LINES", help="of each pod (all)")
    logs.add_argument("--since", default="", metavar="TIME", help="as kubectl takes it: 10m")
    delete.add_argument("--dry-run", choices=("client", "server"), help="only say what would be deleted")
    delete.add_argument("--no-wait", action="store_true", help="do not wait until the pods are gone")
    whats.add_parser("operator", help="run the operator of ElasticJob", add_help=False)
    whats.add_parser("probe", help="live or ready: for the probes of a pod", add_help=False)
    return parser


def _add_wishes(one: argparse.ArgumentParser, what: str) -> None:
    one.add_argument("--file", metavar="TOML", help="wishes by the names of these options; what is given here wins")
    for name in NAMES:
        option, metavar = "--" + name.replace("_", "-"), name.upper().removeprefix("MIN_")
        if name == "options":
            one.add_argument(option, type=str.split, metavar="TEXT", help=_HELP[name])
        elif name in LISTS and name != "program":
            one.add_argument(option, action="append", metavar="TEXT", help=_HELP[name])
        elif name != "program":
            one.add_argument(option, type=int if name in WHOLE else str, metavar=metavar, help=_HELP[name])
    if what == "submit":
        _add_place(one)
        text = "client: only print the manifest; server: have the cluster check it, and create nothing"
        one.add_argument("--dry-run", choices=("client", "server"), help=text)
    one.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="what elaunch is to run")


def _add_place(one: argparse.ArgumentParser) -> None:
    one.add_argument("--context", default="", metavar="NAME", help="of kubectl")
    one.add_argument("--kubeconfig", default="", metavar="FILE", help="of kubectl")


def _kubectl(given: argparse.Namespace) -> list[str]:
    asked = {"kubeconfig": given.kubeconfig, "context": given.context, "namespace": given.namespace}
    return ["kubectl", *(f"--{name}={value}" for name, value in asked.items() if value)]


def _make(given: argparse.Namespace) -> int:
    wishes = _wishes(given)
    made = documents_of(wishes)
    if given.what == "render" or given.dry_run == "client":
        sys.stdout.write(documents(made))
        return 0
    given.namespace = wishes.namespace
    dry = ["--dry-run=server"] if given.dry_run else []
    done: list[str] = []
    for document in made:
        said = ask(
            [*_kubectl(given), "create", "-f", "-", "-o", "name", *dry], given=documents([document]), seconds=SECONDS
        )
        if not said.done:
            if done and not dry:
                ask([*_kubectl(given), "delete", "--wait=false", "--ignore-not-found", *done], seconds=SECONDS)
            raise ClusterError("submit", complaint(said.text))
        done.append(said.text.strip())
    sys.stdout.write("".join(f"{name}{' (server dry run)' if dry else ''}\n" for name in done))
    return 0


def _wishes(given: argparse.Namespace) -> Wishes:
    try:
        return wishes_of(wished("kubernetes", given, NAMES))
    except ValueError as error:
        raise UsageError(f"kubernetes {given.what}: {error}") from None


def _name(given: argparse.Namespace) -> str:
    """The job's, also where it is given as submit has printed it. Raises UsageError where no job can have it."""
    name: str = given.name.rpartition("/")[2]
    if not LABEL.fullmatch(name):
        raise UsageError(f"kubernetes {given.what}: JOB={given.name}: expected letters a to z, digits and dashes")
    return name


def _delete(given: argparse.Namespace) -> int:
    """The ElasticJob of that name, and of other kinds what carries the job's label: nothing else is touched."""
    name = _name(given)
    flags = ["-o", "name", f"--wait={'false' if given.no_wait else 'true'}"]
    flags += [f"--dry-run={given.dry_run}"] if given.dry_run else []
    gone: list[str] = []
    for kind in ("elasticjobs.elaunch.dev", "jobsets.jobset.x-k8s.io", "jobs.batch", "services"):
        which = [name, "--ignore-not-found"] if kind == "elasticjobs.elaunch.dev" else [f"--selector={JOB}={name}"]
        said = ask([*_kubectl(given), "delete", kind, *which, *flags], seconds=10 * SECONDS)
        if said.done:
            gone += [line for line in said.text.split() if "/" in line]  # else: No resources found
        elif not (found := complaint(said.text)).unknown_kind:
            raise ClusterError("delete", found)
    if not gone:
        raise ClusterError("delete", Complaint(66, f"there is no job {name} here; -n gives another namespace"))
    sys.stdout.write("".join(f"{name}\n" for name in gone))
    return 0
