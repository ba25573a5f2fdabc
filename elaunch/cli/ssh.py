"""``elaunch ssh``: one agent on each host of a list, by OpenSSH, for those without a scheduler."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from elaunch.agent.console import own_words
from elaunch.agent.far_job import FarJob, run_far_job
from elaunch.cli import output, settings
from elaunch.cli.parser import HINT, Values, build_parser, read, split_command
from elaunch.errors import UsageError
from elaunch.hosts.host_file import Host, parse_file, parse_list
from elaunch.hosts.plan import PLACE_VARIABLE, Ways, absolute_path, candidates, command_of, passed_on
from elaunch.hosts.words import Order

_KILLED = 10.0  # seconds beyond the grace of its ranks after which an agent is killed
_LONGEST = 86_400.0
_OF_FILES = (".txt", ".list", ".conf", ".cfg", ".csv")  # what no host's name ends in
_MEETING = ("rdzv_endpoint", "master_addr", "master_port", "standalone")
_EPILOG = (
    "All options of elaunch may stand beside these and are handed on; what they say wins. Without them the hosts meet "
    "at the first three, and all but --spares are needed. PET_* of the environment goes along. See "
    "docs/ssh.md."
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"ssh: {message.removeprefix('argument ')}; elaunch ssh --help shows how")


@dataclass(frozen=True, slots=True)
class _Asked:
    """``values`` are those of elaunch's own options, which are also in ``options`` as they were given."""

    own: argparse.Namespace
    options: tuple[str, ...]
    command: tuple[str, ...]
    values: Values


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """The job's exit code. Raises UsageError, JoinTimeoutError where too few hosts are there."""
    asked = _asked(arguments, environ)
    task = _task(asked, environ)
    if asked.own.ssh_dry_run:
        sys.stdout.write(_shown(task))
        return 0
    import asyncio

    level = settings.log_level(asked.values, environ)
    log = output.configure(level, environ.get(output.FORMAT_VARIABLE, output.AUTO), job=task.job)
    log.info("hosts", text=f"asked by ssh: {len(task.hosts)}")
    return asyncio.run(run_far_job(task))


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its parsers, by the words that lead to them."""
    return {"ssh": _parser()}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="elaunch ssh",
        usage="elaunch ssh --hosts FILE|HOST,... [OPTIONS] SCRIPT [ARGS...]",
        description="Start an agent on each of some hosts by ssh, and stay until the job is done.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--hosts", metavar="FILE|HOST,...", help="a file with a host on each line, or names: user@gpu[01-08]:22")
    add("--ssh-env", action="append", default=[], metavar="NAME", help="set there as here: NAME,NCCL_*; or NAME=VALUE")
    add("--ssh-dir", metavar="DIR", help="working directory there (default: the same as here)")
    add("--ssh-python", metavar="PATH", help="the Python there that has elaunch (default: the same as here)")
    add("--ssh-option", action="append", default=[], metavar="K=V", help="as for ssh -o: may be given again")
    add("--ssh-timeout", type=int, default=15, metavar="SECONDS", help="for connecting to a host (15)")
    add(
        "--ssh-silence",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="a host that hears nothing from here for so long ends its part (60)",
    )
    add("--ssh-dry-run", action="store_true", help="print what would be run, and run nothing")
    return parser


def _asked(arguments: Sequence[str], environ: Mapping[str, str]) -> _Asked:
    """The command line in its parts: ours, elaunch's, the program's."""
    parser = _parser()
    whole = build_parser()
    ours = {name: action for action in parser._actions for name in action.option_strings}
    for name, action in ours.items():
        if name not in ("-h", "--help"):
            whole.add_argument(name, action="store_true" if action.nargs == 0 else "store")
    options, command = split_command(whole, arguments)
    own: list[str] = []
    handed_on: list[str] = []
    position = 0
    while position < len(options):
        size = 2 if whole.takes_value(options[position]) else 1
        place = own if options[position].partition("=")[0] in ours else handed_on
        place += options[position : position + size]
        position += size
    found = parser.parse_args(own)
    if not found.hosts:
        raise UsageError("ssh: --hosts=FILE|HOST,... says on which hosts; elaunch ssh --help shows how")
    if not command:
        raise UsageError(f"no script given; {HINT}")
    return _Asked(found, tuple(handed_on), tuple(command), read([*handed_on, "--", *command], environ))


def _task(asked: _Asked, environ: Mapping[str, str]) -> FarJob:
    own, values = asked.own, asked.values
    hosts = _hosts(own.hosts)
    for name, least, most in (("ssh_timeout", 1, 3600), ("ssh_silence", 5, _LONGEST)):
        if not least <= getattr(own, name) <= most:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option}={getattr(own, name):g}: expected {least} to {most:g} seconds")
    told = _told(values, hosts)
    low, high = settings.nodes(replace(values, values={**values.values, **told}))
    if low > len(hosts):
        raise values.error("min_nodes" if values.given("min_nodes") else "nnodes", f"--hosts has {len(hosts)} of them")
    passed = passed_on(environ, [name for word in own.ssh_env for name in _names(word)])
    grace = settings.shutdown_timeout(values, passed)
    meets = high > 1 and told.get("rdzv_backend", values["rdzv_backend"]) != "etcd"
    meets = meets and not any(values.given(dest) for dest in _MEETING)
    form = output.chosen(output.AUTO, own_words())  # the agents have no terminal, but a person may be at ours
    directory = os.path.abspath(own.ssh_dir) if own.ssh_dir else os.getcwd()

    def order(place: int, where: tuple[str, ...]) -> Order:
        added = {**told, **_meeting(values, told, where, place)}
        options = [f"--{name.replace('_', '-')}={value}" for name, value in added.items()]
        words = (*options, *asked.options, "--", *asked.command)
        environment = {output.FORMAT_VARIABLE: form, **passed, PLACE_VARIABLE: str(place)}
        return Order(words, environment, directory, own.ssh_silence, grace + _KILLED)

    return FarJob(
        job=str(told.get("rdzv_id", values["rdzv_id"])),
        hosts=hosts,
        ways=Ways(
            python=own.ssh_python or sys.executable,
            path=absolute_path(environ.get("PYTHONPATH", ""), os.getcwd()),
            options=tuple(own.ssh_option),
            timeout=own.ssh_timeout,
        ),
        least=low,
        grace=grace,
        silence=own.ssh_silence,
        meets=meets,
        orders=order,
    )


def _names(word: str) -> list[str]:
    """Of variables, with commas between; a value may have commas in it."""
    if "=" in word:
        return [word]
    return [name for name in word.split(",") if name]


def _hosts(text: str) -> tuple[Host, ...]:
    path = Path(text)
    try:
        if path.exists() or os.sep in text or path.suffix in _OF_FILES:
            return parse_file(path.read_text(encoding="utf-8-sig"))
        return parse_list(text)
    except OSError as error:
        raise UsageError(f"--hosts={text}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--hosts={text}: {error}") from None


def _told(values: Values, hosts: tuple[Host, ...]) -> dict[str, Any]:
    """What the list of hosts says, in the place of options that were not given."""
    told: dict[str, Any] = {}
    if not values.given("rdzv_id"):
        told["rdzv_id"] = f"ssh-{uuid.uuid4().hex[:12]}"
    if not values.given("nnodes"):
        spares = max(0, values["spares"])
        if spares >= len(hosts):
            raise values.error("spares", f"expected fewer than {len(hosts)}, the hosts of --hosts")
        told["nnodes"] = str(len(hosts) - spares)
    if len(hosts) > 1 and not values.given("rdzv_backend") and not values.given("standalone"):
        told["rdzv_backend"] = "c10d"
    if not values.given("nproc_per_node") and (slots := _slots(hosts)):
        told["nproc_per_node"] = str(slots)
    return told


def _slots(hosts: tuple[Host, ...]) -> int | None:
    """The ranks of each host: all have the same number."""
    said = {host.slots: host.label for host in hosts}
    if len(said) > 1:
        listed = ", ".join(f"{label} {'none' if slots is None else slots}" for slots, label in said.items())
        raise UsageError(f"--hosts: all hosts have the same number of ranks, and slots are {listed}")
    return hosts[0].slots


def _meeting(values: Values, told: Mapping[str, Any], where: tuple[str, ...], place: int) -> dict[str, Any]:
    backend = told.get("rdzv_backend", values["rdzv_backend"])
    if backend != "static":
        return {"rdzv_endpoint": ",".join(where)} if where else {}
    rank = {} if values.given("node_rank") or place == 0 else {"node_rank": place}
    return {**({"rdzv_endpoint": where[0]} if where else {}), **rank}


def _shown(task: FarJob) -> str:
    """The commands, and what each host is then told to run where the hosts meet at their own names."""
    ports = candidates(task.job) if task.meets else ()
    where = tuple(f"{host.address or host.name}:{ports[0]}" for host in task.hosts[:3]) if ports else ()
    lines = []
    for place, host in enumerate(task.hosts):
        lines.append(shlex.join(command_of(host, task.ways, "WORD", ports, "LOG")))
        lines.append(f"    {shlex.join(['elaunch', *task.orders(place, where).arguments])}")
    return "\n".join(lines) + "\n"
