"""The operator's commands: find the job, ask or command, show what came of it."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import io
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from elaunch.cli.operator_flags import parse_operator
from elaunch.errors import CommandRefusedError, ElaunchError, EndpointUnreachableError, NoSuchJobError


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run one command, ``argv[0]``; the exit code. Raises ElaunchError."""
    arguments = parse_operator(argv)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else gRPC writes of connections that end, in the midst of ours
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    carry_out = {"ps": _ps, "status": _status, "events": _events, "top": _top}.get(arguments.command, _command)
    try:
        return asyncio.run(carry_out(arguments, environ))
    except ElaunchError as error:
        if arguments.json:
            print_json({"error": error.code, "text": str(error), "exit_code": error.exit_code})
        raise
    except BrokenPipeError:  # `elaunch events -f | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def _ps(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from elaunch.cli import documents, show
    from elaunch.cli.places import opened, places
    from elaunch.controller.survey import job_names, overview

    found, silent = [], []
    for place in places(arguments, environ):
        try:
            async with opened(place) as store:
                for job in await job_names(store):
                    try:
                        found.append((await overview(store, job), ",".join(place.endpoints)))
                    except (NoSuchJobError, CommandRefusedError):
                        continue  # gone meanwhile, or another program's keys
        except EndpointUnreachableError:
            if arguments.endpoint:
                raise
            silent.append(",".join(place.endpoints))
    if arguments.json:
        print_json([documents.job_row(seen, endpoints) for seen, endpoints in found])
    else:
        print(show.jobs(found, silent), flush=True)
    return 0


async def _status(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from elaunch.cli import documents, show
    from elaunch.cli.places import security_of
    from elaunch.controller.chronicle import happenings
    from elaunch.controller.operator_client import live_status
    from elaunch.controller.survey import overview

    security = security_of(arguments, environ)
    async with _store(arguments, environ, arguments.job) as store:
        seen = await overview(store, arguments.job)
        lines = await happenings(store, arguments.job)
        live: Any = "no leader"
        if seen.leader is not None and seen.leader.address and not seen.over:
            live = await live_status(seen.leader, arguments.job, security, 3.0)
    if arguments.json:
        print_json(documents.status_document(seen, live, lines, time.time()))
    else:
        print(show.status(seen, live, lines, time.time(), ranks=arguments.ranks), flush=True)
    return 0


async def _top(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from elaunch.cli.top import run

    return await run(arguments, environ)


async def _events(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from elaunch.cli import show
    from elaunch.controller.chronicle import follow_happenings, happenings
    from elaunch.controller.survey import GONE, overview

    async with _store(arguments, environ, arguments.job) as store:
        if not arguments.follow:
            for line in await happenings(store, arguments.job):
                print(show.event(line, as_json=arguments.json))
            return 0
        async with aclosing(follow_happenings(store, arguments.job)) as lines:
            async for line in lines:
                print(show.event(line, as_json=arguments.json), flush=True)
        if (await overview(store, arguments.job)).phase == GONE:
            print("elaunch: no agent of this job lives any more", file=sys.stderr)
    return 0


async def _command(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Each job's command, one after the other: `drain` may be about several."""
    from elaunch.cli.places import opened, places, security_of

    kind = arguments.command
    tokens = security_of(arguments, environ).tokens
    node = kind in ("drain", "undrain")
    worst: ElaunchError | None = None
    found = 0
    for place in places(arguments, environ, arguments.job):
        async with opened(place) as store:
            jobs = await _jobs_of(store, arguments) if node and arguments.job is None else [arguments.job]
            for job in jobs:
                found += 1
                error = await _one(store, job, arguments, tokens)
                if error is not None and worst is not None:
                    print(f"elaunch: error: {worst}", file=sys.stderr)
                worst = error or worst
    if not found:
        raise NoSuchJobError(f"{kind}: no job that runs has a node or host {arguments.node}")
    if worst is not None:
        if not arguments.json:
            raise worst
        print(f"elaunch: error: {worst}", file=sys.stderr)
        return worst.exit_code
    return 0


async def ask(kind: str, arguments: argparse.Namespace, environ: Mapping[str, str], **values: Any) -> Any:
    """The command ``kind`` for ``arguments.job``, once it is done. Raises ElaunchError where it is not."""
    from elaunch.cli.places import security_of
    from elaunch.controller.operating import outcome, submit, verdict
    from elaunch.rendezvous.keys import JobKeys
    from elaunch.rendezvous.listeners import listening

    job, tokens, wait = arguments.job, security_of(arguments, environ).tokens, arguments.timeout
    async with _store(arguments, environ, job) as store, listening(store, JobKeys(job)):
        asked = await submit(store, job, kind, _who(), time.time(), arguments.reason, tokens, **values)
        after = await outcome(store, job, asked, wait)
    if (error := verdict(job, after, wait)) is not None:
        raise error
    return after


async def _one(store: Any, job: str, arguments: argparse.Namespace, tokens: Any) -> ElaunchError | None:
    from elaunch.cli import documents, show
    from elaunch.controller.operating import outcome, submit, verdict
    from elaunch.rendezvous.keys import JobKeys
    from elaunch.rendezvous.listeners import listening

    kind, wait = arguments.command, arguments.timeout
    async with listening(store, JobKeys(job)):
        asked = await submit(store, job, kind, _who(), time.time(), arguments.reason, tokens, **_values(arguments))
        after = await outcome(store, job, asked, wait)
    error = verdict(job, after, wait)
    if arguments.json:
        print_json(documents.operation_document(job, after))
    elif error is None:
        print(show.operation(job, after), flush=True)
    return error


async def _jobs_of(store: Any, arguments: argparse.Namespace) -> list[str]:
    """The jobs that have this node, or keep its host out."""
    from elaunch.controller.survey import job_names, overview

    found = []
    for job in await job_names(store):
        try:
            seen = await overview(store, job)
        except (NoSuchJobError, CommandRefusedError):
            continue
        here = any(arguments.node in (node.host, node.node_id) for node in seen.nodes)
        drained = seen.state.drained if seen.state else ()
        out = any(arguments.node == drain.host or arguments.node in drain.nodes for drain in drained)
        if (here or out) and not seen.over:
            found.append(job)
    return found


def _values(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the command says beside its job."""
    if arguments.command == "scale":
        low, high = arguments.size
        return {"min_nodes": low, "max_nodes": high}
    names = {
        "abort": ("evidence",),
        "restart": ("from_step",),
        "drain": ("node",),
        "undrain": ("node",),
        "stacks": ("rank",),
        "signal": ("signal", "rank"),
    }
    return {name: getattr(arguments, name) for name in names[arguments.command]}


@asynccontextmanager
async def _store(arguments: argparse.Namespace, environ: Mapping[str, str], job: str) -> AsyncIterator[Any]:
    """The etcd of ``job``: of several that this user's agents know, the first has it."""
    from elaunch.cli.places import opened, places

    place = places(arguments, environ, job)[0]
    async with opened(place) as store:
        yield store


def _who() -> str:
    """Who commands, for the job's events: the user as this machine knows it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def print_json(document: Any) -> None:
    print(json.dumps(document), flush=True)
