"""``elaunch bug-report JOB``: what is known of a job, packed for somebody who was not there, without secrets.

Each part is had or not, and the report says which; a job that is over, and an etcd that is gone, cost their parts only.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from elaunch.cli.bug_facts import Local, known_secrets, local_agents, saved_states
from elaunch.cli.bug_logs import log_folders, read_folders
from elaunch.cli.bundle import write_bundle
from elaunch.cli.operator_flags import operator_parser, spelled
from elaunch.cli.redaction import Redactor
from elaunch.errors import ElaunchError, NoSuchJobError, StorageError

_TEXT = (
    "Pack what is known of a job into one file for a bug report: status, events, what etcd has, this host's logs,"
    " topology, doctor, versions and environment, with secrets taken out. It may be over. Look through it before you"
    " pass it on."
)
_EPILOG = (
    "Exit codes: 0 written, 2 bad input, 66 written, but nothing is known of such a job, 74 it cannot be written."
    " What could not be had stands in its CONTENTS.txt."
)
_PATIENCE = 20.0  # seconds for each part
_MOST_OF_ETCD = 16 << 20  # bytes


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its one parser."""
    return {"bug-report": operator_parser("elaunch bug-report", _TEXT, _EPILOG, _arguments)}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="the job's --rdzv-id")
    parser.add_argument("--output", metavar="FILE", help="where to (elaunch-bug-JOB.tar.gz in this folder)")
    parser.add_argument("--log-dir", metavar="DIR", help="the job's --log-dir, where no agent of it runs here any more")


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code. Raises ElaunchError; NoSuchJobError with the report written, where the job is unknown."""
    arguments = parsers()["bug-report"].parse_args([spelled(word) for word in argv])
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else gRPC writes a line for each handshake that fails
    name = re.sub(r"[^\w.-]", "_", arguments.job)[:100]
    path = Path(arguments.output or f"elaunch-bug-{name}.tar.gz")
    report = asyncio.run(collect(arguments, environ))
    try:
        write_bundle(path, f"elaunch-bug-{name}", report.packed())
    except OSError as error:
        raise StorageError(f"bug-report: cannot write {path}: {error.strerror}") from error
    if arguments.json:
        print(json.dumps({"file": str(path), "parts": sorted(report.parts), "missing": report.missing}), flush=True)
    else:
        print(f"{path}: {len(report.parts)} files, {path.stat().st_size} bytes; look through it before you pass it on")
        for part, why in sorted(report.missing.items()):
            print(f"  without {part}: {why}", file=sys.stderr)
    if report.unknown:
        raise NoSuchJobError(
            f"bug-report: nothing is known of a job {arguments.job!r}; {path} has what this host tells"
        )
    return 0


class Report:
    """The parts so far, by their names in the archive, and why others are not there or not whole.

    ``unknown``: neither etcd nor this host knows of such a job.
    """

    def __init__(self, job: str, redactor: Redactor) -> None:
        self.parts: dict[str, bytes] = {}
        self.missing: dict[str, str] = {}
        self.unknown = False
        self._job = job
        self._redactor = redactor

    def add(self, name: str, content: Any) -> None:
        """Text, bytes, or a document, as JSON."""
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content, indent=2, sort_keys=True, default=str) + "\n"
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
        self.parts[_inside(self._redactor.text(name))] = self._redactor.data(data)

    def lack(self, name: str, why: str) -> None:
        self.missing[self._redactor.text(name)] = self._redactor.text(why)

    async def part(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work for a part, or note why it is not there."""
        from elaunch.rendezvous.waiting import within

        try:
            await within(_PATIENCE, work())
        except asyncio.TimeoutError:
            self.lack(name, f"not had within {_PATIENCE:.0f} s")
        except (ElaunchError, OSError, ValueError) as error:
            self.unknown |= isinstance(error, NoSuchJobError)
            self.lack(name, " ".join(str(error).split()) or type(error).__name__)

    def packed(self) -> dict[str, bytes]:
        """The parts with their table of contents."""
        lines = [f"elaunch bug report of job {self._job}", "", "Secrets are replaced by ***.", ""]
        lines += [f"{len(data):>10}  {name}" for name, data in sorted(self.parts.items())]
        lines += ["", *(f"not whole: {name}: {why}" for name, why in sorted(self.missing.items()))]
        text = self._redactor.text("\n".join(lines) + "\n")
        return {**self.parts, "CONTENTS.txt": text.encode("utf-8", "surrogateescape")}  # file names are any bytes


async def collect(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Report:
    """All parts that can be had."""
    agents = local_agents(arguments.job)
    redactor = Redactor(known_secrets(arguments, environ, agents))
    report = Report(arguments.job, redactor)
    report.add("versions.txt", _versions())
    report.add("environment.json", redactor.environment(environ))
    report.add("agents.json", [agent.document() for agent in agents])
    await report.part("status", lambda: _of_etcd(report, arguments, environ))
    await report.part("topology and doctor", lambda: _machine(report, environ))
    saved = list(saved_states(arguments.job))
    for name, data in saved:
        report.add(f"saved/{name}", data)
    logs = _logs(report, arguments, agents)
    report.unknown &= not (agents or saved or logs)
    return report


def _inside(name: str) -> str:
    """``name`` as one of the archive that is unpacked below its folder, whatever a job's keys are called."""
    return "/".join("_" if part in ("", ".", "..") else part for part in name.split("/"))


def _versions() -> str:
    from elaunch.cli.version import versions

    return "".join(f"{name} {value}\n" for name, value in versions())


async def _of_etcd(report: Report, arguments: argparse.Namespace, environ: Mapping[str, str]) -> None:
    """What etcd holds, raw as well: a record that cannot be read may be what is wrong."""
    from elaunch.cli import documents, show
    from elaunch.cli.places import security_of
    from elaunch.controller.chronicle import happenings
    from elaunch.controller.operator_client import live_status
    from elaunch.controller.survey import overview
    from elaunch.rendezvous.keys import JobKeys

    async with _store(arguments, environ) as store:
        keys, left = JobKeys(arguments.job), _MOST_OF_ETCD
        for item in (await store.list(keys.prefix)).items:
            left -= len(item.value)
            if left < 0:
                report.lack("etcd", "only the first 16 MiB of it")
                break
            report.add(f"etcd/{item.key.removeprefix(keys.prefix)}", item.value)
        lines = await happenings(store, arguments.job)
        report.add("events.txt", "".join(show.event(line) + "\n" for line in lines))
        seen = await overview(store, arguments.job)
        live: Any = "no leader"
        if seen.leader is not None and seen.leader.address and not seen.over:
            live = await live_status(seen.leader, arguments.job, security_of(arguments, environ), 3.0)
        report.add("status.json", documents.status_document(seen, live, lines, time.time()))
        report.add("status.txt", show.status(seen, live, lines, time.time(), ranks=True) + "\n")


@asynccontextmanager
async def _store(arguments: argparse.Namespace, environ: Mapping[str, str]) -> AsyncIterator[Any]:
    from elaunch.cli.places import opened, places

    async with opened(places(arguments, environ, arguments.job)[0]) as store:
        yield store


async def _machine(report: Report, environ: Mapping[str, str]) -> None:
    """What this host has, and what is wrong with it."""
    from elaunch.agent.aside import aside
    from elaunch.agent.machine import sysfs_root
    from elaunch.cli.topo_documents import document
    from elaunch.doctor.checks import examine
    from elaunch.doctor.gathering import gather
    from elaunch.topology.digest import digest
    from elaunch.topology.host.discovery import discover

    machine = await aside(lambda: discover(sysfs_root(environ)), None)
    report.add("topology.json", document(machine, None, digest(machine)))
    host = await aside(lambda: gather(machine), None)
    report.add("doctor.json", [dataclasses.asdict(complaint) for complaint in examine(host)])


def _logs(report: Report, arguments: argparse.Namespace, agents: Sequence[Local]) -> bool:
    """Whether there are any."""
    given = [arguments.log_dir] if arguments.log_dir else [agent.log_dir for agent in agents if agent.log_dir]
    folders = log_folders(arguments.job, given)
    if not folders:
        report.lack("logs", "none found on this host; --log-dir names the folder that the job was given")
    for found in read_folders(folders):
        name = f"logs/{found.name}"
        if found.why:
            report.lack(name, found.why)
        if found.data or not found.why:
            report.add(name, found.data)
    return bool(folders)
