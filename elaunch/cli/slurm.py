"""``elaunch slurm``: a batch script from a few wishes, and whether a job that ends is started again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from elaunch.agent.slurm_commands import ask
from elaunch.cli.wish_file import wished
from elaunch.errors import UsageError
from elaunch.schedulers.sbatch import LISTS, NAMES, script_of, wishes_of
from elaunch.schedulers.slurm_states import MOST_STARTS, requeued, state_in

_HELP = {
    "options": "of elaunch, separated by spaces",
    "name": "of the job (elaunch)",
    "nodes": "that train (1)",
    "spares": "more nodes, that wait for one to fail (0)",
    "min_nodes": "go on with so few (all)",
    "gpus": "on each node",
    "cpus": "on each node",
    "time": "limit, as sbatch takes it",
    "warning": "seconds before the limit at which the ranks get notice (120)",
    "requeues": "how often it may be started again (20)",
    "partition": "of Slurm",
    "account": "of Slurm",
    "qos": "of Slurm",
    "array": "groups of NODES each that make one job: 0-3",
    "etcd": "HOST:PORT,... at which the groups meet",
    "output": "file (%%x-%%j.out)",
    "sbatch": "one more option of sbatch, with its dashes: may be given again",
    "setup": "a line of shell before the start: may be given again",
}
_WHOLE = ("nodes", "spares", "min_nodes", "gpus", "cpus", "warning", "requeues")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"slurm: {message.removeprefix('argument ')}; elaunch slurm --help shows how")


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code. Raises UsageError."""
    given = _parser().parse_args(arguments)
    if given.what == "requeue":
        return _requeue(given.code, given.at_most, environ)
    script = _script(given)
    if given.what == "render" or given.dry_run:
        sys.stdout.write(script)
        return 0
    said = ask(["sbatch", "--parsable"], given=script)
    if not said.done:
        raise UsageError(f"slurm submit: {said.text}")
    sys.stdout.write(f"{said.text.strip()}\n")
    return 0


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its parser, with one for each part."""
    return {"slurm": _parser()}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="elaunch slurm", description="Batch scripts for Slurm, and what they need.")
    whats = parser.add_subparsers(dest="what", required=True, metavar="render|submit|requeue")
    for what, text in (("render", "print a batch script"), ("submit", "hand it to sbatch, and print the job's number")):
        one = whats.add_parser(what, help=text, description=f"{text.capitalize()}.", allow_abbrev=False)
        one.add_argument("--file", metavar="TOML", help="wishes by the names of these options; what is given here wins")
        for name in NAMES:
            if name != "program":
                _add(one, name)
        if what == "submit":
            one.add_argument("--dry-run", action="store_true", help="only print the script")
        one.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT ...", help="what elaunch is to run")
    again = whats.add_parser("requeue", help="at the end of a batch script: start the job again if work remains")
    again.add_argument("code", type=int, metavar="CODE", help="what srun ended with: $?")
    again.add_argument("--at-most", type=int, default=MOST_STARTS, metavar="N", help="starts after the first (20)")
    return parser


def _add(parser: argparse.ArgumentParser, name: str) -> None:
    option, metavar = "--" + name.replace("_", "-"), name.upper().removeprefix("MIN_")
    if name == "options":
        parser.add_argument(option, type=str.split, metavar="TEXT", help=_HELP[name])
    elif name in LISTS:
        parser.add_argument(option, action="append", metavar="TEXT", help=_HELP[name])
    else:
        parser.add_argument(option, type=int if name in _WHOLE else str, metavar=metavar, help=_HELP[name])


def _script(given: argparse.Namespace) -> str:
    try:
        return script_of(wishes_of(wished("slurm", given, NAMES)))
    except ValueError as error:
        raise UsageError(f"slurm {given.what}: {error}") from None


def _requeue(code: int, at_most: int, environ: Mapping[str, str]) -> int:
    """Ask Slurm for another start of this very job where work remains; ``code`` again, for the script to end with."""
    job = environ.get("SLURM_JOB_ID", "")
    if not job.isdecimal():
        raise UsageError("slurm requeue: SLURM_JOB_ID is not set: this is for the end of a batch script")
    restarts = environ.get("SLURM_RESTART_COUNT", "0")
    told = ask(["scontrol", "show", "job", "-o", job]).text
    wanted, why = requeued(code, state_in(told), int(restarts) if restarts.isdecimal() else 0, at_most)
    if wanted:
        said = ask(["scontrol", "requeue", job])
        why += f"; asked for another start of job {job}" if said.done else f", but Slurm does not: {said.text}"
    else:
        why = f"job {job} is not started again: {why}"
    sys.stderr.write(f"elaunch slurm: exit code {code}: {why}\n")
    return code
