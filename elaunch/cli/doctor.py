"""``elaunch doctor``: what is wrong with this host, or with the network between the nodes of a job."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from elaunch.cli.operator_flags import operator_parser, seconds, spelled
from elaunch.errors import ElaunchError

_TEXT = (
    "Look at this host for what would trouble a job: names, interfaces, routes, NICs, limits. With --job, have the"
    " nodes of a job that runs ask each other's interfaces."
)
_EPILOG = "Exit codes: 0 nothing is wrong but for warnings, 1 something is, else as for the operator's commands."
_PATIENCE = 20.0  # seconds for the drivers
_COLUMN = 86  # characters of a line of text


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code. Raises ElaunchError."""
    arguments = parsers()["doctor"].parse_args([spelled(word) for word in argv])
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else gRPC writes a line for each handshake that fails
    try:
        return _host(arguments.json, environ) if arguments.job is None else asyncio.run(_job(arguments, environ))
    except BrokenPipeError:  # `elaunch doctor | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ElaunchError as error:
        if arguments.json:
            print(json.dumps({"error": error.code, "text": str(error), "exit_code": error.exit_code}), flush=True)
        raise


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its one parser."""
    return {"doctor": operator_parser("elaunch doctor", _TEXT, _EPILOG, _arguments)}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--job", metavar="JOB", help="probe the interfaces of this job's nodes now")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the job's events")
    parser.add_argument("--timeout", type=seconds, default=20.0, metavar="SECONDS", help="wait so long for a job (20)")


def _host(as_json: bool, environ: Mapping[str, str]) -> int:
    from elaunch.doctor.checks import examine
    from elaunch.doctor.gathering import gather

    host = gather(asyncio.run(_machine(environ)))
    found = [dataclasses.asdict(complaint) for complaint in examine(host)]
    return _told({"host": host.name}, f"host {host.name}", found, as_json)


async def _machine(environ: Mapping[str, str]) -> Any:
    """What this host has; None where a driver does not answer in time."""
    from elaunch.agent.aside import aside
    from elaunch.agent.machine import sysfs_root
    from elaunch.topology.host.discovery import discover

    try:
        return await aside(lambda: discover(sysfs_root(environ)), _PATIENCE)
    except asyncio.TimeoutError:
        return None


async def _job(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from elaunch.cli.operator import ask

    after = await ask("probe", arguments, environ)
    found = [finding for text in after.answers.values() for finding in json.loads(text)]
    head = {"job": arguments.job, "answer": after.answer}
    return _told(head, f"job {arguments.job}: {after.answer}", found, arguments.json)


def _told(head: dict[str, Any], title: str, found: list[dict[str, Any]], as_json: bool) -> int:
    if as_json:
        print(json.dumps({**head, "findings": found}), flush=True)
    else:
        print(title)
        for finding in found:
            print(*_lines(finding), sep="\n")
        if not found and "answer" not in head:  # a job's says it
            print("nothing is wrong")
        sys.stdout.flush()
    return 1 if any(finding["severity"] == "error" for finding in found) else 0


def _lines(finding: Mapping[str, Any]) -> list[str]:
    """One finding as a person reads it: how bad, what, and below it what to do."""
    head = f"{finding['severity']:8} {finding['code']:22} "
    text = textwrap.wrap(finding["text"], _COLUMN) or [""]
    advice = textwrap.wrap(finding.get("advice", ""), _COLUMN - 3)
    rest = [*text[1:], *(f"{'-> ' if n == 0 else '   '}{line}" for n, line in enumerate(advice))]
    lines = [head + text[0], *(" " * len(head) + line for line in rest)]
    return ["".join(c if c.isprintable() else "?" for c in line) for line in lines]
