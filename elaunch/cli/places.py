"""Where an operator's command looks for a job: the etcd that was named, else those of this user's agents here."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from elaunch.agent.local_jobs import local_jobs
from elaunch.agent.options import EtcdAccess
from elaunch.agent.store import open_store, tls_access, with_password
from elaunch.cli.endpoints import parse_endpoints
from elaunch.cli.parser import Values
from elaunch.cli.rendezvous_conf import parse_conf
from elaunch.cli.security import resolve_security
from elaunch.cli.serving_flags import SECURITY
from elaunch.controller.access import Security
from elaunch.errors import NoSuchJobError, UsageError
from elaunch.rendezvous.etcd import EtcdStore

ENDPOINT_VARIABLE = "ELAUNCH_ENDPOINT"
_PORT = 2379
_PATIENCE = 5.0  # seconds for an etcd to answer


@dataclass(frozen=True, slots=True)
class Place:
    """One etcd, and the way to speak to it."""

    endpoints: tuple[str, ...]
    access: EtcdAccess


def security_of(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Security:
    """The certificates and tokens of the command line, else of the environment. Raises UsageError."""
    values: dict[str, str | None] = {}
    sources: dict[str, str] = {}
    for flag in SECURITY:
        values[flag.dest] = getattr(arguments, flag.dest)
        sources[flag.dest] = f"--{flag.dest.replace('_', '-')}"
        for variable in flag.variables:
            if not values[flag.dest] and environ.get(variable):
                values[flag.dest], sources[flag.dest] = environ[variable], variable
    return resolve_security(Values(values, sources, {}, ()))


def places(arguments: argparse.Namespace, environ: Mapping[str, str], job: str | None = None) -> list[Place]:
    """Where to look, for ``job`` or for all. Raises UsageError, and NoSuchJobError where no agent runs ``job`` here."""
    text = arguments.endpoint or environ.get(ENDPOINT_VARIABLE, "")
    asked = _asked_access(arguments, environ)
    if text:
        source = "--rdzv-endpoint" if arguments.endpoint else ENDPOINT_VARIABLE
        return [Place(_endpoints(text, source), asked or EtcdAccess())]
    found: dict[Place, None] = {}
    for local in local_jobs():
        if job is None or local.job == job:
            found[Place(local.endpoints, asked or with_password(local.access, environ))] = None
    if not found and job is not None:
        raise NoSuchJobError(
            f"no agent of yours runs job {job!r} on this host: it is over, or runs elsewhere; elaunch ps lists those"
            " that are here, --rdzv-endpoint=HOST:PORT names the etcd of another"
        )
    return list(found)


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[EtcdStore]:
    """The store there, once it answers. Raises EndpointUnreachableError."""
    store = open_store(place.endpoints, place.access)
    try:
        await store.check(timeout=_PATIENCE)
        yield store
    finally:
        await store.close()


def _endpoints(text: str, source: str) -> tuple[str, ...]:
    if text.startswith("unix:"):
        return (text,)
    try:
        return tuple(str(endpoint) for endpoint in parse_endpoints(text, _PORT))
    except ValueError as error:
        raise UsageError(f"{source}={text}: {error}") from None


def _asked_access(arguments: argparse.Namespace, environ: Mapping[str, str]) -> EtcdAccess | None:
    """As --rdzv-conf says; without it as for a job's own etcd, which has the job's certificate where there is one."""
    conf = arguments.rdzv_conf
    if not conf:
        tls = security_of(arguments, environ).tls
        return tls_access(tls) if tls is not None else None
    try:
        return parse_conf(conf, environ)[0].access
    except ValueError as error:
        raise UsageError(f"--rdzv-conf={conf}: {error}") from None
